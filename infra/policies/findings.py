"""Findings of all rules on one environment."""

from collections.abc import Iterator

# importing a module registers its rules
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
    """Return the distinct findings, each with its rule and source, sorted."""
    return sorted(
        {
            f"{policy.id}: {problem} [{policy.source}]"
            for policy in POLICIES
            for problem in _problems(policy, environment)
        }
    )


def _problems(policy: Policy, environment: Environment) -> Iterator[Problem | str]:
    """Yield the problems of a rule; it stops at a value that it cannot read, such as a size of 5GB."""
    try:
        yield from policy.rule(environment)
    except ValueError as error:
        yield f"this rule cannot read a value: {error}"
