"""Sends events to their receiver; one that fails is a line in the log, and the step works as well."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from openlineage.client.client import OpenLineageClient
from openlineage.client.event_v2 import RunEvent

from nightshift.runtime.masking import mask_secrets

SECONDS = 3.0  # to wait for an event to be received; the library would try for half a minute
AGAIN_SECONDS = 1.0  # once it was not
THREAD = "openlineage"

log = logging.getLogger("nightshift")


@contextmanager
def report(events: "ObservedEvents") -> Iterator[None]:
    """Send an event before the block and one after it, which says how the block has ended."""
    sender = EventSender()
    sender.send(events.start)
    try:
        yield
    except BaseException as error:
        sender.send(partial(events.fail, error))
        raise
    sender.send(events.complete)


class ObservedEvents(Protocol):
    """Makes the events of a run or of a step's try."""

    def start(self) -> RunEvent:
        """Return the event of the start."""

    def complete(self) -> RunEvent:
        """Return the event of a good end."""

    def fail(self, error: BaseException) -> RunEvent:
        """Return the event of any other end."""


class EventSender:
    """Makes and sends events in a thread, for which the step waits some seconds at most."""

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        logging.getLogger("openlineage").setLevel(logging.ERROR)
        # the library's tries, of which the last one's failure is enough
        logging.getLogger("urllib3.connectionpool").addFilter(lambda record: record.threadName != THREAD)

    def send(self, make: Callable[[], RunEvent]) -> None:
        """Make an event and send it; raises nothing."""
        failures: list[Exception] = []
        thread = threading.Thread(target=_send, args=(make, failures), name=THREAD, daemon=True)
        thread.start()
        thread.join(self._seconds)
        if thread.is_alive():
            log.warning("OpenLineage's receiver does not answer within %g s; an event may be lost", self._seconds)
            self._seconds = min(self._seconds, AGAIN_SECONDS)
        for failure in failures:
            log.warning("OpenLineage's receiver lacks an event: %s", mask_secrets(str(failure)))


def _send(make: Callable[[], RunEvent], failures: list[Exception]) -> None:
    try:
        # the repository that a step happens to run in is not the user's
        OpenLineageClient(config={"facets": {"source_code_location": {"disabled": True}}}).emit(make())
    except Exception as error:  # whatever it is, the step has its own work
        failures.append(error)
