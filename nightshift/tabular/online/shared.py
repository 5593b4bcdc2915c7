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

from nightshift.runtime.errors import UnavailableError, UserError, suggest_install
from nightshift.tabular.online.base import NOWHERE, Base
from nightshift.tabular.online.event import Event
from nightshift.tabular.online.inputs import EventInputs
from nightshift.tabular.online.layout import EventRecord, encode_key
from nightshift.tabular.online.limits import NOW, Clock, EventGuard
from nightshift.tabular.online.overlay import Overlay, Positives
from nightshift.tabular.online.refusals import RefusedEventError, another, earlier, too_old
from nightshift.tabular.online.state import UNKNOWN, Label
from nightshift.tabular.online.store import in_order
from nightshift.tabular.online.window import History
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
        self._prefix = name_prefix(use_case)
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
        self._redis, self._url = connect(url), url
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
            with answering():
                yield
        except UnavailableError as error:
            self._failure = str(error)
            raise
        self._failure = None


class _Over:
    """A snapshot, and how a process reads what Redis has over it."""

    def __init__(self, base: Base, clock: Clock) -> None:
        spec = base.snapshot.features
        self.base, self.layout, self.limits = base, base.layout, EventGuard(base.snapshot, clock)
        self.inputs = EventInputs(spec, self.layout.scales)
        self.seconds = (spec.longest_days + spec.label_delay_days + EXTRA_DAYS) * DAY // 1_000_000

    @property
    def head(self) -> tuple[int, ...]:
        """The first arguments of `TAKE`: of the snapshot, then for each entity whether it has labels."""
        until = self.base.until
        labeled = [int(number in self.base.labeled) for number in range(len(self.layout.groups))]
        return until, until + LAG * DAY, until - LAG * DAY, self.seconds, len(labeled), *labeled

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
        return [self.inputs.row(event, []) for event in events]

    def rows(self, events: Sequence[Event], answers: Sequence[Any]) -> list[list[float]]:
        """Return the numeric inputs of a request's events from what `TAKE` answers.

        Raises:
            RefusedEventError: when an id is another event's.
        """
        rows: list[list[float]] = [[]] * len(events)
        order = list(zip(in_order(events), answers, strict=True))
        records = [self.layout.record(event) for event in events]
        known = [_call_for(index, self.locate, records[index], answer[0]) for index, answer in order]
        for (index, answer), position in zip(order, known, strict=True):
            rows[index] = self.row(events[index], records[index], answer, position)
        return rows

    def event_arguments(self, event: Event) -> Arguments:
        """Return the arguments of `TAKE` for an event.

        Raises:
            UserError: when it is refused.
        """
        self.limits.check(event)
        if event.time < self.base.oldest:
            raise too_old(event, self.base.snapshot)
        record = self.layout.record(event)
        is_new = self._find(record) == NOWHERE
        groups = [layout.group for layout in self.layout.groups]
        edges = [event.time - group.longest_reach for group in groups]
        ends = [event.time - group.shortest_lag for group in groups]
        parts: list[int | str] = []
        for own in zip(self._names(record), self._members(record), edges, ends, strict=True):
            parts += own
        return f"{event.time // DAY}:{event.event_id}", event.time, int(is_new), *parts

    def locate(self, record: EventRecord, known: str) -> tuple[int, int]:
        """Return an event's index in the snapshot, or `NOWHERE` and the number of its record in Redis.

        Raises:
            UserError: when its id is another event's.
        """
        index = self._find(record)
        if index != NOWHERE or not known:
            return index, 0
        number, time, _, *rest = known.split(" ")
        if [time, *rest] != [str(record.time), *self._names(record), *" ".join(self._members(record)).split()]:
            raise another(record.event_id, self.layout.columns)
        return NOWHERE, int(number)

    def row(self, event: Event, record: EventRecord, answer: Sequence[Any], position: tuple[int, int]) -> list[float]:
        """Return the numeric inputs of an event from what `TAKE` answers; the position is what `locate` returns."""
        _, *groups = answer
        histories = [self._history(group, record, position, *own) for group, own in enumerate(groups)]
        return self.inputs.row(event, histories)

    def label_arguments(self, label: Label) -> tuple[int | str, ...] | None:
        """Return the last arguments of `LABEL`; None when the event is known and no window counts its label.

        They are the time and whether it is positive in the snapshot, of an event of it, then the number of its
        entities, and for each whether it has labels and, of an event of the snapshot, its name.
        """
        index = self.base.locate(label.event_id, label.time // DAY) if label.time < self.base.until else NOWHERE
        if index != NOWHERE and not self.base.labeled:
            return None
        entities: list[int | str] = []
        for number, history in enumerate(self.base.histories):
            owner = history.find_owner(self.base.row(number, index)) if index != NOWHERE else NOWHERE
            entities += int(number in self.base.labeled), "" if index == NOWHERE else history.keys.name(owner)
        known = ("", "") if index == NOWHERE else (self.base.time(index), str(int(self.base.label(index) == 1)))
        return *known, len(self.base.histories), *entities

    def _find(self, record: EventRecord) -> int:
        return self.base.find(record) if record.time < self.base.until else NOWHERE

    def _names(self, record: EventRecord) -> list[str]:
        return [encode_key(layout.key(record)) for layout in self.layout.groups]

    def _members(self, record: EventRecord) -> list[str]:
        """Return what each entity's record holds of an event: values, then numbers; Lua passes them on as they are."""
        return [" ".join(map(str, layout.columns(record))) for layout in self.layout.groups]

    def _history(
        self,
        group: int,
        record: EventRecord,
        position: tuple[int, int],
        records: Iterable[str],
        labels: Iterable[str],
        values: Iterable[str | None],
    ) -> History:
        layout, past = self.layout.groups[group], self.base.histories[group]
        index, number = position
        is_past = index != NOWHERE
        owner = past.keys.find(layout.key(record))
        row = self.base.row(group, index) if is_past else None
        low, high = past.locate(owner, record.time if record.time < self.base.until else None, row)
        overlay = self._overlay(group, record, number, records)
        corrections = self._corrections(zip(labels, values, strict=True))
        return History(record, past, owner, low, high, overlay, len(overlay.times), is_past, corrections)

    def _overlay(self, group: int, record: EventRecord, number: int, records: Iterable[str]) -> Overlay:
        """Return the entity's events in Redis up to an event: earlier ones, and those of its time that came first."""
        layout, until = self.layout.groups[group], self.base.until
        overlay = Overlay(layout)
        for serial, moment, over, *columns in sorted(tuple(map(int, text.split(" "))) for text in records):
            if max(moment, over) >= until and (moment < record.time or serial <= number):
                overlay.add_columns(serial, moment, columns)
        return overlay

    def _corrections(self, labels: Iterable[tuple[str, str | None]]) -> list[Positives]:
        """Return by how much labels in Redis change what the snapshot has of positives."""
        corrections = Positives()
        for name, value in labels:
            if value:
                time, label, over, came = map(int, value.split(" "))
                change = self._change(name, label, over, max(time, came))
                if change:
                    corrections.change(time, change > 0, was_first=change < 0)
        return [corrections]

    def _change(self, name: str, label: int, over: int, came: int) -> int:
        """Return by how much a label changes the number of positives.

        Args:
            name: day and id of the event.
            label: 0 or 1.
            over: end of the snapshot over which the label came in.
            came: likewise of the event, or its time if that is later.
        """
        if came >= self.base.until:
            return label
        day, _, text = name.partition(":")
        event_id = int(text) if "event_id" in self.base.snapshot.events.integers else text
        index = self.base.locate(event_id, int(day))
        own = UNKNOWN if index == NOWHERE else self.base.label(index)
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


def name_prefix(use_case: str) -> str:
    """Return what the keys of a use case begin with."""
    # braces: in a cluster all keys of a use case have to lie on one node
    return f"{{nightshift:{use_case}}}:"


def connect(url: str) -> "Redis":
    """Return a client of a Redis, which connects with its first command.

    Raises:
        UserError: when redis-py is missing, or the URL is none.
    """
    try:
        from redis import Redis
    except ImportError:
        raise UserError(f"a shared online state needs redis-py; run {suggest_install('redis')}") from None
    try:
        return Redis.from_url(url, decode_responses=True, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)
    except ValueError as error:
        raise UserError(
            f"the URL of Redis is not valid: {error}; give redis://host:port/0 or unix://path?db=0"
        ) from None


@contextmanager
def answering() -> Iterator[None]:
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
