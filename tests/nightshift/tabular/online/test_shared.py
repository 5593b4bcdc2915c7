"""The store in a real Redis: the same answers as the embedded one, from several processes, whatever ends."""

import random
import re
import threading
from itertools import count

import pytest

from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.tabular.online.shared import MOST_EVENTS, Shared
from nightshift.tabular.online.state import Label, OnlineState
from nightshift.tabular.windows import DAY
from nightshift_testkit import redis
from nightshift_testkit.processes import wait_until
from nightshift_testkit.servers import free_port
from tests.nightshift.tabular.online.streams import ROLES, START, base, config, event, offline

pytestmark = pytest.mark.slow

PAST = 4
CHOSEN = config(numeric=["distance"])
NAMES = ["ann", "zoë", "bob 2"]


def drawn(number: int, customers=range(3)) -> list:
    """Rows of seven days, several of one time, some of them positive; the same ones every time."""
    rng = random.Random(number)
    times = [rng.choice([rng.randrange(7 * DAY), 4 * DAY, 5 * DAY]) for _ in range(number)]
    labels = [rng.choice([0, 1, None]) for _ in times]
    rows = [(time, rng.choice(customers), rng.randrange(3), rng.randrange(10**6)) for time in times]
    return sorted(((*row, label) for row, label in zip(rows, labels, strict=True)), key=lambda row: row[0])


