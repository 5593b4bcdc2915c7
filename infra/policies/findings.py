"""All rules over one environment."""

from collections.abc import Iterator

# each registers its rules
from infra.policies import (  # noqa: F401
    identities,
    limits,
    machines,
    names,
    networks,
    pipelines,
    queries,
    references,
    secrets,
    series,
    storage,
    volumes,
    workloads,
)
from infra.policies.model import POLICIES, Environment, Policy, Problem


def judge(environment: Environment) -> list[str]:
    """Return all distinct findings, each with its rule and source."""
    return sorted(
        {
            f"{policy.id}: {problem} [{policy.source}]"
            for policy in POLICIES
            for problem in _problems(policy, environment)
        }
    )


def _problems(policy: Policy, environment: Environment) -> Iterator[Problem | str]:
    """Yield what a rule finds, and the value that it cannot read, such as a size of 5GB, at which it ends."""
    try:
        yield from policy.rule(environment)
    except ValueError as error:
        yield f"it cannot be judged: {error}"
