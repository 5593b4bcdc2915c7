"""The outbox of a state, `<audit>/notifications.json`: adds what is to be reported, and delivers what is due."""

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from nightshift import storage
from nightshift.config.notify import Notify, Receiver
from nightshift.contracts.notification import Alert, Notification, Outbox
from nightshift.notify import outbox as rules
from nightshift.notify import sending
from nightshift.notify.outbox import Night
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.storage import conditional

FILE = "notifications.json"
TRIES = 100  # each lost try means that another writer has succeeded
PAUSE = 0.1  # seconds, at most, until the next try

DeliveryError = UserError | UnavailableError


def now() -> datetime:
    """Return the time, UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class DeliveryOutcome:
    """What became of the notifications of a receiver.

    Attributes:
        receiver: variable of its URL.
        delivered: notifications that it took.
        pending: notifications that wait.
        error: why it took none that was due; None when nothing went wrong.
    """

    receiver: str
    delivered: int = 0
    pending: int = 0
    error: DeliveryError | None = None


@dataclass(frozen=True)
class Notifier:
    """Notifies receivers by the outbox of a state.

    Attributes:
        audit: root of what is kept for good.
        notify: who is notified.
        send: sends a message by a URL.
        resolve: reports by a URL that the causes of a message have ended.
        clock: returns the time, UTC.
        variables: the environment, with the receivers' URLs.
    """

    audit: str
    notify: Notify
    send: sending.Send = sending.send
    resolve: sending.Resolve = sending.resolve
    clock: Callable[[], datetime] = now
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)

    @property
    def uri(self) -> str:
        """The record."""
        return storage.join(self.audit, FILE)

    def add(self, night: Night) -> None:
        """Have the causes of a night pending, those that nobody was notified of."""
        self._change(lambda outbox: rules.add(outbox, night, self.notify.receivers))

    def deliver(self) -> Iterator[DeliveryOutcome]:
        """Send each receiver what is due; what it does not take stays pending.

        Raises:
            UserError, UnavailableError: when the state refuses or is down, not for a receiver.
        """
        for receiver in self.notify.receivers:
            yield self._deliver_to(receiver)

    def test(self, notification: Notification) -> Iterator[DeliveryOutcome]:
        """Send each receiver a message at once, past the outbox."""
        for receiver in self.notify.receivers:
            error = self._try_send(receiver, [notification])
            yield DeliveryOutcome(receiver.variable, delivered=0 if error else 1, error=error)

    def _deliver_to(self, receiver: Receiver) -> DeliveryOutcome:
        due, over = self._claim(receiver)
        ends = [(alert, self._try_resolve(receiver, alert)) for alert in over]
        resolved = [alert for alert, error in ends if not error]
        error = self._try_send(receiver, due) if due else None
        sent = due if not error else []

        def settle(outbox: Outbox) -> Outbox:
            after = rules.forget(outbox, resolved)
            return rules.settle(after, receiver, sent, self.clock()) if sent else rules.release(after, receiver)

        after = self._change(settle) if due or over else self._read()[0]
        error = error or next((error for _, error in ends if error), None)
        return DeliveryOutcome(receiver.variable, len(sent), len(rules.list_pending(after, receiver)), error)

    def _claim(self, receiver: Receiver) -> tuple[list[Notification], list[Alert]]:
        """Return what this process, and no other, sends a receiver now, and what it reports to be over."""
        due: list[Notification] = []
        over: list[Alert] = []

        def decide(outbox: Outbox) -> Outbox:
            moment = self.clock()
            is_claimed = rules.is_claimed(outbox, receiver, moment)
            due[:] = [] if is_claimed else rules.list_due(outbox, receiver, self.notify, moment)
            over[:] = [] if is_claimed else rules.list_over(outbox, receiver)
            return rules.claim(outbox, receiver, moment) if due or over else outbox

        self._change(decide)
        return due, over

    def _try_send(self, receiver: Receiver, notifications: Sequence[Notification]) -> DeliveryError | None:
        return self._try(receiver, lambda url: self.send(url, notifications, sending.SECONDS))

    def _try_resolve(self, receiver: Receiver, alert: Alert) -> DeliveryError | None:
        return self._try(receiver, lambda url: self.resolve(url, alert.causes, sending.SECONDS))

    def _try(self, receiver: Receiver, send: Callable[[str], None]) -> DeliveryError | None:
        """Send by a receiver's URL; return why it was not taken, None if it was."""
        url = self.variables.get(receiver.variable, "")
        if not url:
            return UserError(f"{receiver.variable} is not set; set it to the receiver's URL: {sending.FORMS}")
        try:
            send(url)
        except (UserError, UnavailableError) as error:
            return type(error)(f"{receiver.variable} {error}")
        return None

    def _change(self, decide: Callable[[Outbox], Outbox]) -> Outbox:
        """Change the outbox from what it says; when another writer comes first, read and decide again."""
        for _ in range(TRIES):
            outbox, version = self._read()
            wanted = decide(outbox)
            if wanted == outbox:
                return outbox
            if conditional.compare_and_set(self.uri, version, wanted.model_dump_json(indent=2).encode()):
                return wanted
            time.sleep(random.uniform(0, PAUSE))  # noqa: S311 - writers that meet are spread
        raise UnavailableError(f"{self.uri} was changed by others {TRIES} times in a row; run the same command again")

    def _read(self) -> tuple[Outbox, str]:
        content, version = conditional.read(self.uri)
        return Outbox() if content is None else Outbox.parse_record(content, self.uri), version
