"""All rules over one environment."""

from infra.policies import (
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

RULES = (
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
)  # each registers its rules


def judge(environment: Environment) -> list[str]:
    """Return what breaks a rule, each once: the rule, what it found and what it goes by."""
    return sorted(
        {f"{policy.id}: {problem} [{policy.source}]" for policy in POLICIES for problem in policy.rule(environment)}
    )
