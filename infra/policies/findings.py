"""Findings of all rules on one environment, and those that its answers allow."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from infra.cloud.answers import Waiver

# importing a module registers its rules
from infra.policies import (  # noqa: F401
    capacity,
    exposure,
    identities,
    limits,
    machines,
    names,
    networks,
    pipelines,
    protected,
    queries,
    references,
    secrets,
    series,
    settings,
    storage,
    volumes,
    workloads,
)
from infra.policies.limits import ROWS
from infra.policies.model import POLICIES, Environment, Policy, Severity
from nightshift.runtime.errors import check_names


@dataclass(frozen=True, order=True)
class Violation:
    """A violation: its rule, severity, resource and sentence."""

    rule: str
    severity: Severity
    resource: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"

    @property
    def waiver(self) -> str:
        """The line that allows it, below `policies.allow` of the answers."""
        return f"- {{rule: {self.rule}, resource: '{self.resource}', reason: WHY, until: YYYY-MM-DD}}"


@dataclass(frozen=True)
class Report:
    """Findings by what the answers say of them, and the waivers that no finding needs."""

    open: list[Violation]
    allowed: list[tuple[Violation, Waiver]]
    expired: list[tuple[Violation, Waiver]]
    unused: list[Waiver]

    @property
    def fails(self) -> bool:
        """Say whether something breaks or exposes, or was allowed for too long."""
        return bool(self.expired) or any(finding.severity is not Severity.ADVICE for finding in self.open)

    def lines(self) -> Iterator[str]:
        """Yield what to print, the worst last."""
        for finding, waiver in self.allowed:
            yield f"allowed until {waiver.until} ({waiver.reason}): {finding}"
        for waiver in self.unused:
            yield f"policies.allow: no finding of {waiver.rule} on {waiver.resource}; remove the waiver"
        for finding in sorted(self.open, key=lambda finding: finding.severity is not Severity.ADVICE):
            yield f"{finding.severity}: {finding}\n    to allow it: {finding.waiver}"
        for finding, waiver in self.expired:
            yield f"{finding.severity}: {finding}\n    allowed until {waiver.until}: fix it, or give a later day"


def report(environment: Environment, today: date) -> Report:
    """Judge an environment, waivers included.

    Raises:
        UserError: when a waiver names a rule that there is not.
    """
    check_names("policies.allow.rule", [waiver.rule for waiver in environment.waivers], rules())
    findings, waivers = find(environment), {(waiver.rule, waiver.resource): waiver for waiver in environment.waivers}
    waived = [(finding, waivers.get((finding.rule, finding.resource))) for finding in findings]
    return Report(
        [finding for finding, waiver in waived if waiver is None],
        [(finding, waiver) for finding, waiver in waived if waiver and waiver.until >= today],
        [(finding, waiver) for finding, waiver in waived if waiver and waiver.until < today],
        [waiver for waiver in environment.waivers if waiver not in [used for _, used in waived]],
    )


def rules() -> list[str]:
    """Return the names of the rules, those of the rows of tables included."""
    return [*(policy.id for policy in POLICIES), *ROWS]


def judge(environment: Environment) -> list[str]:
    """Return the findings as texts, whatever the answers allow."""
    return [str(finding) for finding in find(environment)]


def find(environment: Environment) -> list[Violation]:
    """Return the distinct findings, each with its rule and source, sorted."""
    return sorted({finding for policy in POLICIES for finding in _findings(policy, environment)})


def _findings(policy: Policy, environment: Environment) -> Iterator[Violation]:
    """Yield the findings of a rule; it stops at a value that it cannot read, such as a size of 5GB."""
    try:
        for problem in policy.rule(environment):
            rule, severity = problem.rule or policy.id, problem.severity or policy.severity
            yield Violation(rule, severity, problem.where, f"{problem} [{policy.source}]")
    except ValueError as error:
        yield Violation(policy.id, Severity.BREAKS, environment.name, f"this rule cannot read a value: {error}")
    except (LookupError, TypeError, AttributeError) as error:
        text = f"this rule cannot judge what it does not expect: {type(error).__name__}: {error}"
        yield Violation(policy.id, Severity.ADVICE, environment.name, text)
