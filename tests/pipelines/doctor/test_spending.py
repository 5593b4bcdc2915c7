"""What Cost Explorer says to new, member and other accounts, and what the doctor makes of it."""

from datetime import date
from typing import Any

import pytest
from botocore.exceptions import ClientError

from nightshift.contracts.health import CheckStatus, HealthCheck, HealthReport
from pipelines.doctor import spending

TODAY = date(2026, 11, 29)
PLAN = [{"type": spending.BUDGET}, {"type": spending.MONITOR}]
# as AWS words them
NO_DATA = "Data is not available. Please try to adjust the time period."
DISABLED = "User not enabled for cost explorer access"
MEMBER = "Failed to list Cost Allocation Tags: Linked account doesn't have access to cost allocation tags."
UNAUTHORIZED = "User: arn:aws:iam::444444444444:user/ann is not authorized to perform: ce:GetCostAndUsage"


class CostExplorer:
    """The client of Cost Explorer; moto's answers whatever the account is."""

    def __init__(self, costs: tuple[str, str] | None = None, tags: tuple[str, str] | None = None) -> None:
        self.costs, self.tags = costs, tags

    def get_cost_and_usage(self, **query: Any) -> dict[str, Any]:
        assert query["TimePeriod"] == {"Start": "2026-11-28", "End": "2026-11-29"}
        return refuse(self.costs) or {"ResultsByTime": [{}]}

    def list_cost_allocation_tags(self, **query: Any) -> dict[str, Any]:
        return refuse(self.tags) or {"CostAllocationTags": [{"TagKey": "project", "Status": "Active"}]}


def refuse(refusal: tuple[str, str] | None) -> None:
    if refusal:
        code, message = refusal
        answer = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": 400}}
        raise ClientError(answer, "GetCostAndUsage")  # type: ignore[arg-type]


def check(explorer: CostExplorer, plan: list[dict[str, str]] = PLAN) -> tuple[HealthReport, dict[str, HealthCheck]]:
    report = HealthReport(environment="aws", in_pod=False, checks=[])
    report = spending.add_spending(report, explorer, plan, TODAY)
    return report, {check.name: check for check in report.checks}


def test_an_account_that_sees_its_costs_passes_and_hears_of_tags_that_are_not_active_yet() -> None:
    report, checks = check(CostExplorer())

    assert report.exit_code == 0 and checks["Cost Explorer"].status is CheckStatus.OK
    assert "environment not active yet" in checks["cost allocation tags"].seen


@pytest.mark.parametrize(
    ("code", "message", "exit_code", "says"),
    [
        ("DataUnavailableException", NO_DATA, 0, "open it once in the Billing console, and costs follow in"),
        ("AccessDeniedException", DISABLED, 2, "open Cost Explorer once in the Billing console (no API enables it)"),
        ("AccessDeniedException", UNAUTHORIZED, 2, "your role needs ce:GetCostAndUsage"),
    ],
)
def test_costs_that_cannot_be_read_say_what_opens_them(code: str, message: str, exit_code: int, says: str) -> None:
    report, checks = check(CostExplorer(costs=(code, message)))

    first = next(iter(checks.values()))
    assert report.exit_code == exit_code and says in f"{first.seen} {first.fix}"


def test_a_member_account_is_told_to_leave_the_monitor_out_and_whom_to_ask_for_the_tags() -> None:
    member = CostExplorer(tags=("AccessDeniedException", MEMBER))

    report, checks = check(member)
    fix = checks["cost allocation tags"].fix
    assert report.exit_code == 2 and "budget: {anomalies: false}" in fix and "management account has to activate" in fix

    report, checks = check(member, [{"type": spending.BUDGET}])
    assert report.exit_code == 0 and "management account has to activate" in checks["cost allocation tags"].seen


def test_a_plan_without_a_budget_asks_cost_explorer_nothing() -> None:
    assert check(CostExplorer(costs=("AccessDeniedException", DISABLED)), [])[1] == {}
