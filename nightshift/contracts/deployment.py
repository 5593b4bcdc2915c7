"""`deployment.json`: what became of a new version, and what answers now."""

from enum import StrEnum

from pydantic import Field

from nightshift.contracts.artifact import Artifact


class DeploymentOutcome(StrEnum):
    """What becomes of a new version."""

    PROMOTED = "promoted"
    KEPT = "kept"
    REGISTERED = "registered"
    WAITING = "waiting"


class Deployment(Artifact):
    """What became of a new version, and what answers now."""

    model: str = Field(description="name of the registered model, which is the use case's")
    version: int = Field(description="the new version")
    sha256: str = Field(description="its identity")
    decision: DeploymentOutcome = Field(
        description="`promoted`: it is the champion now; `kept`: the champion stays; `registered`: it is not promoted, "
        "and there is no champion to keep; `waiting`: it passes, and waits for a person's approval"
    )
    reasons: list[str] = Field(description="why, one sentence each")
    caveats: list[str] = Field([], description="what the gates have to say first of all, a sentence each")
    champion_version: int | None = Field(description="the champion now; null where there is none")
    previous_champion_version: int | None = Field(description="the champion before this run")
    registry: str = Field(description="root of the registry")
    target: str = Field(description="as the run was given it")
    endpoint: str | None = Field(description="URL that serves the champion; null where nothing was started")
    endpoint_checked: bool = Field(description="whether it was called and answered with that version")
    curl: str | None = Field(description="a command that scores one event there")
    engine: str | None = Field(
        None, description="URL below which OpenAI's API generates text by the champion's file; null where it has none"
    )
    example: dict[str, int | float | str | None] = Field(
        description="that event: the user's columns, its features where there is no online state, or an item's file; "
        "null for a missing number"
    )
