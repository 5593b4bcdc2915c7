"""Runs whose steps are containers; a whole one: tests/e2e/test_daily_run.py."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kfp import dsl

from nightshift.runtime.errors import UserError
from nightshift.runtime.image import image
from nightshift_testkit.processes import SECONDS, started, wait_until
from nightshift_testkit.processes import engine as command
from pipelines import arguments, ir
from pipelines.engines.local import runs
from pipelines.engines.local.containers import LABEL, Containers
from pipelines.engines.local.run import Run
from pipelines.environments import local
from tests.pipelines.samples import Silent, compiled, compiled_file

DATE = "2025-06-30"
MEMORY = "import time; block = bytearray(1 << 30); time.sleep(1)"


@dsl.container_component
def contained(script: str) -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image=image("base"), command=["python", "-c"], args=[script])


@dsl.container_component
def unknown() -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="nightshift/nowhere:0", command=["true"])


def execute(pipeline: ir.Pipeline, folder: Path) -> tuple[bool, Run]:
    run = runs.use_containers(Run(pipeline, {}, folder / "runs" / "one"))
    return run.execute(Silent()), run


def left(engine: Any, folder: Path) -> list[str]:
    """The names of containers that runs below a folder have left."""
    # other tests' containers go away meanwhile
    containers = engine.containers.list(all=True, filters={"label": LABEL}, ignore_removed=True)
    return [container.name for container in containers if str(folder) in container.labels[LABEL]]


# native code that returns after minutes
BUSY = (
    "run(StepParser('busy', ''), "
    "lambda _: print('ready', flush=True) or hashlib.pbkdf2_hmac('md5', b'', b'', 2**31 - 1))"
)


def test_a_step_that_is_its_containers_first_process_ends_when_it_is_asked_to(engine: Any) -> None:
    imports = (
        "import hashlib; from nightshift.runtime.flags import StepParser; from nightshift.runtime.step import run; "
    )
    container = engine.containers.run(image("base"), ["python", "-c", imports + BUSY], detach=True)
    try:
        wait_until(lambda: b"ready" in container.logs(), "the step runs")
        container.stop(timeout=60)
        assert container.wait()["StatusCode"] == 128 + signal.SIGTERM
    finally:
        container.remove(force=True)


def test_a_step_that_fails_fails_the_run_every_time(engine: Any, tmp_path: Path) -> None:
    def pipeline() -> None:
        contained(script="print('why'); raise SystemExit(3)")

    steps = compiled(pipeline, tmp_path)
    for attempt in range(20):
        succeeded, run = execute(steps, tmp_path / str(attempt))
        assert not succeeded
        assert run.outcomes["contained"].exit_code == 3
        assert Path(run.outcomes["contained"].log).read_text() == "why\n"


def test_a_step_over_its_memory_is_said_to_be(engine: Any, tmp_path: Path) -> None:
    def pipeline() -> None:
        contained(script=MEMORY).set_memory_limit("100M").set_retry(2)

    succeeded, run = execute(compiled(pipeline, tmp_path), tmp_path)
    assert not succeeded
    assert run.outcomes["contained"].exit_code == -signal.SIGKILL
    assert "out of memory: over its limit of 0.1 GB" in Path(run.outcomes["contained"].log).read_text()


def test_a_step_can_write_to_its_volumes_alone_and_is_not_root(engine: Any, tmp_path: Path) -> None:
    script = "import os; print(os.getuid()); open('/tmp/scratch', 'w'); open('/opt/nightshift/file', 'w')"

    def pipeline() -> None:
        contained(script=script)

    _, run = execute(compiled(pipeline, tmp_path), tmp_path)
    log = Path(run.outcomes["contained"].log).read_text()
    assert log.splitlines()[0] != "0"
    assert "Read-only file system: '/opt/nightshift/file'" in log


def test_an_image_that_is_not_there_is_named(engine: Any, tmp_path: Path) -> None:
    def pipeline() -> None:
        unknown()

    with pytest.raises(UserError, match="image 'nightshift/nowhere:0' of step 'unknown' is not here; run: make images"):
        execute(compiled(pipeline, tmp_path), tmp_path)


def test_a_step_gets_in_its_container_what_the_compiled_pipeline_says(engine: Any, tmp_path: Path) -> None:
    workspace = local(tmp_path, "register-only")
    run = runs.new(arguments.load_compiled("training"), {"date": DATE}, workspace)
    inside = runs.use_containers(run).runner
    assert isinstance(inside, Containers)
    with inside:
        for task in run.pipeline.tasks:
            attributes = inside.create(task, run.commands.argv(task)).attrs
            assert attributes["Config"]["Image"] == task.image
            assert attributes["Config"]["Cmd"] == run.commands.argv(task)
            assert set(attributes["Config"]["Env"]) >= {f"{name}={value}" for name, value in task.environment.items()}
            assert attributes["HostConfig"]["Memory"] == attributes["HostConfig"]["MemorySwap"] == 2_000_000_000
            assert attributes["HostConfig"]["ReadonlyRootfs"]
    assert left(engine, tmp_path) == []


@pytest.fixture
def folder(engine: Any, tmp_path: Path) -> Iterator[Path]:
    """A workspace; containers that its runs have left are removed."""
    yield tmp_path
    for name in left(engine, tmp_path):
        engine.containers.get(name).remove(force=True)


@contextmanager
def sleeping(folder: Path, engine: Any) -> "Iterator[subprocess.Popen[Any]]":
    """Start a run of a step that sleeps, and wait for its container; the engine is killed at the end."""
    before = set(left(engine, folder))

    def pipeline() -> None:
        contained(script="import time; time.sleep(600)")

    words = ["run", str(compiled_file(pipeline, folder)), "--runner", "docker", "--workspace", str(folder)]
    with started(command(*words), stdout=subprocess.DEVNULL) as process:
        wait_until(lambda: set(left(engine, folder)) - before, "the step's container is there")
        yield process


def test_ctrl_c_leaves_no_container_behind(engine: Any, folder: Path) -> None:
    with sleeping(folder, engine) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130
    assert left(engine, folder) == []


def test_what_a_killed_engine_leaves_is_gone_with_the_next_run(engine: Any, folder: Path) -> None:
    with sleeping(folder, engine):
        orphans = left(engine, folder)
    with sleeping(folder, engine):
        assert orphans
        assert not set(orphans) & set(left(engine, folder))
