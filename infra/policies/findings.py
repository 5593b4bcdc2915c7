"""All rules over one environment."""

# each registers its rules
from infra.policies import (  # noqa: F401
    identities,
    limits,
    machines,
    names,
    networks,
    pipelines,
    queries,
    secrets,
    storage,
    volumes,
    workloads,
)
from infra.policies.model import POLICIES, Environment


def judge(environment: Environment) -> list[str]:
    """Return all distinct findings, each with its rule and source."""
    return sorted(
        {f"{policy.id}: {problem} [{policy.source}]" for policy in POLICIES for problem in policy.rule(environment)}
    )
