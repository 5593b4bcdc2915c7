"""The store with a log on disk: what it has acknowledged is there however it ends, and whatever snapshot comes next."""

import math
import random
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.tabular.online.embedded import Embedded, last
from nightshift.tabular.online.log import commits
from nightshift.tabular.online.state import Label
from nightshift.tabular.windows import DAY
from nightshift_testkit.processes import started
from tests.nightshift.tabular.online.streams import FIRST, START, config, event, offline, stored

PAST = 4
CHOSEN = config()
RNG = random.Random(0)
ROWS = sorted((RNG.randrange(7 * DAY), RNG.randrange(3), RNG.randrange(3), RNG.randrange(10**4), 0) for _ in range(300))
EVENTS = [event(row, number, CHOSEN) for number, row in enumerate(ROWS)]
LATER = [event for event in EVENTS if event.time >= (START + PAST) * DAY]
# those that each of three snapshots in a row can serve
SENT = [event for event in LATER if event.time >= (START + PAST + 1) * DAY]
PROBES = [event((7 * DAY + key, key, key, 100, None), 1000 + key, CHOSEN) for key in range(3)]


FOLDER = tempfile.TemporaryDirectory()


def past(days=PAST, events=EVENTS):
    return stored(events, CHOSEN, days, FOLDER.name)


def probed(store) -> list[list[float]]:
    """What the store says of events that see everything."""
    return store.take(PROBES)


def written(store, folder) -> Path:
    """The log of two commits; a power loss has left the mark of the first, so the last nine events are at stake."""
    store.take(LATER[:-9])
    store.commit()
    mark = (folder / "mark").read_bytes()
    store.take(LATER[-9:])
    store.close()
    (folder / "mark").write_bytes(mark)
    return folder / "1.log"


@pytest.fixture
def opened(tmp_path):
    """Opens the folder's state over a snapshot; closes it at last."""
    stores = []

    def one(snapshot) -> Embedded:
        stores.append(Embedded(tmp_path, snapshot))
        return stores[-1]

    yield one
    for store in stores:
        store.close()


EXPECTED = offline([*EVENTS, *PROBES], CHOSEN)[len(EVENTS) :]


def test_what_was_committed_is_there_after_a_restart(opened, tmp_path):
    store = opened(past())
    assert store.take(LATER) == offline(EVENTS, CHOSEN)[-len(LATER) :]
    store.close()
    assert probed(opened(past())) == EXPECTED


def test_an_event_loop_may_wait_for_a_disk_whose_last_commit_was_quick_and_for_no_swap(opened, tmp_path):
    store = opened(past())
    assert not store.is_quick, "nobody knows yet"
    store.take(LATER)
    store.commit()
    assert store._log.seconds < math.inf
    for seconds, is_quick in ((0.0001, True), (0.1, False)):
        store._log.seconds = seconds
        assert store.is_quick is is_quick
    store._log.seconds = 0.0001
    with store._swapping:
        assert not store.is_quick


def test_a_request_that_is_not_in_order_of_time_is_taken_in_order_of_time_and_id(opened, tmp_path):
    store = opened(past())
    ties = [event((7 * DAY - 1, 0, 0, cents, None), 400 + cents, CHOSEN) for cents in range(3)]
    events, sent = [*EVENTS, *ties], [*LATER, *ties]
    assert store.take(sent[::-1]) == offline(events, CHOSEN)[-len(sent) :][::-1]


@pytest.mark.parametrize("cut", [1, 9, 30])
def test_a_torn_last_commit_is_dropped_and_the_next_ones_are_whole(opened, tmp_path, cut):
    log = written(opened(past()), tmp_path)
    log.write_bytes(log.read_bytes().rstrip(b"\0")[:-cut])
    again = opened(past())
    again.take(LATER[-9:])  # sent again, since it was not acknowledged
    again.close()
    assert sum(len(commit.records) for commit in commits(log)) == len(LATER)
    assert probed(opened(past())) == EXPECTED


@pytest.mark.parametrize("part", [slice(-200, -100), slice(-100, None)])
def test_a_commit_of_which_a_power_loss_has_left_a_part_as_zeros_is_dropped_as_a_whole(opened, tmp_path, part):
    log = written(opened(past()), tmp_path)
    whole = bytearray(log.read_bytes().rstrip(b"\0"))
    whole[part] = bytes(len(whole[part]))
    log.write_bytes(whole + bytes(1000))
    again = opened(past())
    assert [record.event_id for commit in commits(log) for record in commit.records] == [
        event.event_id for event in LATER[:-9]
    ]
    again.take(LATER[-9:])
    assert probed(again) == EXPECTED


def test_one_process_at_a_time_has_the_state(opened, tmp_path):
    store = opened(past())
    with pytest.raises(UserError, match="is used by another process"):
        Embedded(tmp_path, past(), seconds=0)
    store.close()
    opened(past()).close()


