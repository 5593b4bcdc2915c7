"""The outbox: what people are notified of, what of it is pending, and which causes they know."""

from datetime import date, datetime

from pydantic import Field

from nightshift.config.notify import NightEvent
from nightshift.contracts.artifact import Artifact, Part


class Notification(Part):
    """One thing that a person may have to know of a night."""

    event: NightEvent = Field(description="its kind")
    use_case: str = Field(description="name in the config")
    pipeline: str = Field(description="what ran; its steps where the engine does not name it")
    subject: str = Field(description="what it is about, such as steps or signals; another subject is another cause")
    run: str = Field(description="the run's id")
    logical_date: date = Field(description="of the run")
    sentence: str = Field(description="for a person")
    link: str = Field(description="URL of the run's page, or URI of its report")

    @property
    def cause(self) -> str:
        """The identity of what lies behind it, the same on each night until it changes or ends."""
        return f"{self.use_case}/{self.pipeline}/{self.event}/{self.subject}"

    @property
    def line(self) -> str:
        """The sentence, with use case and day."""
        return f"{self.use_case}, {self.logical_date}: {self.sentence}"


class PendingNotification(Part):
    """A notification that a receiver has not taken yet."""

    receiver: str = Field(description="variable of its URL")
    notification: Notification


class Alert(Part):
    """What a receiver took in one message; it is over once all of its causes have ended."""

    receiver: str = Field(description="variable of its URL")
    causes: list[str] = Field(description="of the notifications, in their order")


class ReceiverState(Part):
    """What the next message to a receiver depends on."""

    sent: datetime | None = Field(None, description="when it took the last message, UTC")
    claim: str = Field("", description="of the process that is sending to it; empty: none is")
    claimed_until: datetime | None = Field(None, description="when another process may try, UTC")


class Outbox(Artifact):
    """What is pending, in one record of a state, changed only by compare-and-set."""

    causes: list[Notification] = Field([], description="what was reported and has not ended")
    pending: list[PendingNotification] = Field([], description="oldest first")
    alerts: list[Alert] = Field([], description="what receivers took and has not been resolved")
    receivers: dict[str, ReceiverState] = Field({}, description="variable -> state")
