"""What `nightshift gc` removes and what it never does: real runs' records, lake, registry; only the time is given."""

import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift import registry, storage
from nightshift.config import parse
from nightshift.config.policy import Retention
from nightshift.contracts import package, tables
from nightshift.contracts.registry import RegisteredVersion
from nightshift.contracts.tables import Partition, Table
from nightshift.local import endpoint
from nightshift.registry import approvals, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UserError
from nightshift.serving.files import DeploymentPointer, pointer_uri
from nightshift_testkit import s3
from pipelines import arguments, configs
from pipelines.engines.local import runs
from pipelines.engines.local.run import DEFINITION, Run, StepOutcome
from pipelines.environments import local
from pipelines.gc import retention, sweep
from pipelines.gc.retention import Inventory, RemovalPlan
from tests.pipelines.samples import command

CONFIG = parse(configs.load("fraud") | {"retention": {"runs_days": 90, "partitions_days": 30, "versions_days": 180}})
NOW = datetime.now(UTC)


@dataclass(frozen=True)
class Workspace:
    """A place with three registered versions, whose ages the tests choose."""

    folder: Path
    lake: str

    @property
    def state(self) -> Any:
        return dataclasses.replace(local(self.folder), lake=self.lake)

    def run(self, name: str, days: int, *parts: Partition, pipeline: str = "training", **changes: Any) -> Path:
        """A run that was started so many days ago and names partitions."""
        state, config = changes.get("state", "done"), changes.get("config", "fraud")
        definition = arguments.load_compiled(pipeline)
        folder = self.folder / "runs" / name
        started = (NOW - timedelta(days=days)).isoformat()
        outcome = StepOutcome(state, 1.0, 1, 0, [], str(folder / "log.txt"), "")
        outcomes = {task.name: outcome for task in definition.tasks}
        run = Run(definition, {"config": {"name": config}, "date": "2025-01-01"}, folder, started, outcomes)
        storage.write_bytes(str(folder / DEFINITION), definition.yaml)
        run.record()
        storage.write_bytes(str(folder / "reporting" / "report"), b"<!doctype html>")
        tables.write_table(str(folder / "ingestion" / "events"), Table("events", list(parts)))
        return folder

    def partition(self, day: str, days: int, table: str = "events", use_case: str = "fraud") -> Partition:
        """A day of a table that was written so many days ago."""
        on = date.fromisoformat(day)
        uri = tables.partition_uri(self.lake, use_case, table, on, "0123456789abcdef")
        part = tables.write_partition(uri, on, pd.DataFrame({"x": [1.0]}), {})
        self.written(days, part.uri, f"{part.uri}.json")
        return part

    def written(self, days: int, *uris: str) -> None:
        for uri in uris:
            if "://" not in uri:
                os.utime(uri, times=2 * ((NOW - timedelta(days=days)).timestamp(),))

    def version(self, number: int, days: int, run: str) -> None:
        """Have a version be so many days old, and made by a run."""
        uri = f"{self.state.registry}/models/fraud/{number}.json"
        record = RegisteredVersion.read(uri)
        tags = {"registered_at": (NOW - timedelta(days=days)).isoformat(), "parent_run": run}
        record.model_copy(update={"tags": record.tags | tags}).write(uri)

    def planned(self) -> RemovalPlan:
        return sweep.plan_removals(self.state, CONFIG, NOW)

    def collect(self, now: datetime = NOW) -> RemovalPlan:
        return sweep.collect(self.state, CONFIG, now)

    def files(self) -> set[str]:
        """All files but the locks."""
        paths = [path for path in self.folder.rglob("*") if path.is_file() and "lock" not in str(path)]
        return {str(path.relative_to(self.folder)) for path in paths}

    def versions(self) -> list[int]:
        return [version.version for version in registry.versions(self.state.registry, "fraud")]


@pytest.fixture
def workspace(stocked: str, tmp_path: Path) -> Workspace:
    return Workspace(tmp_path, str(tmp_path / "lake"))


def names(items: list[Any]) -> list[str]:
    return [item.name for item in items]


