"""What `nightshift doctor` finds out about a machine, an environment or a cloud account."""

from enum import StrEnum

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part


class CheckStatus(StrEnum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    UNAVAILABLE = "unavailable"
    SKIPPED = "skipped"


class HealthCheck(Part):
    """One check of one thing."""

    name: str = Field(description="subject and thing, such as `secret kubeflow/nightshift-mlflow`")
    status: CheckStatus = Field(description="failed: the user has to fix it; unavailable: a server does not answer")
    seen: str = Field(description="what was seen, or why the check was skipped")
    allowed: str = Field("", description="what is allowed; empty unless failed or unavailable")
    fix: str = Field("", description="the next step: a command, or a file to edit; empty unless failed or unavailable")


class HealthReport(Artifact):
    """`nightshift doctor --json`."""

    environment: str = Field(description="what was checked, such as `aws`; `local` is this machine")
    in_pod: bool = Field(description="whether the checks ran in a pod of the environment")
    checks: list[HealthCheck] = Field(description="in the order in which they ran")

    @property
    def exit_code(self) -> int:
        """2 if the user has to fix something, else 1 if a server does not answer, else 0."""
        statuses = {check.status for check in self.checks}
        if CheckStatus.FAILED in statuses:
            return 2
        return int(CheckStatus.UNAVAILABLE in statuses)
