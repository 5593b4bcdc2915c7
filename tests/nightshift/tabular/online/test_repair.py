"""A state whose files are not as they were left: what was acknowledged is there, or a person is asked."""

import subprocess
from pathlib import Path

import pytest

from nightshift.runtime.errors import UserError
from nightshift.tabular.online.embedded import Embedded
from nightshift.tabular.online.repair import examine, repair
from nightshift_testkit.processes import SECONDS, engine
from tests.nightly.damaged_states import EVENTS, SavedEvents, hunt
from tests.nightshift.tabular.online.streams import base, config


def test_no_damage_to_any_file_loses_what_was_acknowledged_in_silence():
    outcomes, repairs = hunt(positions=6)
    assert {name for name, _ in outcomes} == {"2.log", "mark", "lock", "<snapshot>.state"}
    assert not {case: counts for case, counts in outcomes.items() if counts["LOST"]}
    assert len(repairs) > 20


@pytest.fixture
def damaged(tmp_path) -> Path:
    """A state whose log is damaged in its middle."""
    log = SavedEvents(tmp_path).folder / "2.log"
    content = bytearray(log.read_bytes())
    content[len(content.rstrip(b"\0")) // 2] ^= 1
    log.write_bytes(content)
    return log.parent


def run(*words: str) -> list[str]:
    """The lines that `nightshift repair` prints."""
    command = engine("repair", *words)
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout.splitlines()


@pytest.mark.slow
def test_a_damaged_log_is_refused_as_it_is_until_a_person_accepts_what_can_be_read(damaged):
    before = {path.name: path.read_bytes() for path in damaged.iterdir()}
    with pytest.raises(UserError, match=r"2\.log is damaged at byte .*Restore the folder .*nightshift repair "):
        Embedded(damaged, base([], config(), 5))
    count, way_on = run(str(damaged))
    assert count == "192 records can be read; 200 had been written at least"
    assert way_on == f"go on with them   nightshift repair {damaged} --accept"
    assert {path.name: path.read_bytes() for path in damaged.iterdir()} == before
    assert run(str(damaged), "--accept")[0] == count
    assert {path.name for path in damaged.iterdir()} - {*before} == {"3.log", "2.log.damaged-1", "mark.damaged-1"}
    assert len(examine(damaged).records) == 192


def test_a_folder_of_no_state_or_with_neither_log_nor_mark_is_not_repaired(tmp_path):
    with pytest.raises(UserError, match="is no folder of an online state"):
        examine(tmp_path)
    folder = SavedEvents(tmp_path).folder
    for name in ("2.log", "mark"):
        (folder / name).write_bytes(b"")
    with pytest.raises(UserError, match="mark is damaged, as is the log"):
        repair(folder)


def test_what_was_acknowledged_is_read_in_the_order_in_which_it_came(tmp_path):
    state = SavedEvents(tmp_path)
    assert [record.event_id for record in examine(state.folder).records] == list(range(EVENTS))