def test_a_version_that_waits_for_approval_stays_with_the_days_of_its_run(workspace: Workspace) -> None:
    part = workspace.partition("2025-01-01", 300)
    workspace.run("made", 300, part)
    workspace.run("new", 1)
    workspace.version(2, 300, "made")
    ref = ReleaseRef(workspace.state.registry, "fraud")
    second = registry.find(workspace.state.registry, "fraud", 2)
    release = release_record.read(ref)
    champion = release.live.sha256 if release else None
    approvals.note(ref, 2, approvals.describe(release_record.describe(second), champion, "made", ["it passed"]))
    limited = parse(configs.load("fraud") | {"retention": {"events_days": 30}})

    removals = sweep.plan_removals(workspace.state, limited, NOW)

    assert "2" not in names(removals.versions) and names(removals.partitions) == []
    assert removals.overdue == {"events": 1}


def test_quarantined_rows_past_their_limit_go_and_their_day_of_events_stays(workspace: Workspace) -> None:
    part = workspace.partition("2025-01-01", 5)
    workspace.run("old", 5, part)
    workspace.run("new", 1)
    bad = part.uri.replace("/events/", "/quarantine/")
    storage.write_frame(bad, pd.DataFrame({"x": ["bad"]}))
    limited = parse(configs.load("fraud") | {"retention": {"quarantine_days": 30}})

    assert names(sweep.collect(workspace.state, limited, NOW).partitions) == [
        "quarantine/date=2025-01-01/0123456789abcdef.parquet"
    ]

    assert storage.exists(part.uri) and not storage.exists(bad)


def test_a_run_past_its_age_goes_and_its_partitions_with_it(workspace: Workspace) -> None:
    old = workspace.run("old", 90, workspace.partition("2025-01-01", 90))
    new = workspace.run("new", 89, workspace.partition("2025-01-02", 90))

    workspace.collect()

    assert (old.exists(), new.exists()) == (False, True)
    assert [path for path in workspace.files() if path.startswith("lake")] == [
        path for path in workspace.files() if "date=2025-01-02" in path
    ]


def test_partitions_that_a_younger_run_names_stay(workspace: Workspace) -> None:
    shared, lonely = workspace.partition("2025-01-01", 100), workspace.partition("2025-01-02", 100)
    workspace.run("old", 100, shared, lonely)
    workspace.run("new", 1, shared)

    workspace.collect()

    assert tables.find_partition(shared.uri) == shared
    assert tables.find_partition(lonely.uri) is None
    assert not Path(lonely.uri).exists()


def test_a_partition_of_any_table_and_anywhere_in_a_run_counts_as_named(workspace: Workspace) -> None:
    scores = workspace.partition("2025-01-01", 100, "scores")
    run = workspace.run("new", 1)
    tables.write_table(str(run / "scoring" / "scores" / "scores.json"), Table("scores", [scores]))

    assert workspace.planned().empty


def test_a_shard_goes_with_its_partition_and_stays_while_a_run_names_that(workspace: Workspace) -> None:
    named, lonely = (workspace.partition(day, 100, "features") for day in ("2025-01-01", "2025-01-02"))
    for part in (named, lonely):
        storage.write_bytes(f"{part.uri}.npy", b"pixels")
        workspace.written(100, f"{part.uri}.npy")
    run = workspace.run("new", 1)
    tables.write_table(str(run / "features" / "features"), Table("features", [named]))

    workspace.collect()

    assert storage.exists(f"{named.uri}.npy")
    assert not any(storage.exists(f"{lonely.uri}{ending}") for ending in ("", ".json", ".npy"))


def test_a_snapshot_of_the_online_state_stays_while_a_run_names_it(workspace: Workspace) -> None:
    named, lonely = (f"{workspace.lake}/fraud/online/date=2025-01-01/{key}.state" for key in "ab")
    for uri in (named, lonely):
        storage.write_bytes(uri, b"arrays")
        storage.write_bytes(f"{uri}.json", b"{}")
        workspace.written(100, uri, f"{uri}.json")
    features = Table("features", [], {"online": named})
    tables.write_table(str(workspace.run("new", 1) / "features" / "features"), features)

    workspace.collect()

    assert {path for path in workspace.files() if path.startswith("lake")} == {
        f"lake/fraud/online/date=2025-01-01/a.state{suffix}" for suffix in ("", ".json")
    }


