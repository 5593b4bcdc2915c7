"""A store that several processes share: Redis holds what has come in, and each process maps the snapshot for itself.

A request is in one script, so it is atomic, and a request sent twice changes nothing. Every record says over which
snapshot it came in: a process counts those of days that its own snapshot lacks, and those that came in over its own or
a newer one. So the processes swap one after the other, and nothing has to be moved. Keys expire by themselves.

What was answered survives what Redis survives: with `appendonly yes` and `appendfsync always` a kill at any moment,
otherwise less. In a Redis Cluster one use case lies on one node.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nightshift.errors import UnavailableError, UserError
from nightshift.tabular.online.base import NOTHING, NOWHERE, Base, Found, Terminals, add, named, summed
from nightshift.tabular.online.event import Event
from nightshift.tabular.online.inputs import Inputs
from nightshift.tabular.online.limits import NOW, Clock, Limits
from nightshift.tabular.online.refusals import RefusedEventError, another, earlier, too_old
from nightshift.tabular.online.state import UNKNOWN, Label
from nightshift.tabular.online.store import in_order
from nightshift.tabular.windows import DAY

if TYPE_CHECKING:
    from redis import Redis

LAG = 2  # snapshots that a process may be behind another one; older records are trimmed
SECONDS = 5.0  # for an answer
MOST_EVENTS = 1024  # that one script takes in: while it runs, Redis answers nobody else
EXTRA_DAYS = 7  # for which records stay that no window of today needs: snapshots may be late

T = TypeVar("T")
Words = tuple[int | str, ...]  # what `TAKE` is told of an event

TAKE, LABEL = (Path(__file__).with_name(f"{name}.lua").read_text() for name in ("take", "label"))


class Shared:
    """See `store.Store`.

    Args:
        url: of the server, `redis://...` or `rediss://...`.
        use_case: its name; several use cases may share a server.
        base: the snapshot to lie over.
        clock: says what time it is.

    Raises:
        UserError: when redis-py is missing or the URL is none.
        UnavailableError: when the server does not answer.
    """

    def __init__(self, url: str, use_case: str, base: Base, clock: Clock = NOW) -> None:
        self._redis = _connected(url)
        # braces: in a cluster all keys of a use case have to lie on one node
        self._prefix = f"{{nightshift:{use_case}}}:"
        self._label = self._redis.register_script(LABEL)
        self._clock = clock
        self._over = _Over(base, clock)
        self.problem: str | None = None
        with self._answering():
            self._take = self._redis.script_load(TAKE)

    @property
    def base(self) -> Base:
        """The snapshot that it lies over."""
        return self._over.base

    def probe(self) -> None:
        """Look whether Redis answers again; see `store.Store`."""
        if self.problem:
            with suppress(UnavailableError, UserError), self._answering():
                self._redis.ping()

    @property
    def is_quick(self) -> bool:
        """Never: it asks another machine."""
        return False

    def take(self, events: Sequence[Event]) -> list[list[float]]:
        """Take a request's events in; see `store.Store`."""
        (found,) = self.take_all([events])
        if isinstance(found, Exception):
            raise found
        return found

    def take_all(self, requests: Sequence[Sequence[Event]]) -> list[list[list[float]] | Exception]:
        """Take several requests in, with one message to Redis; see `store.Store`."""
        over = self._over
        if not over.base.is_stateful:
            return [_tried(over.alone, events) for events in requests]
        asked = [_tried(over.asked, events) for events in requests]
        answers = self._asked(over, [each for each in asked if not isinstance(each, UserError)])
        return [
            each if isinstance(each, UserError) else _tried(over.rows, events, list(islice(answers, len(events))))
            for events, each in zip(requests, asked, strict=True)
        ]

    def label(self, label: Label) -> bool:
        """Take a label in; return whether its event is known."""
        over = self._over
        known = over.told(label)
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

    def _asked(self, over: "_Over", requests: Sequence[Sequence[Words]]) -> Iterator[Any]:
        """Return what `TAKE` answers to each event of some requests."""
        from redis.exceptions import NoScriptError

        scripts = [[*over.head, *chain.from_iterable(_counted(each))] for each in _joined(requests)]
        with self._answering():
            found = self._evaluated(scripts)
            # started anew meanwhile; what is taken in a second time changes nothing
            if any(isinstance(each, NoScriptError) for each in found):
                self._redis.script_load(TAKE)
                found = self._evaluated(scripts)
            for each in found:
                if isinstance(each, Exception):
                    raise each
        return chain.from_iterable(found)

    def _evaluated(self, scripts: Sequence[Sequence[int | str]]) -> list[Any]:
        with self._redis.pipeline(transaction=False) as pipe:
            for each in scripts:
                pipe.evalsha(self._take, 1, self._prefix, *each)
            found: list[Any] = pipe.execute(raise_on_error=False)
        return found

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            with _answering():
                yield
        except UnavailableError as error:
            self.problem = str(error)
            raise
        self.problem = None


