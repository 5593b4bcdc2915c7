"""Sharded features: the same files as in one pass, whatever the shards, whoever runs the tasks, whoever is killed."""

import importlib.util
import json
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import pytest

from components.features.__main__ import body
from components.features.component import contract
from nightshift.contracts import tables
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.tasks.tabular.features import shards, workers, write_days
from nightshift.tasks.tabular.features.shards import Sizes
from nightshift.tasks.tabular.features.workers import TaskPool
from nightshift_testkit.processes import content, started, wait_until
from nightshift_testkit.servers import free_port
from tests.components.features.days import CONFIG, DATE, FEATURES, flags, job, sample, write_events
from tests.components.states import state

DASK = importlib.util.find_spec("distributed") is not None
needs_dask = pytest.mark.skipif(not DASK, reason="Dask is missing; pip install -e '.[dask]'")
HERE = TaskPool()


def hashes(parts: dict[date, tables.Partition]) -> dict[str, str]:
    return {str(day): part.sha256 for day, part in sorted(parts.items())}


def missing(work) -> dict[date, str]:
    return {day: work.uri(day) for day in FEATURES}


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, str]:
    """The hash of each day's file, computed in one pass."""
    write_events(tmp_path)
    work = job(tmp_path, "whole")
    return hashes(write_days(work, missing(work), "unused"))


@pytest.mark.parametrize("sizes", [Sizes(1000, 1000), Sizes(150, 1000), Sizes(1000, 60), Sizes(90, 1)], ids=str)
def test_whatever_the_shards_and_batches_the_files_are_those_of_one_pass(tmp_path, whole, sizes):
    work, scratch = job(tmp_path, "sharded"), tmp_path / "scratch"
    assert hashes(shards.write(work, missing(work), str(scratch), HERE, sizes)) == whole
    assert not scratch.exists()
    assert {str(day): tables.find_partition(work.uri(day)).sha256 for day in FEATURES} == whole


@pytest.mark.parametrize("removed", [("customer",), ("terminal",), ("customer", "amount"), ("customer", "terminal")])
def test_a_use_case_without_some_roles_gives_the_files_of_one_pass(tmp_path, removed):
    write_events(tmp_path)
    columns = {name: value for name, value in CONFIG["columns"].items() if name not in removed}
    config = CONFIG | {"columns": columns}
    one, many = (job(tmp_path, lake, config) for lake in ("whole", "sharded"))
    parts = shards.write(many, missing(many), str(tmp_path / "scratch"), HERE, Sizes(100, 100))
    assert hashes(parts) == hashes(write_days(one, missing(one), "unused"))


def test_only_the_missing_days_are_written(tmp_path, whole):
    work = job(tmp_path, "sharded")
    days = [date(2024, 3, 6), date(2024, 3, 9)]
    parts = shards.write(work, {day: work.uri(day) for day in days}, str(tmp_path / "s"), HERE, Sizes(100, 200))
    assert hashes(parts) == {str(day): whole[str(day)] for day in days}
    assert [day for day in FEATURES if tables.find_partition(work.uri(day))] == days


def test_no_part_of_the_work_is_larger_than_the_sizes_say_but_for_one_day(tmp_path):
    write_events(tmp_path)
    work = job(tmp_path, "lake")
    layout = shards.divide(work, missing(work), "scratch", 1, Sizes(shard=100, batch=120))
    assert layout.shards == 5  # 450 events
    assert [day for batch in layout.batches for day in batch.days] == list(work.extend_back(FEATURES))
    assert max(sum(work.rows(batch.days)) for batch in layout.batches) <= 120 + 50
    assert [day for batch in layout.batches for day in batch.missing] == list(FEATURES)
    assert all(not batch.missing or set(batch.missing) == set(batch.days) for batch in layout.batches)


def test_each_worker_has_something_to_do_however_little_there_is(tmp_path):
    write_events(tmp_path)
    work = job(tmp_path, "lake")
    layout = shards.divide(work, missing(work), "scratch", 3, Sizes())
    assert layout.shards == 3
    assert len(layout.batches) >= 3


def test_more_events_than_one_pass_takes_are_sharded(tmp_path, whole, caplog):
    work = job(tmp_path, "lake")
    with caplog.at_level("INFO", "nightshift"):
        assert hashes(write_days(work, missing(work), str(tmp_path / "scratch"), at_once=449)) == whole
    assert "shards an entity" in caplog.text


