"""Snapshots as files: whole, found by what they serve, and refused when they are not what their manifest says."""

from datetime import date, timedelta
from pathlib import Path

import pytest

from nightshift.contracts.online import Snapshot
from nightshift.contracts.preprocessing import TabularPreprocessing
from nightshift.data.splits import Days
from nightshift.runtime.errors import UserError
from nightshift.tabular import declarations
from nightshift.tabular.online import base as past
from nightshift.tabular.online import snapshot
from nightshift.tabular.online.state import OnlineState
from nightshift.tabular.windows import DAY
from tests.nightshift.tabular.online.streams import FIRST, START, config, event, frame, offline

CHOSEN = config()
ROWS = [(hour * DAY // 5, f"c{hour % 3}", hour % 2, 100 * hour, hour % 2) for hour in range(25)]
EVENTS = [event(row, f"e{number}", CHOSEN) for number, row in enumerate(ROWS)]
DAYS = Days(FIRST, FIRST + timedelta(days=4))


def written(lake: Path, chosen=CHOSEN, days=DAYS) -> str:
    uri = snapshot.snapshot_uri(str(lake), "tiny", days.last, "k" * 64)
    snapshot.write(uri, *snapshot.build_snapshot(chosen, days, frame(EVENTS, CHOSEN)))
    return uri


def test_a_mapped_snapshot_answers_as_the_batch_does(tmp_path):
    state = OnlineState(snapshot.map_file(written(tmp_path), str(tmp_path)))
    probe = event((5 * DAY, "c1", 1, 100, None), "new", CHOSEN)
    assert state.take(probe)[0] == offline([*EVENTS, probe], CHOSEN)[-1]


def test_the_same_events_give_the_same_file(tmp_path):
    first, second = written(tmp_path / "a"), written(tmp_path / "b")
    assert Snapshot.read(f"{first}.json") == Snapshot.read(f"{second}.json")
    assert Path(first).read_bytes() == Path(second).read_bytes()


def test_a_file_that_is_not_the_manifests_is_refused_and_no_copy_stays(tmp_path):
    uri = written(tmp_path / "lake")
    content = bytearray(Path(uri).read_bytes())
    content[100] ^= 1
    Path(uri).write_bytes(content)
    with pytest.raises(UserError, match="is not the file that its manifest names; restore it, or move both away"):
        snapshot.map_file(uri, str(tmp_path))
    assert not list(tmp_path.glob("*.state"))


def model(chosen):
    spec = chosen.feature_spec
    return TabularPreprocessing(
        numeric=declarations.numeric_inputs(spec, chosen.columns.numeric), categorical={}, features=spec
    )


def test_a_snapshot_whose_events_may_miss_numbers_serves_no_model_that_needs_them():
    chosen = config(numeric=["km"], limits={"nullable": ["km"]})
    _, manifest = snapshot.build_snapshot(chosen, DAYS, frame(EVENTS, CHOSEN).assign(km=1.0))
    needy = model(chosen)
    assert not snapshot.serves(manifest, needy)
    assert snapshot.serves(manifest, needy.model_copy(update={"nullable": ["km"]}))


def test_the_newest_snapshot_that_serves_a_model_is_found(tmp_path):
    spec, other = model(CHOSEN), config(windows=(7,))
    assert snapshot.newest(str(tmp_path), "tiny", spec) is None
    older = written(tmp_path)
    written(tmp_path, other, Days(FIRST, date(2024, 3, 9)))
    assert snapshot.newest(str(tmp_path), "tiny", spec) == older
    newer = written(tmp_path, days=Days(FIRST, date(2024, 3, 7)))
    assert snapshot.newest(str(tmp_path), "tiny", spec) == newer
    Path(f"{newer}.json").unlink()  # not complete
    assert snapshot.newest(str(tmp_path), "tiny", spec) == older


def test_texts_that_share_half_of_their_hash_are_told_apart_and_may_repeat():
    first, check = past.halves("ann")
    checks = [check + 1, check, check - 1, check, check + 1]
    keys = past.Keys({"names": [first - 1, *[first] * 5], "names_check": [check, *checks]}, "names")
    assert keys.find("ann") == 2
    assert list(keys.find_all("ann")) == [2, 4]
    assert keys.find("bob") == past.NOWHERE


def test_an_id_is_found_on_each_of_its_days_and_on_no_other():
    names = [(day, number, name) for day in range(5) for number, name in enumerate("zam") if (day, name) != (2, "a")]
    events = [event((day * DAY + number, "ann", 1, 100, None), name, CHOSEN) for day, number, name in names]
    base = snapshot.in_memory(CHOSEN, DAYS, frame(events, CHOSEN))
    times = {(event.event_id, event.time // DAY): event.time for event in events}
    assert {key: base.time(base.locate(*key)) for key in times} == times
    assert base.locate("b", START + 1) == base.locate("a", START + 2) == past.NOWHERE


def test_a_copy_that_was_damaged_is_made_again_and_is_for_this_user_alone(tmp_path):
    uri = written(tmp_path / "lake")
    whole = Path(uri).read_bytes()
    snapshot.map_file(uri, str(tmp_path / "copies"))
    (copy,) = (tmp_path / "copies").iterdir()
    for damaged in (b"", whole[:-1], bytes(len(whole))):
        copy.write_bytes(damaged)
        snapshot.map_file(uri, str(tmp_path / "copies"))
        assert copy.read_bytes() == whole
    assert (copy.stat().st_mode & 0o777, copy.parent.stat().st_mode & 0o777) == (0o600, 0o700)
