"""A night that a tracking server does not show yet."""

from pydantic import Field

from nightshift.contracts.artifact import Artifact


class PendingNight(Artifact):
    """A night to show, one file for each report of it, so that no writer changes what another has written."""

    run: str = Field(description="the run's id")
    is_backfill: bool = Field(description="whether it was run for a past day and changes nothing that is live")
