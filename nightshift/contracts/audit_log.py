"""The audit log: what persons have done to runs and releases."""

from datetime import datetime

from pydantic import Field

from nightshift.contracts.artifact import Artifact


class LoggedAction(Artifact):
    """What a person has done, or tried to do."""

    action: str = Field(description="`approve`, `promote`, `rollback`, `run`, `release pause` ...")
    use_case: str = Field(description="name in the config")
    subject: str = Field(description="what it was done to, such as `version 7`, or the id of a run")
    at: datetime = Field(description="when, UTC")
    by: str = Field(description="user who did it")
    reason: str = Field(description="why, in the words of that person; empty where none was given")
    outcome: str = Field("started", description="`done`, or why it was refused; `started` until it is known")


class ActionList(Artifact):
    """What persons have done to the runs and releases of a use case."""

    use_case: str = Field(description="name in the config")
    actions: list[LoggedAction] = Field(description="the newest, oldest first")