def test_a_partition_stays_for_a_while_after_it_was_written_whatever_its_date(workspace: Workspace) -> None:
    workspace.partition("2015-01-01", 29)
    workspace.partition("2015-01-02", 30)

    assert names(workspace.planned().partitions) == ["events/date=2015-01-02/0123456789abcdef.parquet"]


def test_the_newest_complete_run_of_each_pipeline_and_the_latest_stay(workspace: Workspace) -> None:
    workspace.run("training-1", 400)
    workspace.run("training-2", 300)
    workspace.run("training-3", 200, state="failed")
    workspace.run("training-4", 100, state="failed")
    workspace.run("monitoring-1", 400, pipeline="monitoring")
    (workspace.folder / "runs" / "latest").symlink_to("training-4")

    assert names(workspace.planned().runs) == ["training-1", "training-3"]


def test_the_champions_run_and_partitions_stay_however_old(workspace: Workspace) -> None:
    part = workspace.partition("2020-01-01", 2000)
    champion = workspace.run("made-1", 2000, part)
    workspace.run("new", 1)
    workspace.version(1, 2000, "made-1")
    release_record.promote(ReleaseRef(workspace.state.registry, "fraud"), 1)

    plan = workspace.collect()

    assert plan.empty
    assert champion.exists()
    assert tables.find_partition(part.uri) == part
    assert [
        (line.reason, line.versions, line.runs, line.partitions) for line in plan.lineage if "day" not in line.reason
    ] == [("champion", ["1"], ["made-1"], 1)]


def test_one_can_roll_back_afterwards(workspace: Workspace) -> None:
    for number in (1, 2, 3):
        workspace.run(f"made-{number}", 500, workspace.partition(f"2020-01-0{number}", 500))
        workspace.version(number, 500, f"made-{number}")
        release_record.promote(ReleaseRef(workspace.state.registry, "fraud"), number)
    workspace.run("new", 1)

    plan = workspace.collect()

    assert (names(plan.versions), names(plan.runs)) == (["1"], ["made-1"])
    done = command("rollback", "--workspace", str(workspace.folder))
    assert done.stdout.endswith("fraud: version 2 is the champion now\n"), done.stderr
    champion = release_record.champion(ReleaseRef(workspace.state.registry, "fraud"))
    assert champion is not None
    assert package.load(champion.uri).sha256 == champion.sha256


def test_a_version_past_its_age_goes_with_its_files_and_the_endpoints_never(workspace: Workspace) -> None:
    uri = workspace.state.registry
    files = {version.version: Path(version.uri) for version in registry.versions(uri, "fraud")}
    for number in (1, 2):
        workspace.version(number, 180, "gone")
    workspace.version(3, 179, "gone")
    pointer = DeploymentPointer(1, str(files[1]), "0" * 64, NOW.isoformat())
    storage.write_json(pointer_uri(registry.root(uri), "fraud"), dataclasses.asdict(pointer))

    workspace.collect()

    assert workspace.versions() == [1, 3]
    assert [path.exists() for path in files.values()] == [True, False, True]
    assert workspace.planned().empty
    assert endpoint.find_version(uri, "fraud") == 1


def test_a_removed_versions_number_is_never_used_again_and_its_model_can_come_back(
    workspace: Workspace, save_model: Callable[..., str]
) -> None:
    uri = workspace.state.registry
    registry.remove(uri, "fraud", [3])

    again = registry.register(uri, "fraud", save_model(0.3), {})

    assert again.version == 4
    assert package.load(again.uri).sha256 == again.sha256


def test_rows_in_quarantine_go_with_the_day_they_were_taken_out_of_and_not_before(workspace: Workspace) -> None:
    part = workspace.partition("2025-01-01", 29)
    bad = part.uri.replace("/events/", "/quarantine/")
    storage.write_frame(bad, pd.DataFrame({"x": [1.0]}))
    workspace.written(31, bad)

    assert workspace.planned().empty
    plan = workspace.collect(NOW + timedelta(days=1))
    assert plan.partitions[0].files == (f"{part.uri}.json", part.uri, bad)
    assert not Path(bad).exists()


