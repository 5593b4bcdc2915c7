"""What is pending and due: pure functions of the outbox, a night and the time."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from nightshift.config.notify import URGENT, NightEvent, Notify, Receiver
from nightshift.contracts.notification import Alert, Notification, Outbox, PendingNotification, ReceiverState

LEASE = timedelta(minutes=5)  # after which a process that was sending is taken for dead
STOPS = (NightEvent.FAILED, NightEvent.BUDGET)


@dataclass(frozen=True)
class Night:
    """What is to be reported of one run.

    Attributes:
        use_case: name in the config.
        pipeline: what ran.
        logical_date: of the run.
        is_complete: whether every step has a result, so that what is not reported any more has ended.
        notifications: what a person may have to know.
    """

    use_case: str
    pipeline: str
    logical_date: date
    is_complete: bool
    notifications: list[Notification]

    def ends(self, cause: Notification) -> bool:
        """Return whether a known cause that this night does not report has ended with it."""
        is_same = (cause.use_case, cause.pipeline) == (self.use_case, self.pipeline)
        return is_same and cause.logical_date <= self.logical_date and (self.is_complete or cause.event in STOPS)


def add(outbox: Outbox, night: Night, receivers: Sequence[Receiver]) -> Outbox:
    """Return the outbox with the causes of a night: new ones are pending, those that have ended are forgotten."""
    current = {notification.cause for notification in night.notifications}
    known = {notification.cause for notification in outbox.causes}
    kept = [cause for cause in outbox.causes if cause.cause in current or not night.ends(cause)]
    new = [notification for notification in night.notifications if notification.cause not in known]
    pending = [
        PendingNotification(receiver=receiver.variable, notification=notification)
        for receiver in receivers
        for notification in new
        if notification.event in receiver.events
    ]
    return outbox.model_copy(update={"causes": [*kept, *new], "pending": [*outbox.pending, *pending]})


def list_pending(outbox: Outbox, receiver: Receiver) -> list[Notification]:
    """Return what a receiver has not taken yet."""
    return [entry.notification for entry in outbox.pending if entry.receiver == receiver.variable]


def is_claimed(outbox: Outbox, receiver: Receiver, now: datetime) -> bool:
    """Return whether another process is sending to a receiver."""
    until = outbox.receivers.get(receiver.variable, ReceiverState()).claimed_until
    return until is not None and now < until


def list_over(outbox: Outbox, receiver: Receiver) -> list[Alert]:
    """Return what a receiver took and has ended."""
    known = {notification.cause for notification in outbox.causes}
    alerts = [alert for alert in outbox.alerts if alert.receiver == receiver.variable]
    return [alert for alert in alerts if known.isdisjoint(alert.causes)]


def list_due(outbox: Outbox, receiver: Receiver, notify: Notify, now: datetime) -> list[Notification]:
    """Return what a receiver is to be sent now, in one message."""
    state = outbox.receivers.get(receiver.variable, ReceiverState())
    if state.sent and now < state.sent + timedelta(minutes=receiver.digest_minutes):
        return []
    is_quiet = receiver.is_quiet(now.astimezone(ZoneInfo(notify.timezone)))
    return [entry for entry in list_pending(outbox, receiver) if entry.event in URGENT or not is_quiet]


def claim(outbox: Outbox, receiver: Receiver, now: datetime) -> Outbox:
    """Return the outbox while a process sends to a receiver."""
    state = outbox.receivers.get(receiver.variable, ReceiverState())
    # a name of its own, so that no two processes write the same outbox
    claimed = {"claim": secrets.token_hex(8), "claimed_until": now + LEASE}
    return _set_receiver(outbox, receiver, state.model_copy(update=claimed))


def release(outbox: Outbox, receiver: Receiver) -> Outbox:
    """Return the outbox after a message that its receiver has not taken."""
    state = outbox.receivers.get(receiver.variable, ReceiverState())
    return _set_receiver(outbox, receiver, ReceiverState(sent=state.sent))


def settle(outbox: Outbox, receiver: Receiver, delivered: Sequence[Notification], now: datetime) -> Outbox:
    """Return the outbox after a message that its receiver has taken."""
    pending = [
        entry for entry in outbox.pending if entry.receiver != receiver.variable or entry.notification not in delivered
    ]
    alert = Alert(receiver=receiver.variable, causes=[notification.cause for notification in delivered])
    update = {"pending": pending, "alerts": [*outbox.alerts, alert]}
    return _set_receiver(outbox.model_copy(update=update), receiver, ReceiverState(sent=now))


def forget(outbox: Outbox, resolved: Sequence[Alert]) -> Outbox:
    """Return the outbox without alerts that their receiver knows to be over."""
    return outbox.model_copy(update={"alerts": [alert for alert in outbox.alerts if alert not in resolved]})


def _set_receiver(outbox: Outbox, receiver: Receiver, state: ReceiverState) -> Outbox:
    return outbox.model_copy(update={"receivers": outbox.receivers | {receiver.variable: state}})