ROWS = drawn(300)
EVENTS = [event(row, number, CHOSEN) for number, row in enumerate(ROWS)]
PAST_END = (START + PAST) * DAY
LATER = [event for event in EVENTS if event.time >= PAST_END]
# nobody tells the labels of these
UNTOLD = [event._replace(label=None) if event in LATER else event for event in EVENTS]
FRESH = count()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with redis.serve(tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture
def opened(server):
    """Opens stores of one use case, which nobody else has."""
    stores, name = [], f"case-{next(FRESH)}"

    def one(snapshot) -> Shared:
        stores.append(Shared(lambda: server, name, snapshot))
        return stores[-1]

    yield one
    for store in stores:
        store.close()


def past(days=PAST, events=EVENTS, chosen=CHOSEN):
    return base(events, chosen, days)


@pytest.mark.parametrize("roles", [ROLES, ("customer", "amount"), ("terminal",)])
@pytest.mark.parametrize("label_delay", [0, 1])
@pytest.mark.parametrize("customers", [range(3), NAMES])
def test_every_event_gets_the_bits_that_the_batch_gives_it_later(opened, roles, label_delay, customers):
    chosen = config(roles, delay=label_delay)
    events = [event(row, number, chosen) for number, row in enumerate(drawn(150, customers))]
    unlabeled = [event._replace(label=None) for event in events]
    store, waiting = opened(past(PAST, unlabeled, chosen)), list(events)
    for arrival, expected in zip(events, offline(events, chosen), strict=True):
        due = [other for other in waiting if other.time + max(label_delay * DAY, 1) <= arrival.time]
        for other in due:
            waiting.remove(other)
            if other.label is not None:
                assert store.label(Label(other.event_id, other.time, other.label))
        if arrival.time >= store.base.oldest:
            assert store.take([arrival]) == [expected]


def test_a_request_is_answered_as_the_embedded_store_does_late_twice_or_out_of_order(opened):
    shuffled = random.Random(0).sample(LATER, len(LATER))
    embedded, shared = OnlineState(past()), opened(past())
    for start in range(0, len(shuffled), 7):
        part = sorted(shuffled[start : start + 7], key=lambda sent: (sent.time, sent.event_id))
        assert shared.take(part) == [embedded.take(sent)[0] for sent in part]
        for sent in part:
            if sent.label is not None:
                assert shared.label(Label(sent.event_id, sent.time, sent.label))
                assert embedded.label(Label(sent.event_id, sent.time, sent.label))
    for start in range(0, len(LATER), 50):
        assert shared.take(LATER[start : start + 50]) == [embedded.take(sent)[0] for sent in LATER[start : start + 50]]


def test_requests_that_come_at_once_are_answered_as_one_after_the_other_but_for_those_that_are_refused(opened):
    """More of them than one script takes in; the second one is of a day that the snapshot no longer serves."""
    embedded, shared = OnlineState(past()), opened(past())
    rows = drawn(3000)
    events = [arrival for number, row in enumerate(rows) if (arrival := event(row, number, CHOSEN)).time >= PAST_END]
    requests = [events[start : start + 5] for start in range(0, len(events), 5)]
    requests.insert(1, [event((1, 0, 0, 1, None), 7000, CHOSEN)])
    answers = shared.take_all(requests)
    assert len(events) > MOST_EVENTS
    assert "is of a day before" in str(answers.pop(1))
    assert [row for batch in answers for row in batch] == [embedded.take(event)[0] for event in events]


def test_labels_that_change_count_as_in_the_embedded_store(opened):
    embedded, shared, rng = OnlineState(past()), opened(past()), random.Random(0)
    for arrival in LATER:
        embedded.take(arrival)
    shared.take(LATER)
    # moments of the snapshot's events and of later ones
    moments = [(days * DAY + key, key) for days in (5, 8) for key in range(3)]
    probes = [event((time, 9, key, 0, None), 1000 + number, CHOSEN) for number, (time, key) in enumerate(moments)]
    for _ in range(5):
        for arrival in rng.sample(EVENTS, 40):
            label = Label(arrival.event_id, arrival.time, rng.randrange(2))
            assert embedded.label(label) == shared.label(label) is True
        assert shared.take(probes) == [embedded.take(arrival)[0] for arrival in probes]
    assert not shared.label(Label(77_777, 5 * DAY, 1))


def test_two_processes_whose_snapshots_differ_both_answer_as_the_batch_does(opened):
    older, newer = opened(past(events=UNTOLD)), opened(past(PAST + 1, UNTOLD))
    served = [arrival for arrival in LATER if arrival.time >= newer.base.oldest]
    older.take([arrival for arrival in LATER if arrival.time < newer.base.oldest])
    expected = offline(UNTOLD, CHOSEN)[-len(served) :]
    for number, arrival in enumerate(served):
        first, second = (older, newer) if number % 2 else (newer, older)
        assert first.take([arrival]) == second.take([arrival]) == [expected[number]]


def test_an_event_that_the_lake_never_got_stays_until_a_snapshot_covers_its_day(opened):
    stray = event((4 * DAY + 7, 0, 0, 777, None), 999, CHOSEN)
    probe = event((7 * DAY - 1, 0, 0, 1, None), 1000, CHOSEN)
    store = opened(past(PAST + 1))
    store.take([stray])
    with_stray = sorted(
        [*[event for event in EVENTS if event.time < (START + 5) * DAY], stray], key=lambda event: event.time
    )
    early = event((5 * DAY, 0, 0, 1, None), 1001, CHOSEN)
    assert store.take([early]) == [offline([*with_stray, early], CHOSEN)[-1]]
    store.swap(past(PAST + 2))
    known = [*[event for event in EVENTS if event.time < (START + 6) * DAY], probe]
    assert store.take([probe]) == [offline(known, CHOSEN)[-1]]


def test_a_label_stays_until_a_snapshot_has_one_of_its_own(opened):
    unlabeled = [event._replace(label=None) for event in EVENTS]
    store = opened(past(events=unlabeled))
    labeled = [event for event in EVENTS if (START + 3) * DAY <= event.time < (START + 4) * DAY]
    assert all(store.label(Label(event.event_id, event.time, 1)) for event in labeled)
    positive = [event._replace(label=1) if event in labeled else event._replace(label=None) for event in EVENTS]
    negative = [event._replace(label=0) if event in labeled else event._replace(label=None) for event in EVENTS]
    probe = event((5 * DAY + 1, 0, 0, 100, None), 2000, CHOSEN)
    for snapshot, events in ((unlabeled, positive), (negative, negative)):
        store.swap(past(PAST + 1, snapshot))
        known = [event for event in events if event.time < (START + 5) * DAY]
        answer, expected = store.take([probe])[0], offline([*known, probe], CHOSEN)[-1]
        assert answer == expected


def test_what_was_answered_is_there_after_redis_was_killed(tmp_path):
    port = free_port()
    for part in (LATER[:60], LATER[60:]):
        with redis.serve(tmp_path, port) as url:
            store = Shared(lambda: url, "fraud", past())
            store.take(part)
    with redis.serve(tmp_path, port) as url:
        store = Shared(lambda: url, "fraud", past())
        assert store.take(LATER) == offline(UNTOLD, CHOSEN)[-len(LATER) :]
        store.close()
    with pytest.raises(UnavailableError, match=r"Redis: .* check the server, then send the request again"):
        store.take(LATER[:1])
    store.probe()
    assert store.problem
    with redis.serve(tmp_path, port):
        store.probe()
        assert store.problem is None
    store.close()


def test_threads_that_send_the_same_events_get_the_same_answers(opened):
    answers: list[list] = []

    def send() -> None:
        store = opened(past())
        answers.append([store.take([event])[0] for event in LATER[:60]])

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers[0] == answers[1] == answers[2] == offline(UNTOLD, CHOSEN)[len(EVENTS) - len(LATER) :][:60]


def test_a_process_that_is_too_far_behind_is_told_to_swap(opened):
    opened(past(PAST + 3)).take([event((7 * DAY, 0, 0, 1, None), 5000, CHOSEN)])
    behind = opened(past())
    with pytest.raises(UnavailableError, match="more than 2 days newer; swap to the newest one"):
        behind.take(LATER[:1])


def test_what_is_refused_is_refused_in_the_same_words(opened):
    store = opened(past())
    store.take(LATER[:1])
    with pytest.raises(UserError, match="is known with another time, customer, terminal or amount"):
        store.take([LATER[0]._replace(amount=0.01)])
    with pytest.raises(UserError, match="is of a day before 2024-03-04"):
        store.take([event((1, 0, 0, 1, None), 7000, CHOSEN)])
    with pytest.raises(UserError, match="the snapshot ends on 2024-03-03, the state's on 2024-03-04"):
        store.swap(past(PAST - 1))


# what makes Redis refuse a write, and what it says
REFUSALS = [
    ("CONFIG SET requirepass secret", "already authenticated|Authentication required"),
    ("ACL SETUSER default -evalsha", "NOPERM|no permissions|can't run this command"),
    ("CONFIG SET maxmemory 1", "OOM|command not allowed"),
    ("REPLICAOF 127.0.0.1 1", "read only replica"),
    ("CONFIG SET min-replicas-to-write 1", "NOREPLICAS|Not enough good replicas"),
    ("CONFIG SET maxmemory-policy allkeys-lru", "maxmemory-policy is 'allkeys-lru', which forgets events"),
]


@pytest.mark.parametrize(("command", "reason"), REFUSALS, ids=[command for command, _ in REFUSALS])
def test_a_redis_that_refuses_writes_is_unavailable_and_never_the_clients_mistake(tmp_path, command, reason):
    with redis.administer(tmp_path) as (url, admin):
        store = Shared(lambda: url, "fraud", past())
        assert store.problem is None
        admin.execute_command(*command.split())
        admin.client_kill_filter(_type="normal", skipme=True)
        if "policy" in command:
            wait_until(lambda: store.probe() or store.problem, "the change is noticed")
        with pytest.raises(UnavailableError, match=reason):
            store.take(LATER[:1])
        assert re.search(reason, store.problem)
        store.close()


def test_a_redis_that_takes_no_write_is_noticed_without_a_request(tmp_path):
    with redis.administer(tmp_path) as (url, admin):
        store = Shared(lambda: url, "fraud", past())
        admin.replicaof("127.0.0.1", "1")
        wait_until(lambda: store.probe() or store.problem, "the probe notices it")
        admin.replicaof("NO", "ONE")
        wait_until(lambda: store.probe() or not store.problem, "and that it is over")
        store.close()


def test_a_rotated_password_is_read_from_the_file_again(tmp_path):
    with redis.administer(tmp_path) as (url, admin):
        urls = [url]
        store = Shared(lambda: urls[0], "fraud", past())
        admin.config_set("requirepass", "secret")
        admin.client_kill_filter(_type="normal", skipme=True)
        with pytest.raises(UnavailableError, match="check user, password and permissions"):
            store.take(LATER[:1])
        urls[0] = url.replace("redis://", "redis://:secret@")
        store.probe()
        assert store.problem is None
        assert store.take(LATER[:1]) == offline(UNTOLD, CHOSEN)[len(EVENTS) - len(LATER) :][:1]
        store.close()
        with pytest.raises(UserError, match="check user, password and permissions"):
            Shared(lambda: url, "fraud", past())


def test_a_redis_on_a_unix_socket_serves_as_the_message_about_a_wrong_url_says(tmp_path):
    with redis.administer(tmp_path):
        store = Shared(lambda: f"unix://{tmp_path}/socket?db=0", "fraud", past())
        assert store.take(LATER[:1]) == offline(UNTOLD, CHOSEN)[len(EVENTS) - len(LATER) :][:1]
        store.close()
    with pytest.raises(UserError, match=r"give redis://host:port/0 or unix://path\?db=0"):
        Shared(lambda: "http://redis", "fraud", past())


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_a_redis_that_may_evict_keys_is_refused_at_the_start(tmp_path, policy):
    with redis.administer(tmp_path) as (url, admin):
        admin.config_set("maxmemory-policy", policy)
        with pytest.raises(UserError, match=f"maxmemory-policy is '{policy}'.* allowed: 'noeviction'"):
            Shared(lambda: url, "fraud", past())