def test_half_a_partition_and_drafts_go_and_files_of_somebody_else_stay(workspace: Workspace) -> None:
    whole = workspace.partition("2025-01-01", 40)
    workspace.run("new", 1, whole)
    half = whole.uri.replace("2025-01-01", "2025-01-02")
    drafts = [f"{whole.uri}.0a1b2c3d.tmp", f"{whole.uri}.json.0a1b2c3d.tmp"]
    strange = [f"{workspace.lake}/fraud/events/date=2025-01-01/README.md", f"{workspace.lake}/fraud/notes.parquet"]
    strange.append(f"{workspace.lake}/fraud/landing/payments/0a1b/2025-01-01/0-0-9.parquet")
    for uri in [half, *drafts, *strange]:
        storage.write_bytes(uri, b"x")
        workspace.written(40, uri)

    workspace.collect()

    assert [Path(uri).exists() for uri in [half, *drafts, *strange]] == [False, False, False, True, True, True]
    assert tables.find_partition(whole.uri) == whole


def test_a_run_whose_record_cannot_be_read_stays_with_its_partitions_and_is_told(workspace: Workspace) -> None:
    part = workspace.partition("2025-01-01", 100)
    unread = [workspace.run(f"unread-{number}", 100, part) for number in range(3)]
    old = workspace.run("old", 100, part)
    workspace.run("new", 1)
    for run, record in zip(unread, ("{", "{}", "[]"), strict=True):
        (run / "run.json").write_text(record)

    printed = gc(workspace, "--delete")

    for run in unread:
        assert f"nightshift: kept: {run}/run.json is no record of a run" in printed
        assert run.exists()
    assert not old.exists()
    assert tables.find_partition(part.uri) == part


def test_other_use_cases_are_left_alone(workspace: Workspace, save_model: Callable[..., str]) -> None:
    run = workspace.run("theirs", 1000, config="handbook")
    part = workspace.partition("2020-01-01", 1000, use_case="handbook")
    version = registry.register(workspace.state.registry, "handbook", save_model(0.5), {})

    workspace.collect(NOW + timedelta(days=1000))

    assert run.exists()
    assert tables.find_partition(part.uri) == part
    assert Path(version.uri).exists()


def test_a_lake_that_was_moved_keeps_what_its_runs_name(workspace: Workspace) -> None:
    part = workspace.partition("2025-01-01", 40)
    workspace.run("new", 1, part)
    moved = Workspace(workspace.folder, str(workspace.folder / "elsewhere"))
    Path(workspace.lake).rename(moved.lake)
    moved.written(40, *(str(path) for path in Path(moved.lake).rglob("*.parquet*")))

    assert moved.planned().empty


def test_nothing_is_removed_while_a_run_is_under_way(workspace: Workspace) -> None:
    workspace.run("old", 100)
    workspace.run("new", 1)
    under_way = runs.new(arguments.load_compiled("training"), {"date": "2025-01-01"}, workspace.state)

    with (
        runs.lock_run(under_way),
        pytest.raises(UserError, match=r"a run of 'fraud' in .* is in progress; try again when"),
    ):
        workspace.collect()

    assert names(workspace.collect().runs) == ["old"]


def test_a_run_that_starts_meanwhile_waits(workspace: Workspace) -> None:
    run = runs.new(arguments.load_compiled("training"), {"date": "2025-01-01"}, workspace.state)
    started = threading.Event()

    def start() -> None:
        with runs.lock_run(run):
            started.set()

    thread = threading.Thread(target=start)
    with runs.none_under_way(workspace.folder / "runs", "fraud"):
        thread.start()
        assert not started.wait(0.3)
    assert started.wait(10)
    thread.join()