def test_what_lay_there_meanwhile_is_gone_after_a_failure_too(tmp_path):
    write_events(tmp_path)
    uri = tables.read_table(str(tmp_path / "events.json")).partition(DATE).uri
    tables.write_partition(uri, DATE, sample(DATE).assign(amount=1e17), {})
    work = job(tmp_path, "lake")
    with pytest.raises(UserError, match=r"rows has numbers that are too large"):
        shards.write(work, missing(work), str(tmp_path / "scratch"), HERE, Sizes(100, 100))
    assert not (tmp_path / "scratch").exists()


class Blocking(TaskPool):
    """Workers that fail, and leave what cannot be removed."""

    def run(self, task, items):
        folder = Path(task.args[0].folder)
        folder.write_text("no folder")
        raise UserError("amount is too large")


def test_a_folder_that_cannot_be_removed_hides_no_error(tmp_path, caplog):
    write_events(tmp_path)
    work = job(tmp_path, "lake")
    with pytest.raises(UserError, match="amount is too large"):
        shards.write(work, missing(work), str(tmp_path / "scratch"), Blocking())
    assert "scratch is left to nightshift gc" in caplog.text


def test_a_try_with_other_workers_or_days_finds_no_piece_of_another_one(tmp_path):
    write_events(tmp_path)
    work = job(tmp_path, "lake")
    some = dict(list(missing(work).items())[1:])
    layouts = [
        shards.divide(work, days, "scratch", count, Sizes(1000, 1000))
        for days, count in ((missing(work), 1), (missing(work), 2), (some, 1))
    ]
    assert len({layout.piece("events", 0, "customer", 0) for layout in layouts}) == 3
    again = shards.divide(work, missing(work), "scratch", 1, Sizes(1000, 1000))
    assert again.piece("events", 0, "customer", 0) == layouts[0].piece("events", 0, "customer", 0)


def step(folder: Path, name: str, *more: str, computed: list[str] | None = None) -> Path:
    """Run the step in this process, and return the manifest that it writes."""
    words = [*flags(folder), *more, "--features", str(folder / name)]
    shards_before = {"computed": {"artifacts": [{"uri": str(folder / shard)} for shard in computed or []]}}
    inputs = json.dumps({"inputs": {"artifacts": shards_before}})
    body(StepContext(contract.parser().parse_args([*words, "--executor-input", inputs])))
    return folder / name


def fan_out(folder: Path, count: int) -> list[str]:
    """Run a step for each shard, the last one first, and return the names of their manifests."""
    numbers = [str(number) for number in reversed(range(count))]
    return [step(folder, f"shard-{number}", "--shard", number, "--shards", str(count)).name for number in numbers]


def left(folder: Path) -> list[Path]:
    return [*(folder / "lake" / "tiny" / "scratch").glob("*/*/*")]


def written(manifest: Path) -> dict[str, str]:
    return {part.date: part.sha256 for part in tables.read_table(str(manifest)).partitions}


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_however_many_parts_the_shards_are_computed_in_the_files_are_those_of_one_pass(tmp_path, whole, parts):
    work = job(tmp_path, "sharded")
    layout = shards.divide(work, missing(work), str(tmp_path / "scratch"), parts, Sizes(90, 60))
    assert layout.shards == 5
    for number in range(parts):
        assert not layout.is_computed
        shards.write_part(layout, number, parts)
    assert layout.is_computed
    assert hashes(shards.join_parts(layout, missing(work))) == whole


def test_shards_that_are_steps_of_their_own_give_the_files_of_one_pass(tmp_path, whole, caplog):
    before = fan_out(tmp_path, 2)
    assert left(tmp_path)
    assert written(step(tmp_path, "features.json", computed=before)) == whole
    assert not left(tmp_path)
    assert "this process computes them" not in caplog.text


def test_where_what_the_shards_left_is_gone_the_step_that_joins_them_computes_the_same(tmp_path, whole, caplog):
    before = fan_out(tmp_path, 2)
    next(piece for piece in left(tmp_path) if piece.name.startswith("windows")).unlink()
    assert written(step(tmp_path, "features.json", computed=before)) == whole
    assert "windows that the shards have computed are gone" in caplog.text
    assert not left(tmp_path)


def test_where_another_run_has_written_days_between_two_shards_the_step_that_joins_them_computes_the_rest(
    tmp_path, whole, caplog
):
    first = step(tmp_path, "shard-0", "--shard", "0", "--shards", "2").name
    day = FEATURES.first
    own = job(tmp_path, "lake")
    write_days(own, {day: own.uri(day)}, "unused")
    second = step(tmp_path, "shard-1", "--shard", "1", "--shards", "2").name
    assert written(step(tmp_path, "features.json", computed=[first, second])) == whole
    assert "the shards do not agree on the missing days" in caplog.text