class _Over:
    """A snapshot, and how a process reads what Redis has over it."""

    def __init__(self, base: Base, clock: Clock) -> None:
        spec = base.snapshot.windows
        self.base, self.inputs, self.limits = base, Inputs(spec), Limits(base.snapshot, clock)
        days = max(spec.windows_days, default=0) + spec.label_delay_days
        self.seconds = (days + EXTRA_DAYS) * DAY // 1_000_000

    @property
    def head(self) -> tuple[int, int, int, int]:
        """The first arguments of `TAKE`."""
        until = self.base.until
        return until, until + LAG * DAY, until - LAG * DAY, self.seconds

    def asked(self, events: Sequence[Event]) -> list[Words]:
        """Return the arguments of `TAKE` for each of a request's events, in the order in which they are taken in.

        Raises:
            RefusedEventError: when one is refused.
        """
        return [_refusing(place, self.words, events[place]) for place in in_order(events)]

    def alone(self, events: Sequence[Event]) -> list[list[float]]:
        """Return the numeric inputs of a request's events where there are no windows.

        Raises:
            RefusedEventError: when one is refused.
        """
        for place, event in enumerate(events):
            _refusing(place, self.limits.check, event)
        return [self.inputs.row(event, None, None) for event in events]

    def rows(self, events: Sequence[Event], answers: Sequence[Any]) -> list[list[float]]:
        """Return the numeric inputs of a request's events from what `TAKE` answers.

        Raises:
            RefusedEventError: when an id is another event's.
        """
        found: list[list[float]] = [[]] * len(events)
        order = list(zip(in_order(events), answers, strict=True))
        known = [_refusing(place, self.known, events[place], answer[0]) for place, answer in order]
        for (place, answer), (row, number) in zip(order, known, strict=True):
            found[place] = self.row(events[place], answer, row, number)
        return found

    def words(self, event: Event) -> Words:
        """Return the arguments of `TAKE` for an event.

        Raises:
            UserError: when it is refused.
        """
        self.limits.check(event)
        if event.time < self.base.oldest:
            raise too_old(event, self.base.snapshot)
        units = self.inputs.units(event.amount)
        last, edges = self.inputs.terminal_edges(event.time)
        is_new = self._place(event, units) == NOWHERE
        sides = min(self.inputs.customer_edges(event.time)), last, min(edges)
        return f"{event.time // DAY}:{event.event_id}", *self._names(event), event.time, units, int(is_new), *sides

    def known(self, event: Event, record: str) -> tuple[int, int]:
        """Return an event's place in the snapshot, or `NOWHERE` and the number of its record in Redis.

        Raises:
            UserError: when its id is another event's.
        """
        units = self.inputs.units(event.amount)
        place = self._place(event, units)
        if place != NOWHERE or not record:
            return place, 0
        number, time, _, *rest = record.split(" ")
        if [time, *rest] != [str(event.time), str(units), *self._names(event)]:
            raise another(event)
        return NOWHERE, int(number)

    def row(self, event: Event, answer: Sequence[Any], place: int, number: int) -> list[float]:
        """Return the numeric inputs of an event from what `TAKE` answers; place and number are what `known` returns."""
        _, customers, terminals, labels, values = answer
        customer = self._customer(event, place, number, customers)
        return self.inputs.row(event, customer, self._terminal(event, terminals, zip(labels, values, strict=True)))

    def told(self, label: Label) -> tuple[int | str, str, str] | None:
        """Return the last arguments of `LABEL`; None when the event is known and no window counts its label."""
        place = self.base.place(label.event_id, label.time // DAY) if label.time < self.base.until else NOWHERE
        if place == NOWHERE:
            return "", "", ""
        if not self.base.terminals:
            return None
        row = self.base.terminal_row(place)
        name = self.base.terminals.keys.name(self.base.terminals.of(row))
        return self.base.terminals.times[row], name, str(int(self.base.terminals.labels[row] == 1))

    def _place(self, event: Event, units: int) -> int:
        return self.base.find(event, units) if event.time < self.base.until else NOWHERE

    def _names(self, event: Event) -> tuple[str, str]:
        customer = named(event.customer) if self.base.customers and event.customer is not None else ""
        return customer, named(event.terminal) if self.base.terminals and event.terminal is not None else ""

    def _customer(self, event: Event, place: int, number: int, records: Iterable[str]) -> Found | None:
        if not self.base.customers or event.customer is None:
            return None
        edges, until = self.inputs.customer_edges(event.time), self.base.until
        row = None if place == NOWHERE else self.base.customer_row(place)
        rows = self.base.customers.rows(event.customer, event.time if event.time < until else None, row)
        found = summed(edges, self.base.customers, rows, NOTHING, 0)
        for record in records:
            each, time, over, units = map(int, record.split(" "))
            if max(time, over) >= until and (time < event.time or each <= number):
                add(found[0], 1, time, edges)
                add(found[1], units, time, edges)
        return found

    def _terminal(self, event: Event, records: Iterable[str], labels: Iterable[tuple[str, str | None]]) -> Found | None:
        past = self.base.terminals
        if not past or event.terminal is None:
            return None
        last, edges = self.inputs.terminal_edges(event.time)
        owner = past.keys.find(event.terminal)
        found = past.windows(owner, last, edges)
        for record in records:
            _, time, over, _ = map(int, record.split(" "))
            if max(time, over) >= self.base.until:
                add(found[0], 1, time, edges)
        for name, value in labels:
            if value:
                time, label, over, came = map(int, value.split(" "))
                add(found[1], self._change(name, label, over, max(time, came), past), time, edges)
        return found

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
        place = self.base.place(event_id, int(day))
        own = UNKNOWN if place == NOWHERE else past.labels[self.base.terminal_row(place)]
        is_counted = place != NOWHERE and (own == UNKNOWN or over >= self.base.until)
        return label - (own == 1) if is_counted else 0


def _joined(requests: Iterable[Sequence[Words]]) -> list[list[Sequence[Words]]]:
    """Join requests into scripts, each of `MOST_EVENTS` or of one request."""
    found: list[list[Sequence[Words]]] = []
    size = 0
    for words in requests:
        if not found or size + len(words) > MOST_EVENTS:
            found.append([])
            size = 0
        found[-1].append(words)
        size += len(words)
    return found


def _counted(requests: Iterable[Sequence[Words]]) -> Iterator[Words]:
    """Yield the arguments of `TAKE` for some requests."""
    for words in requests:
        yield (len(words),)
        yield from words


def _connected(url: str) -> "Redis":
    try:
        from redis import Redis
    except ImportError:
        raise UserError(
            "a shared online state needs redis-py; in the checkout run: pip install -e '.[redis]'"
        ) from None
    try:
        return Redis.from_url(url, decode_responses=True, socket_timeout=SECONDS, socket_connect_timeout=SECONDS)
    except ValueError as error:
        raise UserError(f"the URL of Redis is not valid: {error}; give redis://host:port/0") from None


@contextmanager
def _answering() -> Iterator[None]:
    """Say what an error of Redis means; its URL may hold a password, so it is not named."""
    from redis import AuthenticationError, RedisError

    try:
        yield
    except AuthenticationError as error:
        raise UserError(f"Redis: {error}; check user and password in its URL") from None
    except RedisError as error:
        if str(error).startswith("BEHIND"):
            raise UnavailableError(
                f"others serve snapshots that are more than {LAG} days newer; swap to the newest one"
            ) from None
        raise UnavailableError(f"Redis: {error}; check the server, then send the request again") from error


def _refusing(place: int, call: Callable[..., T], *args: Any) -> T:
    """Return what a call says of one of a request's events, which is named where it is refused."""
    try:
        return call(*args)
    except UserError as error:
        raise RefusedEventError(place, error) from None


def _tried(call: Callable[..., Any], *args: Any) -> Any:
    """Return what a call returns, or the mistake of the user that it raises."""
    try:
        return call(*args)
    except UserError as error:
        return error