# forks for each line of its input, a place to be cut short at; says how the fork ended
CUT_SHORT = """
import os, sys
from datetime import UTC, datetime
from pathlib import Path
from nightshift.config import parse
from pipelines import configs
from pipelines.gc import sweep
from pipelines.environments import local

def cut_short(place):
    seen = []

    def hook(event, words):
        if event in ("os.remove", "os.rename", "os.rmdir", "shutil.rmtree") and sys.argv[1] in os.fsdecode(words[0]):
            seen.append(event)
            if len(seen) == place:
                os._exit(9)

    sys.addaudithook(hook)
    sweep.collect(local(Path(sys.argv[1])), parse(configs.load("fraud")), datetime.now(UTC))
    os._exit(0)

for line in sys.stdin:
    child = os.fork() or cut_short(int(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def cutting_short(workspace: Workspace) -> Iterator[Callable[[int], int]]:
    """Collect what is old until the n-th time that something is removed; gives the attempt's exit code."""
    words = [sys.executable, "-c", CUT_SHORT, str(workspace.folder)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def attempt(count: int) -> int:
            stdin.write(f"{count}\n")
            stdin.flush()
            return int(stdout.readline())

        yield attempt
        stdin.close()


@pytest.mark.slow
def test_what_was_cut_short_anywhere_leaves_nothing_dangling_and_is_finished_the_next_time(
    workspace: Workspace,
) -> None:
    kept, lost = workspace.partition("2025-01-01", 300), workspace.partition("2025-01-02", 300)
    workspace.run("new", 1, kept)
    workspace.run("old", 300, kept, lost)
    workspace.version(1, 300, "old")
    files = Path(registry.find(workspace.state.registry, "fraud", 1).uri).parent
    codes = []
    with cutting_short(workspace) as attempt:
        while not codes or codes[-1] == 9:
            codes.append(attempt(len(codes) + 1))
            check_nothing_dangles(workspace)
            if len(codes) == 2:  # the record says so, the files are still there
                assert files.exists()
                assert workspace.versions() == [2, 3]
                assert workspace.planned().leftovers == (str(files),)

    assert len(codes) > 3
    assert codes[-1] == 0
    assert not files.exists()
    assert not (workspace.folder / "runs" / "old").exists()
    assert tables.find_partition(kept.uri) == kept
    assert not Path(lost.uri).exists()
    assert workspace.planned().empty


def check_nothing_dangles(workspace: Workspace) -> None:
    for version in registry.versions(workspace.state.registry, "fraud"):
        package.load(version.uri)
    for record in (workspace.folder / "runs").glob("*/run.json"):
        for part in tables.read_table(str(record.parent / "ingestion" / "events")).partitions:
            assert tables.find_partition(part.uri) == part
    for sidecar in Path(workspace.lake).rglob("*.parquet.json"):
        assert sidecar.with_suffix("").exists()


def test_partitions_in_s3_go_and_stay_by_the_same_rules(tmp_path: Path) -> None:
    with s3.bucket() as url, s3.reached_at(url):
        workspace = Workspace(tmp_path, "s3://lake/deep/lake")
        named, unnamed = workspace.partition("2025-01-01", 0), workspace.partition("2025-01-02", 0)
        workspace.run("new", 1, named)

        assert workspace.collect(NOW + timedelta(days=29)).empty
        plan = workspace.collect(NOW + timedelta(days=31))

        assert names(plan.partitions) == ["events/date=2025-01-02/0123456789abcdef.parquet"]
        assert tables.find_partition(named.uri) == named
        assert not storage.exists(unnamed.uri)
        assert not storage.exists(f"{unnamed.uri}.json")


def gc(workspace: Workspace, *words: str) -> str:
    done = command("gc", *words, "--workspace", str(workspace.folder), COLUMNS="120")
    assert done.returncode == 0, done.stderr
    return done.stderr + done.stdout


def test_the_command_lists_what_would_go_and_the_next_command_and_then_what_went(workspace: Workspace) -> None:
    workspace.run("new", 1)
    old = workspace.run("old", 101, workspace.partition("2025-01-01", 101), workspace.partition("2025-01-02", 51))
    workspace.version(1, 201, "old")
    before = workspace.files()

    listed = gc(workspace)

    assert workspace.files() == before
    rows = [line.split() for line in listed.splitlines()]
    assert ["version", "1", "201"] in [row[:3] for row in rows]
    assert ["run", "old", "101"] in [row[:3] for row in rows]
    assert ["partitions", "events:", "2,", "2025-01-01", "..", "2025-01-02", "101"] in [row[:7] for row in rows]
    assert listed.splitlines()[-1] == f"remove it   nightshift gc --workspace {workspace.folder} --delete"
    assert "removed" in gc(workspace, "--delete")
    assert not old.exists()
    assert gc(workspace) == "nothing of 'fraud' is past its age\n"


LIMITS = Retention(runs_days=9, partitions_days=3, versions_days=18)
ages = st.integers(0, 30).map(lambda days: NOW - timedelta(days=days))
few = st.sampled_from("abcdef")
sizes = st.just(1)


@st.composite
def anything(draw: st.DrawFn) -> Inventory:
    """Runs, versions and partitions of all ages that name each other or nothing at all."""
    stored_run = st.builds(
        retention.StoredRun,
        name=few,
        since=ages,
        size=sizes,
        pipeline=st.sampled_from(["training", "monitoring"]),
        complete=st.booleans(),
        partitions=st.frozensets(few),
        problem=st.sampled_from(["", "", "no record"]),
    )
    version = st.builds(
        retention.StoredVersion,
        name=few,
        since=ages,
        size=sizes,
        run=few,
        pinned=st.sampled_from(["", "", "champion", "endpoint"]),
    )
    part = st.builds(retention.FileGroup, name=few, since=ages, size=sizes, files=st.just(("x",)))
    by_name: dict[str, Any] = {"unique_by": lambda item: item.name, "max_size": 6}
    return Inventory(
        draw(st.lists(version, **by_name)),
        draw(st.lists(stored_run, **by_name)),
        draw(st.lists(part, **by_name)),
        latest=draw(st.none() | few),
    )


@pytest.mark.slow
@given(anything())
def test_nothing_that_is_needed_young_or_cannot_be_read_is_ever_planned_and_what_is_left_needs_no_other_plan(
    inventory: Inventory,
) -> None:
    plan = retention.plan(inventory, LIMITS, NOW)

    kept = Inventory(
        [version for version in inventory.versions if version not in plan.versions],
        [run for run in inventory.runs if run not in plan.runs],
        [part for part in inventory.partitions if part not in plan.partitions],
        latest=inventory.latest,
    )
    assert not set(names(plan.runs)) & {inventory.latest, *(version.run for version in kept.versions)}
    assert not set(names(plan.partitions)) & {name for run in kept.runs for name in run.partitions}
    complete = [run for run in inventory.runs if run.complete]
    for pipeline in {run.pipeline for run in complete}:
        newest = max(run.since for run in complete if run.pipeline == pipeline)
        assert any(run.complete and (run.since, run.pipeline) == (newest, pipeline) for run in kept.runs)
    assert not [version for version in plan.versions if version.pinned]
    assert not [run for run in plan.runs if run.problem]
    for items, days in ((plan.versions, 18), (plan.runs, 9), (plan.partitions, 3)):
        assert all(NOW - item.since >= timedelta(days=days) for item in items)
    assert retention.plan(kept, LIMITS, NOW).empty


@pytest.mark.slow
@given(anything())
def test_all_that_is_old_and_nobody_needs_goes(inventory: Inventory) -> None:
    alone = Inventory(
        [], [dataclasses.replace(run, complete=False, problem="") for run in inventory.runs], inventory.partitions
    )

    plan = retention.plan(alone, LIMITS, NOW + timedelta(days=100))

    assert (plan.runs, plan.partitions) == (alone.runs, alone.partitions)


@pytest.mark.parametrize("name", Retention.model_fields)
def test_an_age_is_at_least_a_day(name: str) -> None:
    with pytest.raises(UserError, match=rf"retention\.{name}: .*greater than or equal to 1, got 0"):
        parse(configs.load("fraud") | {"retention": {name: 0}})
