"""A store that several processes share: Redis holds what has come in, and each process maps the snapshot for itself.

A request is in one script, so it is atomic, and a request sent twice changes nothing. Every record says over which
snapshot it came in: a process counts those of days that its own snapshot lacks, and those that came in over its own or
a newer one. So the processes swap one after the other, and nothing has to be moved. Keys expire by themselves.

What was answered survives what Redis survives: with `appendonly yes` and `appendfsync always` a kill at any moment,
otherwise less. It never evicts a key: features without it would be wrong, and nobody would see it. In a Redis Cluster
one use case lies on one node.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.tabular.online.base import (
    NOTHING,
    NOWHERE,
    Base,
    Terminals,
    WindowTotals,
    add_to_windows,
    encode_key,
    sum_windows,
)
from nightshift.tabular.online.event import Event
from nightshift.tabular.online.inputs import EventInputs
from nightshift.tabular.online.limits import NOW, Clock, EventGuard
from nightshift.tabular.online.refusals import RefusedEventError, another, earlier, too_old
from nightshift.tabular.online.state import UNKNOWN, Label
from nightshift.tabular.online.store import in_order
from nightshift.tabular.windows import DAY

if TYPE_CHECKING:
    from redis import Redis

LAG = 2  # snapshots that a process may be behind another one; older records are trimmed
SECONDS = 5.0  # for an answer
PROBE_SECONDS = 1.0  # between looks whether it takes something in
KEEPS_ALL = "noeviction"
MOST_EVENTS = 1024  # that one script takes in: while it runs, Redis answers nobody else
EXTRA_DAYS = 7  # for which records stay that no window of today needs: snapshots may be late

T = TypeVar("T")
Arguments = tuple[int | str, ...]  # an event's arguments of `TAKE`

TAKE, LABEL = (Path(__file__).with_name(f"{name}.lua").read_text() for name in ("take", "label"))


class NoAccessError(UnavailableError):
    """Redis refuses its user, or something that the user does."""


class Shared:
    """See `store.Store`.

    Args:
        read_url: returns the URL of the server, `redis://...`, `rediss://...` or `unix://...`; called again after a
            failure.
        use_case: its name; several use cases may share a server.
        base: the snapshot to lie over.
        clock: says what time it is.

    Raises:
        UserError: when redis-py is missing, the URL is none, or Redis refuses its user or may evict keys.
        UnavailableError: when the server does not answer.
    """

    def __init__(self, read_url: Callable[[], str], use_case: str, base: Base, clock: Clock = NOW) -> None:
        self._read_url = read_url
        # braces: in a cluster all keys of a use case have to lie on one node
        self._prefix = f"{{nightshift:{use_case}}}:"
        self._clock = clock
        self._over = _Over(base, clock)
        self._failure: str | None = None  # the last call's failure
        self._eviction: str | None = None  # why keys may be evicted
        self._next_probe = 0.0  # by the monotonic clock
        self._connect(read_url())
        try:
            with self._reporting():
                self._eviction = self._find_eviction()
                self._take = self._redis.script_load(TAKE)
        except NoAccessError as error:  # at the start the URL is wrong; later a password is being rotated
            raise UserError(str(error)) from None
        if self._eviction:
            raise UserError(self._eviction)

    @property
    def base(self) -> Base:
        """The snapshot that it lies over."""
        return self._over.base

    @property
    def problem(self) -> str | None:
        """Why it takes nothing in at present; see `store.Store`."""
        return self._failure or self._eviction

    def probe(self) -> None:
        """Look whether Redis takes something in, once a second as long as it does; see `store.Store`."""
        if not self.problem and time.monotonic() < self._next_probe:
            return
        with suppress(UnavailableError, UserError):
            if self.problem:
                self._reconnect()
            with self._reporting():
                self._eviction = self._find_eviction()
        self._next_probe = time.monotonic() + PROBE_SECONDS

    def _find_eviction(self) -> str | None:
        """Write a key as events do; return why Redis may forget one, None when it does not."""
        self._redis.set(f"{self._prefix}probe", 1, ex=self._over.seconds)
        policy = self._redis.info("memory").get("maxmemory_policy", KEEPS_ALL)
        if policy == KEEPS_ALL:
            return None
        return f"Redis: maxmemory-policy is {policy!r}, which forgets events; allowed: {KEEPS_ALL!r}; set it there"

    def _connect(self, url: str) -> None:
        self._redis, self._url = _connect(url), url
        self._label = self._redis.register_script(LABEL)

    def _reconnect(self) -> None:
        """Connect to another URL, such as one with a new password."""
        if (url := self._read_url()) != self._url:
            self._redis.close()
            self._connect(url)

    @property
    def is_quick(self) -> bool:
        """Never: it asks another machine."""
        return False

    def take(self, events: Sequence[Event]) -> list[list[float]]:
        """Take a request's events in; see `store.Store`."""
        (rows,) = self.take_all([events])
        if isinstance(rows, Exception):
            raise rows
        return rows

    def take_all(self, requests: Sequence[Sequence[Event]]) -> list[list[list[float]] | Exception]:
        """Take several requests in, with one message to Redis; see `store.Store`."""
        over = self._over
        if not over.base.is_stateful:
            return [_attempt(over.alone, events) for events in requests]
        arguments = [_attempt(over.take_arguments, events) for events in requests]
        answers = self._run_take(over, [own for own in arguments if not isinstance(own, UserError)])
        return [
            own if isinstance(own, UserError) else _attempt(over.rows, events, list(islice(answers, len(events))))
            for events, own in zip(requests, arguments, strict=True)
        ]

    def label(self, label: Label) -> bool:
        """Take a label in; return whether its event is known."""
        over = self._over
        known = over.label_arguments(label)
        if known is None:
            return True
        args = [over.base.until, over.seconds, f"{label.time // DAY}:{label.event_id}", label.label, *known]
        with self._answering():
            return bool(self._label(keys=[self._prefix], args=args))

    def commit(self) -> None:
        """Do nothing: Redis has answered."""

    def swap(self, base: Base) -> None:
        """Change to another snapshot; see `store.Store`."""
        if base.snapshot.last < self.base.snapshot.last:
            raise earlier(base.snapshot.last, self.base.snapshot.last)
        self._over = _Over(base, self._clock)

    def close(self) -> None:
        """Let go of the connections."""
        self._redis.close()

    def _run_take(self, over: "_Over", requests: Sequence[Sequence[Arguments]]) -> Iterator[Any]:
        """Return what `TAKE` answers to each event of some requests."""
        from redis.exceptions import NoScriptError

        scripts = [[*over.head, *chain.from_iterable(_flatten_requests(batch))] for batch in _join_requests(requests)]
        with self._answering():
            answers = self._evaluate(scripts)
            # started anew meanwhile; what is taken in a second time changes nothing
            if any(isinstance(answer, NoScriptError) for answer in answers):
                self._redis.script_load(TAKE)
                answers = self._evaluate(scripts)
            for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
        return chain.from_iterable(answers)

    def _evaluate(self, scripts: Sequence[Sequence[int | str]]) -> list[Any]:
        with self._redis.pipeline(transaction=False) as pipe:
            for script in scripts:
                pipe.evalsha(self._take, 1, self._prefix, *script)
            answers: list[Any] = pipe.execute(raise_on_error=False)
        return answers

    @contextmanager
    def _answering(self) -> Iterator[None]:
        if self._eviction:
            raise UnavailableError(self._eviction)
        with self._reporting():
            yield

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            with _answering():
                yield
        except UnavailableError as error:
            self._failure = str(error)
            raise
        self._failure = None


