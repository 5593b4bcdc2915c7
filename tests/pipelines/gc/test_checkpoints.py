"""What `nightshift gc` does with checkpoints and shards of steps that were given up, in the steps' own folders."""

import argparse
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from components.features.__main__ import scratch
from components.training.__main__ import _checkpoints
from nightshift import storage
from nightshift.config import parse
from nightshift.contracts.state import State
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.tasks.tabular.features import shards
from nightshift.tasks.tabular.features.shards import Sizes
from nightshift_testkit.s3 import bucket, reached_at
from pipelines import arguments
from pipelines.cli import gc as command
from pipelines.engines.local import runs
from pipelines.environments import local
from pipelines.gc import sweep
from tests.components.features import days
from tests.components.states import state as text

NOW = datetime.now(UTC)
CONFIG = parse(days.CONFIG | {"retention": {"runs_days": 9, "partitions_days": 5, "versions_days": 9}})
SHARDS = ["events-0-customer-0.arrow", "events-0-terminal-0.arrow"]
SAVED = ["checkpoint.json", ".metadata", "__0_0.distcp", "__1_0.distcp"]


@pytest.fixture
def state(tmp_path: Path) -> State:
    days.write_events(tmp_path)
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(CONFIG.model_dump(mode="json", exclude_defaults=True)))
    return local(tmp_path)


def training(folder: Path, state: State) -> str:
    """A training that was killed after a checkpoint."""
    flags = {"date": str(days.DATE), "device": "cpu", "features": str(folder / "events.json")}
    flags["config"] = CONFIG.model_dump_json()
    args = argparse.Namespace(**flags, state=text(folder, checkpoints=state.checkpoints))
    root = _checkpoints(StepContext(args), "0.3.0")
    for name in SAVED:
        storage.write_bytes(f"{root}/task.candidates.net/{'0' * 16}/step-000000000100/{name}", b"{}")
    return root


def features(folder: Path, state: State) -> str:
    """A features step that was killed when it had divided a batch."""
    job = replace(days.job(folder, "lake"), lake=state.lake)
    root = scratch(job.lake, job.config.name, str(folder / "features.json"))
    missing = {day: job.uri(day) for day in days.FEATURES}
    shards.split(shards.divide(job, missing, root, 1, Sizes()), 0)
    return root


def age(days: int, uri: str) -> None:
    for entry in storage.walk(uri):
        os.utime(entry.uri, times=2 * ((NOW - timedelta(days=days)).timestamp(),))


def test_what_was_left_unfinished_goes_when_its_newest_file_is_old_enough(tmp_path: Path, state: State) -> None:
    roots = training(tmp_path, state), features(tmp_path, state)
    for uri in roots:
        age(9, uri)
        os.utime(storage.walk(uri)[0].uri, times=2 * ((NOW - timedelta(days=4)).timestamp(),))

    assert sweep.collect(state, CONFIG, NOW).empty
    plan = sweep.collect(state, CONFIG, NOW + timedelta(days=1))

    assert [group.name for group in plan.unfinished] == list(roots)
    assert [len(group.files) for group in plan.unfinished] == [len(SAVED), len(SHARDS)]
    assert not any(Path(uri).exists() for uri in roots)
    assert sweep.plan_removals(state, CONFIG, NOW + timedelta(days=99)).empty


@pytest.mark.slow
def test_it_goes_from_an_object_store_by_the_same_rule(tmp_path: Path, state: State) -> None:
    with bucket() as url, reached_at(url):
        there = replace(state, lake="s3://lake/deep", checkpoints="s3://lake/checkpoints")
        roots = training(tmp_path, there), features(tmp_path, there)

        assert sweep.collect(there, CONFIG, NOW + timedelta(days=4)).empty
        plan = sweep.collect(there, CONFIG, NOW + timedelta(days=6))

        assert [group.name for group in plan.unfinished] == list(roots)
        assert storage.walk(there.lake) + storage.walk(there.checkpoints) == []