def test_a_full_disk_acknowledges_nothing_takes_no_more_in_and_loses_nothing_once_there_is_room(opened, tmp_path):
    store = opened(past())
    store.take(LATER[:1])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30, hard))  # the first record is torn
    try:
        for refused in (store.commit, lambda: store.take(LATER[1:]), store.commit):
            with pytest.raises(UnavailableError, match=r"1\.log: File too large; make room"):
                refused()
        assert "make room" in str(store.problem)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.probe()
    assert store.problem is None
    store.take(LATER[1:])
    store.close()
    assert probed(opened(past())) == EXPECTED


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_newer_snapshot_takes_the_place_of_the_days_that_it_covers_and_the_rest_stays(opened, tmp_path, is_restarted):
    store = opened(past())
    # one of the day that the newer one covers was never delivered to the lake: the lake is right
    store.take([event((4 * DAY + 7, 0, 0, 777, None), 999, CHOSEN), *LATER])
    store.commit()
    if is_restarted:
        store.close()
        store = opened(past(PAST + 1))
    else:
        store.swap(past(PAST + 1))
    assert {path.name for path in tmp_path.iterdir()} == {"2.log", "mark", "lock"}
    store.close()
    assert probed(opened(past(PAST + 1))) == EXPECTED


def test_what_is_not_yet_durable_at_a_swap_is_carried_over_and_what_an_earlier_swap_has_left_is_not(opened, tmp_path):
    store = opened(past())
    store.take(SENT[:50])
    store.commit()
    store.take(SENT[50:])
    (tmp_path / "2.log").write_bytes((tmp_path / "1.log").read_bytes())
    store.swap(past(PAST + 1))
    store.close()
    assert probed(opened(past(PAST + 1))) == EXPECTED


def test_an_older_snapshot_is_refused(opened, tmp_path):
    store = opened(past(PAST + 1))
    with pytest.raises(UserError, match="the snapshot ends on 2024-03-04, the state's on 2024-03-05"):
        store.swap(past())


def test_a_label_stays_until_a_snapshot_has_one_of_its_own(opened, tmp_path):
    unlabeled = [event._replace(label=None) for event in EVENTS]
    store = opened(past(events=unlabeled))
    probe = event((5 * DAY, 0, 0, 100, None), 2000, CHOSEN)
    labeled = [event for event in EVENTS if (START + 3) * DAY <= event.time < (START + 4) * DAY]
    assert all(store.label(Label(event.event_id, event.time, 1)) for event in labeled)
    store.commit()

    def risk(events) -> list[float]:
        known = [event for event in events if event.time < probe.time]
        return offline([*known, probe], CHOSEN)[-1]

    store.swap(past(PAST + 1, unlabeled))
    positive = [event._replace(label=1) if event in labeled else event for event in EVENTS]
    assert store.take([probe]) == [risk(positive)] != [risk(EVENTS)]
    store.close()
    store = opened(past(PAST + 1))
    assert store.take([probe]) == [risk(EVENTS)]


def test_requests_during_swaps_are_all_there_afterwards(opened, tmp_path):
    store = opened(past())
    parts = [SENT[start::4] for start in range(4)]

    def send(part) -> None:
        for arrival in part:
            store.take([arrival])
            store.commit()

    threads = [threading.Thread(target=send, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for days in (PAST + 1, PAST + 2):
        store.swap(past(days))
    for thread in threads:
        thread.join()
    store.close()
    assert probed(opened(past(PAST + 2))) == EXPECTED


SENDER = """
import sys
from pathlib import Path
from nightshift.tabular.online.embedded import Embedded
from tests.nightshift.tabular.online.test_embedded import PAST, SENT, past

store, newer = Embedded(Path(sys.argv[1]), past()), [past(PAST + 1), past(PAST + 2)]
for number, each in enumerate(SENT):
    store.take([each])
    store.commit()
    print(number, flush=True)
    if number % 30 == 20 and newer:
        store.swap(newer.pop(0))
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment_every_acknowledged_event_is_in_the_state(opened, tmp_path, seed):
    # it goes on while we read: the kill falls into a write, a swap or between them
    chosen, acknowledged = random.Random(seed).randrange(len(SENT) - 1), -1
    command = [sys.executable, "-c", SENDER, str(tmp_path)]
    with started(command, stdout=subprocess.PIPE, text=True) as sender:
        while acknowledged < chosen:
            acknowledged = int(sender.stdout.readline())
        sender.send_signal(signal.SIGKILL)
        with sender.stdout:
            acknowledged = max([acknowledged, *map(int, sender.stdout.read().split())])
    store = opened(past((last(tmp_path) - FIRST).days + 1))
    missing = [event for event in SENT[: acknowledged + 1] if not store.label(Label(event.event_id, event.time, 0))]
    assert not missing
    store.swap(past(PAST + 2))
    store.take(SENT)
    assert probed(store) == EXPECTED