class _Over:
    """A snapshot, and how a process reads what Redis has over it."""

    def __init__(self, base: Base, clock: Clock) -> None:
        spec = base.snapshot.windows
        self.base, self.inputs, self.limits = base, EventInputs(spec), EventGuard(base.snapshot, clock)
        days = max(spec.windows_days, default=0) + spec.label_delay_days
        self.seconds = (days + EXTRA_DAYS) * DAY // 1_000_000

    @property
    def head(self) -> tuple[int, int, int, int]:
        """The first arguments of `TAKE`."""
        until = self.base.until
        return until, until + LAG * DAY, until - LAG * DAY, self.seconds

    def take_arguments(self, events: Sequence[Event]) -> list[Arguments]:
        """Return the arguments of `TAKE` for each of a request's events, in the order in which they are taken in.

        Raises:
            RefusedEventError: when one is refused.
        """
        return [_call_for(index, self.event_arguments, events[index]) for index in in_order(events)]

    def alone(self, events: Sequence[Event]) -> list[list[float]]:
        """Return the numeric inputs of a request's events where there are no windows.

        Raises:
            RefusedEventError: when one is refused.
        """
        for index, event in enumerate(events):
            _call_for(index, self.limits.check, event)
        return [self.inputs.row(event, None, None) for event in events]

    def rows(self, events: Sequence[Event], answers: Sequence[Any]) -> list[list[float]]:
        """Return the numeric inputs of a request's events from what `TAKE` answers.

        Raises:
            RefusedEventError: when an id is another event's.
        """
        rows: list[list[float]] = [[]] * len(events)
        order = list(zip(in_order(events), answers, strict=True))
        known = [_call_for(index, self.locate, events[index], answer[0]) for index, answer in order]
        for (index, answer), (row, number) in zip(order, known, strict=True):
            rows[index] = self.row(events[index], answer, row, number)
        return rows

    def event_arguments(self, event: Event) -> Arguments:
        """Return the arguments of `TAKE` for an event.

        Raises:
            UserError: when it is refused.
        """
        self.limits.check(event)
        if event.time < self.base.oldest:
            raise too_old(event, self.base.snapshot)
        units = self.inputs.units(event.amount)
        last, edges = self.inputs.terminal_edges(event.time)
        is_new = self._find(event, units) == NOWHERE
        sides = min(self.inputs.customer_edges(event.time)), last, min(edges)
        return f"{event.time // DAY}:{event.event_id}", *self._names(event), event.time, units, int(is_new), *sides

    def locate(self, event: Event, record: str) -> tuple[int, int]:
        """Return an event's index in the snapshot, or `NOWHERE` and the number of its record in Redis.

        Raises:
            UserError: when its id is another event's.
        """
        units = self.inputs.units(event.amount)
        index = self._find(event, units)
        if index != NOWHERE or not record:
            return index, 0
        number, time, _, *rest = record.split(" ")
        if [time, *rest] != [str(event.time), str(units), *self._names(event)]:
            raise another(event)
        return NOWHERE, int(number)

    def row(self, event: Event, answer: Sequence[Any], index: int, number: int) -> list[float]:
        """Return the numeric inputs of an event from what `TAKE` answers; index and number as `locate` returns them."""
        _, customers, terminals, labels, values = answer
        customer = self._customer(event, index, number, customers)
        return self.inputs.row(event, customer, self._terminal(event, terminals, zip(labels, values, strict=True)))

    def label_arguments(self, label: Label) -> tuple[int | str, str, str] | None:
        """Return the last arguments of `LABEL`; None when the event is known and no window counts its label."""
        index = self.base.locate(label.event_id, label.time // DAY) if label.time < self.base.until else NOWHERE
        if index == NOWHERE:
            return "", "", ""
        if not self.base.terminals:
            return None
        row = self.base.terminal_row(index)
        name = self.base.terminals.keys.name(self.base.terminals.find_owner(row))
        return self.base.terminals.times[row], name, str(int(self.base.terminals.labels[row] == 1))

    def _find(self, event: Event, units: int) -> int:
        return self.base.find(event, units) if event.time < self.base.until else NOWHERE

    def _names(self, event: Event) -> tuple[str, str]:
        customer = encode_key(event.customer) if self.base.customers and event.customer is not None else ""
        return customer, encode_key(event.terminal) if self.base.terminals and event.terminal is not None else ""

    def _customer(self, event: Event, index: int, number: int, records: Iterable[str]) -> WindowTotals | None:
        if not self.base.customers or event.customer is None:
            return None
        edges, until = self.inputs.customer_edges(event.time), self.base.until
        row = None if index == NOWHERE else self.base.customer_row(index)
        rows = self.base.customers.rows(event.customer, event.time if event.time < until else None, row)
        totals = sum_windows(edges, self.base.customers, rows, NOTHING, 0)
        for record in records:
            serial, time, over, units = map(int, record.split(" "))
            if max(time, over) >= until and (time < event.time or serial <= number):
                add_to_windows(totals[0], 1, time, edges)
                add_to_windows(totals[1], units, time, edges)
        return totals

    def _terminal(
        self, event: Event, records: Iterable[str], labels: Iterable[tuple[str, str | None]]
    ) -> WindowTotals | None:
        past = self.base.terminals
        if not past or event.terminal is None:
            return None
        last, edges = self.inputs.terminal_edges(event.time)
        owner = past.keys.find(event.terminal)
        totals = past.windows(owner, last, edges)
        for record in records:
            _, time, over, _ = map(int, record.split(" "))
            if max(time, over) >= self.base.until:
                add_to_windows(totals[0], 1, time, edges)
        for name, value in labels:
            if value:
                time, label, over, came = map(int, value.split(" "))
                add_to_windows(totals[1], self._change(name, label, over, max(time, came), past), time, edges)
        return totals

    def _change(self, name: str, label: int, over: int, came: int, past: Terminals) -> int:
        """Return by how much a label changes the number of positives.

        Args:
            name: day and id of the event.
            label: 0 or 1.
            over: end of the snapshot over which the label came in.
            came: likewise of the event, or its time if that is later.
            past: the snapshot's terminals.
        """
        if came >= self.base.until:
            return label
        day, _, text = name.partition(":")
        event_id = int(text) if "event_id" in self.base.snapshot.events.integers else text
        index = self.base.locate(event_id, int(day))
        own = UNKNOWN if index == NOWHERE else past.labels[self.base.terminal_row(index)]
        is_counted = index != NOWHERE and (own == UNKNOWN or over >= self.base.until)
        return label - (own == 1) if is_counted else 0


def _join_requests(requests: Iterable[Sequence[Arguments]]) -> list[list[Sequence[Arguments]]]:
    """Join requests into scripts, each of `MOST_EVENTS` or of one request."""
    scripts: list[list[Sequence[Arguments]]] = []
    size = 0
    for request in requests:
        if not scripts or size + len(request) > MOST_EVENTS:
            scripts.append([])
            size = 0
        scripts[-1].append(request)
        size += len(request)
    return scripts


def _flatten_requests(requests: Iterable[Sequence[Arguments]]) -> Iterator[Arguments]:
    """Yield the arguments of `TAKE` for some requests."""
    for request in requests:
        yield (len(request),)
        yield from request


def _connect(url: str) -> "Redis":
    try:
        from redis import Redis
    except ImportError:
        raise UserError(
            "a shared online state needs redis-py; in the checkout run: pip install -e '.[redis]'"
        ) from None
    try:
        return Redis.from_url(url, decode_responses=True, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)
    except ValueError as error:
        raise UserError(
            f"the URL of Redis is not valid: {error}; give redis://host:port/0 or unix://path?db=0"
        ) from None


@contextmanager
def _answering() -> Iterator[None]:
    """Say what an error of Redis means; its URL may hold a password, so it is not named."""
    from redis import AuthenticationError, RedisError
    from redis.exceptions import NoPermissionError

    try:
        yield
    except (AuthenticationError, NoPermissionError) as error:
        raise NoAccessError(f"Redis: {error}; check user, password and permissions of its URL") from None
    except RedisError as error:
        if str(error).startswith("BEHIND"):
            raise UnavailableError(
                f"others serve snapshots that are more than {LAG} days newer; swap to the newest one"
            ) from None
        raise UnavailableError(f"Redis: {error}; check the server, then send the request again") from error


def _call_for(index: int, call: Callable[..., T], *args: Any) -> T:
    """Return what a call says of one of a request's events, which is named where it is refused."""
    try:
        return call(*args)
    except UserError as error:
        raise RefusedEventError(index, error) from None


def _attempt(call: Callable[..., Any], *args: Any) -> Any:
    """Return what a call returns, or the mistake of the user that it raises."""
    try:
        return call(*args)
    except UserError as error:
        return error