def test_nothing_of_it_goes_while_a_run_is_under_way_or_for_another_use_case(tmp_path: Path, state: State) -> None:
    roots = training(tmp_path, state), features(tmp_path, state)
    later = NOW + timedelta(days=99)
    parameters = {"config": str(tmp_path / "tiny.yaml"), "date": str(days.DATE)}
    started = runs.new(arguments.load_compiled("training"), parameters, state)

    with runs.under_way(started), pytest.raises(UserError, match=r"a run of 'tiny' in .* is in progress"):
        sweep.collect(state, CONFIG, later)
    other = CONFIG.model_copy(update={"name": "other"})
    assert sweep.collect(state, other, later).empty

    assert all(storage.walk(uri) for uri in roots)


def test_files_that_no_step_has_written_stay(tmp_path: Path, state: State) -> None:
    root = Path(training(tmp_path, state)).parent
    (root / "notes.txt").write_text("mine")
    (root / "best-so-far").mkdir()
    (root / "best-so-far" / "weights.pt").write_text("mine")

    sweep.collect(state, CONFIG, NOW + timedelta(days=99))

    assert sorted(path.name for path in root.iterdir()) == ["best-so-far", "notes.txt"]


def test_a_removal_that_is_cut_short_leaves_no_checkpoint_that_looks_complete_and_is_finished(
    tmp_path: Path, state: State
) -> None:
    root, later = training(tmp_path, state), NOW + timedelta(days=99)
    first, *rest = sweep.plan_removals(state, CONFIG, later).unfinished[0].files
    assert first.endswith("/checkpoint.json")

    for uri in (first, *rest):
        storage.remove(uri)
        assert not sweep.plan_removals(state, CONFIG, later).empty
    assert [group.name for group in sweep.collect(state, CONFIG, later).unfinished] == [root]
    assert not Path(root).exists()


def test_an_empty_folder_in_which_a_training_may_begin_stays_until_it_is_old_enough(
    tmp_path: Path, state: State
) -> None:
    root = Path(training(tmp_path, state))
    shutil.rmtree(root)
    (root / "task.candidates.net").mkdir(parents=True)
    os.utime(root, times=(0, 0))

    assert sweep.collect(state, CONFIG, NOW + timedelta(days=4)).empty
    assert root.exists()
    sweep.collect(state, CONFIG, NOW + timedelta(days=6))
    assert not root.exists()


@pytest.mark.parametrize("is_empty", [False, True])
def test_what_a_training_has_taken_up_since_it_was_listed_stays(tmp_path: Path, state: State, is_empty: bool) -> None:
    root = training(tmp_path, state)
    for entry in storage.walk(root) if is_empty else ():
        storage.remove(entry.uri)
    plan = sweep.plan_removals(state, CONFIG, NOW + timedelta(days=99))
    storage.write_bytes(f"{root}/task.candidates.net/{'0' * 16}/step-000000000200/checkpoint.json", b"{}")

    sweep._remove(plan, state, CONFIG.name)

    assert [group.name for group in plan.unfinished] == [root]
    assert any(entry.uri.endswith("step-000000000200/checkpoint.json") for entry in storage.walk(root))


def test_the_command_lists_it_and_removes_it_from_another_root(
    tmp_path: Path, state: State, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished = training(tmp_path, replace(state, checkpoints=str(tmp_path / "elsewhere")))
    age(7, unfinished)

    def gc(*words: str) -> str:
        argv = ["gc", "--workspace", str(tmp_path), "--config", str(tmp_path / "tiny.yaml"), *words]
        parser = argparse.ArgumentParser()
        command.add(parser.add_subparsers())
        args = parser.parse_args(argv)
        assert args.command(args) == 0
        return capsys.readouterr().out.replace("\n", "")

    root = ["--checkpoints", str(tmp_path / "elsewhere")]
    assert gc() == "nothing of 'tiny' is past its age"
    assert "would be removed" in (listed := gc(*root))
    assert "unfinished" in listed
    assert Path(unfinished).exists()
    gc(*root, "--delete")
    assert not Path(unfinished).exists()
