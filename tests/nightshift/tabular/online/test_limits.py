"""No event costs the others: one that is refused leaves no trace, in either store, alone or among others."""

import math
import pickle
import random
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from redis import Redis

from nightshift.config import parse
from nightshift.runtime.errors import UserError
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.embedded import Embedded
from nightshift.tabular.online.refusals import RefusedEventError
from nightshift.tabular.online.repair import examine
from nightshift.tabular.online.shared import Shared
from nightshift.tabular.online.state import Label, OnlineState
from nightshift.tabular.online.store import Store
from nightshift.tabular.windows import DAY
from nightshift_testkit import redis
from tests.nightshift.tabular.online.streams import ROLES, START, Labeled, base, config, event, offline

PAST = 4
CHOSEN = config()
END = (START + PAST) * DAY  # end of the snapshot
FRESH = count()


def clock() -> float:
    """A moment of the day after the snapshot."""
    return END / 1e6 + 1000


def drawn(seed: int, past: bool = False) -> list[Labeled]:
    """Events with text keys; those of the days after the snapshot, or of its days."""
    rng = random.Random(seed)
    days = (0, PAST) if past else (PAST, PAST + 1)
    times = sorted(rng.randrange(days[0] * DAY, days[1] * DAY) for _ in range(40))
    rows = [(time, rng.choice("abc"), rng.choice("xyz"), rng.randrange(10**6), None) for time in times]
    events = [event(row, number, CHOSEN) for number, row in enumerate(rows)]
    return [event._replace(event_id=f"{'p' if past else 'n'}{event.event_id}") for event in events]


PASTS = drawn(99, past=True)
BASE = base(PASTS, CHOSEN, PAST)
LIMITS = BASE.snapshot.limits


def refused(rng: random.Random, known: list[Labeled]) -> Labeled:
    """An event that is refused, of any kind; some have the id of one that is known."""
    like = rng.choice(known)
    long = rng.choice("äx") * rng.choice([LIMITS.longest_id + 1, 10**6])
    return rng.choice(
        [
            like._replace(event_id="new", amount=math.nextafter(LIMITS.largest_amount, math.inf)),
            like._replace(event_id="new", amount=rng.choice([9e16, 1e300])),
            like._replace(
                event_id="new", time=END + rng.choice([3 * DAY, 10_000 * DAY, (2932896 - START - PAST) * DAY])
            ),
            like._replace(event_id="new", time=END - DAY - rng.choice([1, DAY, 700_000 * DAY])),
            like._replace(**{rng.choice(["event_id", "customer", "terminal"]): long}),
            like._replace(amount=like.amount + 0.01),
            like._replace(customer="somebody"),
            like._replace(terminal="elsewhere"),
            like._replace(time=like.time // DAY * DAY + (like.time + 1) % DAY),
        ]
    )


class Opened(NamedTuple):
    """A store, and all that it keeps."""

    store: Store
    kept: Any


def embedded(folder: Path, snapshot: Base) -> Opened:
    store = Embedded(folder, snapshot, clock=clock)

    def kept() -> bytes:
        state = store._state
        overlays = [{key: getattr(ids, "ids", ids) for key, ids in group.items()} for group in state._overlays]
        held = [state._records, overlays, state._positives, state._relabeled, state._changed]
        return pickle.dumps([held, (folder / "1.log").read_bytes(), store._log._pending])

    return Opened(store, kept)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with redis.serve(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(params=["embedded", "redis"])
def opened(request, tmp_path):
    """Opens a new store over a snapshot."""

    def one(snapshot: Base) -> Opened:
        if request.param == "embedded":
            return embedded(tmp_path / f"{next(FRESH)}", snapshot)
        url, name = request.getfixturevalue("server"), f"limits-{next(FRESH)}"
        client = Redis.from_url(url)
        return Opened(
            Shared(lambda: url, name, snapshot, clock),
            lambda: {key: client.dump(key) for key in sorted(client.keys(f"*:{name}}}:*"))},
        )

    return one


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_what_is_refused_leaves_no_trace_and_the_others_get_what_they_get_without_it(opened, seed):
    rng, (store, kept), events = random.Random(seed), opened(BASE), drawn(seed)
    answers = []
    for number, arrival in enumerate(events):
        answers += store.take([arrival])
        store.commit()
        before, wrong = kept(), refused(rng, events[: number + 1])
        others = rng.sample([other for other in events if other.event_id != wrong.event_id], 3)
        request = sorted([*others, wrong], key=lambda one: (one.time, one.event_id)) if rng.random() < 0.5 else [wrong]
        with pytest.raises(UserError) as error:
            store.take(request)
        if isinstance(error.value, RefusedEventError):
            assert request[error.value.index].event_id == wrong.event_id
        assert not store.label(Label(wrong.event_id + "?", wrong.time, 1))
        store.commit()
        assert kept() == before
    assert answers == offline([*PASTS, *events], CHOSEN)[len(PASTS) :]
    store.close()


@pytest.mark.slow
def test_of_a_request_that_gives_an_id_to_two_events_none_is_taken_and_the_requests_beside_it_are(opened):
    (store, _), (first, second, third, *_) = opened(BASE), drawn(0)
    twins = [second, second._replace(amount=second.amount + 1)]
    answers = store.take_all([[first], [third, *twins], [third]])
    assert [isinstance(answer, UserError) for answer in answers] == [False, True, False]
    assert answers[1].index == 2
    assert store.take([second]) == [offline([*PASTS, first, second, third], CHOSEN)[-2]]
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"amount": 9e16}, r"amount is 9e\+16; give at most 100,000,000,000 \(limits\.largest_amount\)"),
        (
            {"time": 253402300799 * 10**6},
            r"event_time is 9999-12-31T23:59:59\+00:00; give at most 1 days after now and after 2024-03-04, the "
            r"snapshot's last day \(limits\.days_ahead\)",
        ),
        ({"customer": "a" * 257}, r"customer is 'a{40}'\.\.\., 257 characters; give at most 256 characters"),
    ],
)
def test_a_refusal_names_the_column_the_value_and_what_is_allowed(opened, change, message):
    store, _ = opened(BASE)
    with pytest.raises(UserError, match=message):
        store.take([drawn(0)[0]._replace(**change)])
    store.close()


