"""Quotas of a cloud account against the most that the node pools of a Terraform plan can grow to."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nightshift.contracts.health import HealthCheck, HealthReport
from nightshift.runtime.errors import UserError
from pipelines.doctor.findings import Checks, failure, run_checks, skip, success
from pipelines.doctor.kubernetes import Json

RUNBOOK = "docs/runbooks/gpu-quota.md"


@dataclass(frozen=True)
class QuotaKey:
    """A quota by the name that its cloud's API has for it.

    Attributes:
        scope: AWS: a service, such as `ec2`; Google Cloud: a region, or empty for the project.
        name: AWS: the quota's code; Google Cloud: its metric.
        unit: what is counted.
    """

    scope: str
    name: str
    unit: str


@dataclass(frozen=True)
class QuotaLimit:
    """What an account may use at once.

    Attributes:
        label: what people call the quota.
        value: of it, in the key's unit.
        fix: how to ask for more; `{amount}` stands for how much.
    """

    label: str
    value: float
    fix: str


@dataclass
class QuotaDemand:
    """The most that a plan can use of a quota, and by what."""

    amount: float = 0.0
    users: list[str] = field(default_factory=list)


class Quotas(Protocol):
    """A cloud's API of quotas."""

    def find(self, key: QuotaKey) -> QuotaLimit | None:
        """Return a quota; None when the cloud does not know it.

        Raises:
            UserError: when the cloud refuses.
            UnavailableError: when it does not answer.
        """

    def demand(self, resources: Sequence[Json]) -> Mapping[QuotaKey, QuotaDemand]:
        """Return the most that planned resources can use."""


class QuotaDemands(defaultdict[QuotaKey, QuotaDemand]):
    """QuotaDemands by quota, summed over resources."""

    def __init__(self) -> None:
        """Start with none."""
        super().__init__(QuotaDemand)

    def add(self, key: QuotaKey, amount: float, user: str) -> None:
        """Count what one resource can use."""
        self[key].amount += amount
        self[key].users.append(f"{user} {amount:g}")


def diagnose_quotas(cloud: str, quotas: Quotas, resources: Sequence[Json]) -> HealthReport:
    """Return whether an account has room for a plan."""
    checks = list(run_checks(f"quotas of {cloud}", lambda: check_quotas(quotas, resources)))
    return HealthReport(environment=cloud, in_pod=False, checks=checks)


def check_quotas(quotas: Quotas, resources: Sequence[Json]) -> Checks:
    """Check every quota that planned resources use."""
    for key, demand in quotas.demand(resources).items():
        yield _check_quota(key, demand, quotas.find(key))


def read_plan(file: Path) -> tuple[Mapping[str, Any], list[Json]]:
    """Return the variables and the resources of a Terraform plan, as `terraform show -json` prints it.

    Raises:
        UserError: when the file is no such plan.
    """
    try:
        plan = json.loads(file.read_text())
        variables = {name: variable["value"] for name, variable in plan["variables"].items()}
        return variables, list(_walk(plan["planned_values"]["root_module"]))
    except (ValueError, KeyError, TypeError):
        raise UserError(f"--plan is {file}, no plan; write it with: terraform show -json plan > plan.json") from None


def _walk(module: Json) -> Iterator[Json]:
    yield from (resource for resource in module.get("resources", []) if "values" in resource)
    for child in module.get("child_modules", []):
        yield from _walk(child)


def _check_quota(key: QuotaKey, demand: QuotaDemand, limit: QuotaLimit | None) -> HealthCheck:
    need = f"{demand.amount:g} {key.unit} ({', '.join(demand.users)})"
    if limit is None:
        return skip(f"quota {key.name}", f"the cloud has none of that name; the plan needs {need}: see {RUNBOOK}")
    name, seen = f"quota {limit.label}", f"{limit.value:g} {key.unit}"
    if limit.value < demand.amount:
        return failure(name, seen, need, f"{limit.fix.format(amount=f'{demand.amount:g}')}; days pass: {RUNBOOK}")
    return success(name, f"{seen}, needed {need}")
