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
    references,
    secrets,
    series,
    storage,
    volumes,
    workloads,
)
from infra.policies.model import POLICIES, Environment


def judge(environment: Environment) -> list[str]:
    """Return what breaks a rule, each once: the rule, what it found and what it goes by."""
    return sorted(
        {f"{policy.id}: {problem} [{policy.source}]" for policy in POLICIES for problem in policy.rule(environment)}
    )