@pytest.mark.parametrize("roles", [ROLES, ("customer", "amount")])
def test_an_event_may_be_dated_so_many_days_after_now_or_after_the_snapshot_whichever_is_later(roles):
    """In a use case without windows too, which keeps nothing."""
    chosen = config(roles, windows=(1, 2) if "terminal" in roles else ())
    first = event((0, "a", "x", 1, None), 0, chosen)
    for now, last in ((0, END + DAY), (END / 1e6 + 10 * 86_400, END + 11 * DAY)):
        state = OnlineState(base([], chosen, PAST), lambda now=now: now)
        assert state.take(first._replace(time=last - 1))
        with pytest.raises(UserError, match="give at most 1 days after now"):
            state.take(first._replace(time=last + 1))


def test_the_largest_amounts_add_up_exactly_whatever_they_add_up_to():
    chosen = config(("customer", "amount"), windows=(1,))
    state = OnlineState(base([], chosen, PAST))
    largest = event((PAST * DAY, "a", None, 10**13, None), 0, chosen)._replace(amount=LIMITS.largest_amount)
    for number in range(2):
        state.add(state._check_event(largest._replace(event_id=number))[0])
    totals = state._overlays[0]["a"].totals["amount"]
    for number in range(2, 100):
        totals[-1] = 2**63 - 10**13 if number == 50 else totals[-1]
        state.take(largest._replace(event_id=number))
    assert totals[-1] == 2**63 - 10**13 + 50 * 10**13


@pytest.mark.parametrize("late", [False, True])
def test_refunds_add_up_exactly_whatever_they_and_the_payments_before_them_add_up_to(late):
    chosen = config(("customer", "amount"), windows=(1,))
    state = OnlineState(base([], chosen, PAST))
    first = event((PAST * DAY, "a", None, 0, None), 0, chosen)
    units = [2**62, -(2**62), 2**62 - 1, -1, 2**62, -(2**62), -(2**62), -(2**62)]
    entries = [state._check_event(first._replace(event_id=number))[0] for number in range(len(units))]
    for number, amount in enumerate(units):
        time = first.time - number if late else first.time + number
        state.add(msgspec.structs.replace(entries[number], columns=["a", amount], time=time))

    ordered = units[::-1] if late else units
    assert state._overlays[0]["a"].totals["amount"] == [sum(ordered[:count]) for count in range(len(units) + 1)]


@pytest.mark.slow
def test_a_terminal_may_have_more_labels_in_redis_than_lua_unpacks(server):
    store, one = Shared(lambda: server, "labels", BASE, clock), drawn(0)[0]._replace(time=END)
    client, key = Redis.from_url(server), f"1:{store._over._names(BASE.layout.record(one))[1]}"
    names = [f"{START + PAST}:{number}" for number in range(9000)]
    client.zadd(f"{store._prefix}labeled:{key}", dict.fromkeys(names, one.time))
    client.hset(f"{store._prefix}labels:{key}", mapping=dict.fromkeys(names, f"{one.time} 1 {END} {END}"))
    later = one._replace(event_id="later", time=END + DAY)
    events, risk = store.take([one, later])[1][-2:]
    assert round(events * risk) == 9000
    store.close()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            {"largest_amount": 1e15},
            r"limits\.largest_amount: is 1,000,000,000,000,000, and with task\.amount_decimals 2",
        ),
        ({"largest_amount": 0}, "greater than 0"),
        ({"days_ahead": 0}, "greater than or equal to 1"),
        ({"longest_id": 0}, "greater than or equal to 1"),
    ],
)
def test_limits_that_limit_nothing_are_refused(limits, message):
    with pytest.raises(UserError, match=message):
        parse(config().model_dump(mode="json", exclude_none=True) | {"limits": limits})


def test_a_restart_takes_in_what_the_log_has_whatever_the_limits_are_now(tmp_path):
    store, _ = embedded(tmp_path, BASE)
    store.take(drawn(1))
    store.close()
    assert len(examine(tmp_path).records) == 40
    again = Embedded(tmp_path, BASE, clock=lambda: 0)
    assert again.label(Label("n1", drawn(1)[1].time, 1))
    again.close()
