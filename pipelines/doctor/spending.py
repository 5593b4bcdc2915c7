"""Whether an AWS account can watch what a plan will cost: Cost Explorer, and the tags of its budget."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

from nightshift.contracts.health import HealthCheck, HealthReport
from nightshift.runtime.errors import require_extra
from pipelines.doctor import aws
from pipelines.doctor.findings import Checks, failure, run_checks, skip, success
from pipelines.doctor.kubernetes import Json

BUDGET, MONITOR = "aws_budgets_budget", "aws_ce_anomaly_monitor"
BUDGET_TAGS = ("project", "environment")  # by which the budget of infra/aws finds costs
RIGHTS = "ce:GetCostAndUsage and ce:ListCostAllocationTags"
WITHOUT = "budget: {anomalies: false} in the answers file"
ACTIVATE = f"the management account has to activate the tags {' and '.join(BUDGET_TAGS)} under Cost allocation tags"
# words of AWS's refusals
NEVER_OPENED, NO_DATA, MEMBER = "not enabled for cost explorer", "DataUnavailableException", "linked account"


def add_spending(report: HealthReport, explorer: Any, resources: Sequence[Json], today: date) -> HealthReport:
    """Return a report with what a plan needs of Cost Explorer.

    Args:
        report: what else was checked.
        explorer: boto3's client of `ce`, of which AWS bills each request (0.01 USD).
        resources: those of the plan.
        today: the last day that AWS may be asked about.
    """
    checks = run_checks("costs", lambda: check_spending(explorer, {item["type"] for item in resources}, today))
    return report.model_copy(update={"checks": [*report.checks, *checks]})


def check_spending(explorer: Any, types: set[str], today: date) -> Checks:
    """Check what planned types of resources need: costs for an anomaly monitor, tags for a budget."""
    if MONITOR in types:
        yield _check_explorer(explorer, today)
    if BUDGET in types:
        yield _check_tags(explorer, is_watched=MONITOR in types)


def connect() -> Any:
    """Return the client of Cost Explorer, which is in one region, with the user's credentials."""
    with require_extra("doctor --cloud aws", "aws"):
        import boto3
    return boto3.client("ce", region_name="us-east-1")


def _check_explorer(explorer: Any, today: date) -> HealthCheck:
    name = "Cost Explorer"
    period = {"Start": (today - timedelta(days=1)).isoformat(), "End": today.isoformat()}
    query = {"TimePeriod": period, "Granularity": "DAILY", "Metrics": ["UnblendedCost"]}
    try:
        aws.call(lambda: explorer.get_cost_and_usage(**query), RIGHTS)
    except aws.AwsRefusalError as refused:
        if NO_DATA in refused.reason:
            opened = "if nobody has opened Cost Explorer in this account, open it once in the Billing console"
            return skip(name, f"it has no data yet, as in a new account; {opened}, and costs follow in about a day")
        if NEVER_OPENED not in refused.reason.lower():
            raise
        fix = (
            "open Cost Explorer once in the Billing console (no API enables it), in an organization as the management"
            f" account, and wait a day; or {WITHOUT}, then the same command again"
        )
        return failure(name, "not enabled for this account", "enabled: the plan has an anomaly monitor", fix)
    return success(name, "enabled")


def _check_tags(explorer: Any, is_watched: bool) -> HealthCheck:
    name = "cost allocation tags"
    try:
        answer = aws.call(lambda: explorer.list_cost_allocation_tags(TagKeys=list(BUDGET_TAGS)), RIGHTS)
    except aws.AwsRefusalError as refused:
        if MEMBER not in refused.reason.lower():
            raise
        return _judge_member(name, is_watched)
    active = {tag["TagKey"] for tag in answer["CostAllocationTags"] if tag["Status"] == "Active"}
    if active >= set(BUDGET_TAGS):
        return success(name, "active")
    missing = " and ".join(tag for tag in BUDGET_TAGS if tag not in active)
    return skip(name, f"{missing} not active yet, so the budget sees no costs; make cloud-up activates what AWS lists")


def _judge_member(name: str, is_watched: bool) -> HealthCheck:
    seen = "a member account of an organization"
    if not is_watched:
        return skip(name, f"{seen}; the budget sees no costs before it: {ACTIVATE}")
    allowed = "a management account: the plan has an anomaly monitor, and AWS lets no other watch a tag"
    return failure(name, seen, allowed, f"{WITHOUT}, then the same command again; {ACTIVATE}")
