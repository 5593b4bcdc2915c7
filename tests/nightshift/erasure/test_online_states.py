"""Snapshots and online states without a customer: what others are answered is what they would be had it never come."""

import random
from itertools import count
from pathlib import Path

import pytest

from nightshift import storage
from nightshift.contracts.online import Snapshot
from nightshift.erasure import snapshots
from nightshift.erasure.embedded_state import EmbeddedState
from nightshift.erasure.shared_state import SharedState
from nightshift.erasure.subject import DataSubject
from nightshift.runtime.errors import UnavailableError
from nightshift.tabular.online.embedded import Embedded
from nightshift.tabular.online.shared import Shared, connect
from nightshift.tabular.online.state import Label
from nightshift.tabular.windows import DAY
from nightshift_testkit import redis
from nightshift_testkit.servers import free_port
from tests.nightshift.tabular.online.streams import START, config, event, offline, stored, written

DAYS = 4
PAIR = {"entity": ["customer", "terminal"], "functions": ["count", "max"], "column": "amount", "windows": ["6h"]}
CHOSEN = config(declared=({**PAIR, "functions": ["max"]}, {**PAIR, "functions": ["count"], "column": None}))
FRESH = count()


def drawn(customers: list) -> list:
    """Events of seven days; an eighth of them are positive."""
    rng = random.Random(7)
    rows = [
        (rng.randrange(7 * DAY), rng.choice(customers), rng.randrange(3), rng.randrange(10**4), int(rng.random() < 0.1))
        for _ in range(200)
    ]
    return [event(row, 10_000 + number, CHOSEN) for number, row in enumerate(sorted(rows))]


def subject_of(events: list, customer: object) -> DataSubject:
    """A customer with the ids of its events before the online ones, as the lake has them."""
    known = {str(one.event_id) for one in events if one.customer == customer and one.time < (START + DAYS) * DAY}
    return DataSubject("customer", "customer", str(customer), "event_id", frozenset(known))


def others(events: list, customer: object) -> list:
    return [one for one in events if one.customer != customer]


@pytest.fixture(params=[[12, 123, 1], ["ann", "zoë", "ann 2"]], ids=["numbers", "texts"])
def customers(request: pytest.FixtureRequest) -> list:
    return list(request.param)


def test_a_snapshot_is_that_of_the_other_customers_bit_by_bit(tmp_path: Path, customers: list) -> None:
    events = drawn(customers)
    uri = written(events, CHOSEN, DAYS, str(tmp_path))
    before, subject = Snapshot.read(f"{uri}.json"), subject_of(events, customers[0])
    assert snapshots.count(storage.read_bytes(uri), before, subject) == len(subject.events)

    snapshots.erase(uri, storage.read_bytes(uri), before, subject)

    never = written(others(events, customers[0]), CHOSEN, DAYS, str(tmp_path))
    one, two = Snapshot.read(f"{uri}.json"), Snapshot.read(f"{never}.json")
    assert one == two
    assert storage.read_bytes(uri) == storage.read_bytes(never)
    assert snapshots.count(storage.read_bytes(uri), one, subject) == 0


def test_an_entity_without_features_of_its_own_is_found_by_its_events(tmp_path: Path) -> None:
    events = drawn([12, 123])
    uri = written(events, CHOSEN, DAYS, str(tmp_path))
    by_events = DataSubject("nobody", "nobody", "12", "event_id", subject_of(events, 12).events)

    snapshots.erase(uri, storage.read_bytes(uri), Snapshot.read(f"{uri}.json"), by_events)

    never = written(others(events, 12), CHOSEN, DAYS, str(tmp_path))
    assert storage.read_bytes(uri) == storage.read_bytes(never)


def later(events: list) -> list:
    return [one for one in events if one.time >= (START + DAYS) * DAY]


def probes(customers: list) -> list:
    return [
        event((7 * DAY + key, customer, key, 100, None), 90_000 + key, CHOSEN) for key, customer in enumerate(customers)
    ]


def expected(events: list, customers: list) -> list[list[float]]:
    asked = probes(customers[1:])
    return offline([*others(events, customers[0]), *asked], CHOSEN)[-len(asked) :]


def send(store: Embedded | Shared, events: list) -> None:
    store.take(later(events))
    for one in later(events):
        store.label(Label(one.event_id, one.time, one.label))
    store.commit()


def test_a_state_in_files_answers_others_as_if_the_customer_had_never_come(tmp_path: Path, customers: list) -> None:
    events, folder = drawn(customers), tmp_path / "state"
    store = Embedded(folder, stored(events, CHOSEN, DAYS, str(tmp_path)))
    send(store, events)
    store.close()
    state = EmbeddedState(folder, store.base.snapshot)
    subject = state.identify(subject_of(events, customers[0]))
    assert len(subject.events) == len(events) - len(others(events, customers[0]))

    state.erase(subject)

    assert state.count(subject) == 0
    without = stored(others(events, customers[0]), CHOSEN, DAYS, str(tmp_path))
    again = Embedded(folder, without)
    assert again.take(probes(customers[1:])) == expected(events, customers)
    again.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory):
    with redis.serve(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.mark.slow
def test_a_state_in_redis_answers_others_as_if_the_customer_had_never_come(
    tmp_path: Path, customers: list, server: str
) -> None:
    events, name = drawn(customers), f"erased-{next(FRESH)}"
    store = Shared(lambda: server, name, stored(events, CHOSEN, DAYS, str(tmp_path)))
    send(store, events)
    store.close()
    with connect(server) as client:
        state = SharedState(client, name, store.base.snapshot)
        subject = state.identify(subject_of(events, customers[0]))
        assert len(subject.events) == len(events) - len(others(events, customers[0]))

        state.erase(subject)

        assert state.count(subject) == 0
        kept = "\n".join(client.scan_iter(match=f"*{name}*", count=1000))
        assert not any(f":{one}" in kept.split("\n") for one in subject.events)
    again = Shared(lambda: server, name, stored(others(events, customers[0]), CHOSEN, DAYS, str(tmp_path)))
    assert again.take(probes(customers[1:])) == expected(events, customers)
    again.close()


@pytest.mark.slow
def test_a_redis_that_is_down_is_said_to_be(tmp_path: Path) -> None:
    base = stored(drawn([1, 2]), CHOSEN, DAYS, str(tmp_path))
    with connect(f"redis://127.0.0.1:{free_port()}/0") as client, pytest.raises(UnavailableError, match="Redis"):
        SharedState(client, "tiny", base.snapshot).count(DataSubject("customer", "customer", "1", "event_id"))
