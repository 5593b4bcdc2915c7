"""All rules over one environment."""

from infra.policies import identities, limits, names, networks
from infra.policies.model import POLICIES, Environment

RULES = (identities, limits, names, networks)  # each registers its rules


def judge(environment: Environment) -> list[str]:
    """Return what breaks a rule, each once: the rule, what it found and what it goes by."""
    return sorted(
        {f"{policy.id}: {problem} [{policy.source}]" for policy in POLICIES for problem in policy.rule(environment)}
    )
