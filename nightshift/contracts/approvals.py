"""The approval record: which versions wait for a person, and what persons have approved."""

from datetime import datetime

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part


class WaitingVersion(Part):
    """A version that has passed its gates and waits for a person."""

    version: int = Field(description="its number in the registry")
    sha256: str = Field(description="identity of the model")
    champion: str | None = Field(description="identity of the champion beside which it has passed; null without one")
    since: datetime = Field(description="when, UTC")
    run: str = Field(description="id of the run that has judged it")
    reasons: list[str] = Field(description="the verdict, one sentence each")


class Approval(Part):
    """A person's approval of one version beside one champion."""

    version: int = Field(description="its number in the registry")
    sha256: str = Field(description="identity of the model; of another one the approval says nothing")
    champion: str | None = Field(description="identity of the champion that it may replace; null without one")
    at: datetime = Field(description="when, UTC")
    by: str = Field(description="user who approved")
    reason: str = Field(description="why, in the words of that person")


class ApprovalRecord(Artifact):
    """Waiting versions and approvals of a use case; approvals are only added."""

    use_case: str = Field(description="name in the config")
    waiting: list[WaitingVersion] = Field([], description="oldest first")
    approvals: list[Approval] = Field([], description="oldest first")

    def is_approved(self, sha256: str, champion: str | None) -> bool:
        """Return whether a person has approved a model beside a champion."""
        return any((approval.sha256, approval.champion) == (sha256, champion) for approval in self.approvals)