@pytest.mark.parametrize("numbers", [("2", "2"), ("-1", "2"), ("x", "2")])
def test_a_shard_that_is_none_of_them_is_refused(tmp_path, numbers):
    write_events(tmp_path)
    with pytest.raises(UserError, match=f"--shard is '{numbers[0]}' with --shards '2'; give a whole number"):
        step(tmp_path, "shard", "--shard", numbers[0], "--shards", numbers[1])


@pytest.mark.slow
def test_a_step_of_a_shard_or_the_one_that_joins_them_killed_anywhere_leaves_the_same_when_run_again(tmp_path, whole):
    done = subprocess.run(
        [sys.executable, "-m", "tests.components.features.killing_steps", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    reports = json.loads(done.stdout)
    assert [report["lost"] + report["orphans"] for report in reports] == [[], [], []]
    assert min(report["killed"] for report in reports) >= 3
    assert written(tmp_path / "made" / "features") == whole


@pytest.mark.slow
@needs_dask
def test_when_a_task_fails_those_that_run_have_ended_before_it_is_said(tmp_path):
    from distributed import Client

    def task(fails: bool) -> None:
        if fails:
            wait_until((tmp_path / "begun").exists, "the other one has begun")
            raise UserError("amount is too large")
        (tmp_path / "begun").touch()
        time.sleep(0.5)
        (tmp_path / "written").touch()

    one = {"n_workers": 1, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0", "set_as_default": False}
    with Client(processes=False, **one) as client:
        with pytest.raises(UserError, match="amount is too large"):
            TaskPool(2, client).run(task, [False, True])
        assert (tmp_path / "written").exists()


def run(folder: Path, cluster: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "components.features", *flags(folder), "--state", state(folder, dask=cluster)]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
@needs_dask
def test_the_step_on_a_local_cluster_writes_the_files_of_one_pass(tmp_path, whole):
    done = run(tmp_path, "local:2")
    assert done.returncode == 0, done.stderr
    assert "2 shards an entity, 2 workers" in done.stderr
    assert {part.date: part.sha256 for part in tables.read_table(str(tmp_path / "features.json")).partitions} == whole
    assert not list((tmp_path / "lake" / "tiny" / "scratch").glob("*"))


@pytest.mark.slow
@needs_dask
def test_a_worker_that_is_killed_in_any_of_the_tasks_changes_no_bit(tmp_path, whole):
    """Two workers of a scheduler that has an address: one dies in the middle of each kind of task."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    dask, quiet = [sys.executable, "-m", "dask"], {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = [*dask, "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--no-show"]
    worker = [*dask, "worker", address, "--nworkers", "2", "--nthreads", "1", "--no-dashboard"]
    with started(scheduler, **quiet), started([*worker, "--local-directory", str(tmp_path)], **quiet) as both:
        script = [sys.executable, "-m", "tests.components.features.killing", str(tmp_path), address]
        done = subprocess.run(script, capture_output=True, text=True, check=False, timeout=300)
        both.terminate()  # a kill would leave its workers
        both.wait()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == whole
    assert {name: content(tmp_path / name) for name in ("split", "compute", "join")} == dict.fromkeys(
        ("split", "compute", "join"), "killed"
    )


@pytest.mark.skipif(DASK, reason="Dask is installed here")
def test_a_cluster_without_dask_is_refused_in_one_line(tmp_path):
    write_events(tmp_path)
    done = run(tmp_path, "local:2")
    assert done.returncode == 2
    wanted = "Dask is missing; run pip install 'nightshift-ml[dask]', or leave it out"
    assert done.stderr.splitlines()[-1] == f"features: state.dask is 'local:2', and {wanted}"


@needs_dask
def test_a_scheduler_that_does_not_answer_may_do_so_later():
    address = f"tcp://127.0.0.1:{free_port()}"
    wanted = f"Dask at {address}: .*; check its scheduler and workers"
    with pytest.raises(UnavailableError, match=wanted), workers.workers(address, "cpu", seconds=1):
        pass


class Cluster:
    """A client whose workers answer what they are told to."""

    def __init__(self, *answers: str) -> None:
        self.answers = answers

    def run(self, function) -> dict[str, str]:
        return {f"tcp://{number}": answer for number, answer in enumerate(self.answers)}


@pytest.mark.slow
def test_workers_that_run_other_code_are_refused():
    ours = workers.code_version()
    workers.check_code(Cluster(ours, ours), "tcp://a:1")
    with pytest.raises(
        UserError, match=r"workers of tcp://a:1 run 0\.1\.0, this step 0.*; start them from the same code"
    ):
        workers.check_code(Cluster(ours, "0.1.0"), "tcp://a:1")
