"""The local engine."""

import json
import os
import signal
import subprocess
import tracemalloc
from pathlib import Path
from typing import ClassVar, Self

import pytest
from kfp import kubernetes

from nightshift.runtime.step import PREEMPTED, PREEMPTIONS
from nightshift_testkit.processes import SECONDS, content, engine, started, wait_until
from pipelines import ir
from pipelines.engines.local.processes import Processes
from pipelines.engines.local.run import Run, _hash
from tests.pipelines.samples import (
    Silent,
    compiled,
    copy,
    fetch,
    folder,
    inspect,
    one_step,
    run_of,
    shell,
    write,
)

pytestmark = pytest.mark.slow

MEGABYTE = 2**20


def execute(pipeline: ir.Pipeline, folder: Path, **arguments: object) -> tuple[bool, dict[str, str]]:
    observer = Silent()
    return Run(pipeline, arguments, folder).execute(observer), observer.states


def test_artifacts_travel_from_step_to_step(tmp_path: Path) -> None:
    def pipeline(text: str) -> None:
        copy(taken=copy(taken=write(text=text).output).output)

    succeeded, states = execute(compiled(pipeline, tmp_path), tmp_path / "run", text='it\'s "quoted" $HOME')
    assert succeeded
    assert states == {"write": "done", "copy": "done", "copy-2": "done"}
    assert (tmp_path / "run/copy-2/output").read_text() == 'it\'s "quoted" $HOME'


def test_independent_steps_run_at_the_same_time(tmp_path: Path) -> None:
    meet = 'touch "{me}"; for i in $(seq 3000); do [ -e "{other}" ] && exit 0; sleep 0.05; done; exit 1'
    one, two = str(tmp_path / "one"), str(tmp_path / "two")

    def pipeline() -> None:
        shell(script=meet.format(me=one, other=two))
        shell(script=meet.format(me=two, other=one))

    assert (os.cpu_count() or 1) > 1
    assert execute(compiled(pipeline, tmp_path), tmp_path / "run")[0]


def test_a_large_output_is_hashed_without_being_read_whole(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    with (folder / "weights.safetensors").open("wb") as file:
        file.truncate(64 * MEGABYTE)
    tracemalloc.start()
    try:
        _hash(folder)
        assert tracemalloc.get_traced_memory()[1] < 4 * MEGABYTE
    finally:
        tracemalloc.stop()


def test_after_a_failure_nothing_that_follows_is_started(tmp_path: Path) -> None:
    def pipeline() -> None:
        first = shell(script="echo why; exit 3")
        shell(script="true").after(first)

    succeeded, states = execute(compiled(pipeline, tmp_path), tmp_path / "run")
    assert not succeeded
    assert states == {"shell": "failed"}
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["steps"]["shell"]["error"] == "why"


@pytest.mark.parametrize(
    ("then", "retries", "succeeds", "tries"),
    [
        pytest.param("[ $(wc -l < {count}) -ge 3 ]", 2, True, 3, id="a failed step as often as its retries say"),
        pytest.param("exit 2", 5, False, 1, id="a user's mistake once"),
        pytest.param("[ $(wc -l < {count}) -ge 4 ] || exit 75", 0, True, 4, id="a preempted step again for nothing"),
        pytest.param("exit 75", 1, False, 2 * (PREEMPTIONS + 1), id="one that is always preempted not for ever"),
    ],
)
def test_a_step_is_tried(then: str, retries: int, succeeds: bool, tries: int, tmp_path: Path) -> None:
    count = tmp_path / "count"
    pipeline = compiled(one_step(f"echo x >> {count}; {then.format(count=count)}", retries), tmp_path)

    assert execute(pipeline, tmp_path / "run")[0] == succeeds
    assert count.read_text().count("x") == tries


def test_a_resumed_run_repeats_only_what_failed_or_must_always_run(tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def pipeline() -> None:
        first = write(text="a")
        second = copy(taken=first.output).set_caching_options(False)
        shell(script=f'[ -e "{gate}" ]').after(second)

    this = compiled(pipeline, tmp_path)
    assert execute(this, tmp_path / "run") == (False, {"write": "done", "copy": "done", "shell": "failed"})
    gate.touch()
    assert execute(this, tmp_path / "run") == (True, {"write": "reused", "copy": "done", "shell": "done"})


def test_a_step_whose_input_or_output_changed_is_run_again_on_resume(tmp_path: Path) -> None:
    def pipeline() -> None:
        copy(taken=write(text="a").output)

    this = compiled(pipeline, tmp_path)
    execute(this, tmp_path / "run")
    assert execute(this, tmp_path / "run")[1] == {"write": "reused", "copy": "reused"}
    (tmp_path / "run/copy/output").write_text("spoilt")
    assert execute(this, tmp_path / "run")[1] == {"write": "reused", "copy": "done"}
    assert (tmp_path / "run/copy/output").read_text() == "a"


def test_a_step_learns_what_the_steps_before_measured(tmp_path: Path) -> None:
    def pipeline() -> None:
        inspect(taken=write(text="a").output)

    this = compiled(pipeline, tmp_path)
    execute(this, tmp_path / "run")
    measured = {"artifacts": {"output": {"artifacts": [{"metadata": {"seconds": 1.5}}]}}}
    (tmp_path / "run/write/executor_output.json").write_text(json.dumps(measured))
    (tmp_path / "run/inspect/outcome.json").unlink()
    execute(this, tmp_path / "run")
    seen = json.loads((tmp_path / "run/inspect/output").read_text())
    assert seen["inputs"]["artifacts"]["taken"]["artifacts"][0]["metadata"] == {"seconds": 1.5}
    assert seen["outputs"]["outputFile"] == str(tmp_path / "run/inspect/executor_output.json")


def test_a_step_is_run_again_when_its_command_has_changed(tmp_path: Path) -> None:
    def pipeline(text: str) -> None:
        write(text=text)

    this = compiled(pipeline, tmp_path)
    states = [execute(this, tmp_path / "run", text=text)[1]["write"] for text in ("a", "a", "b", "b")]
    assert states == ["done", "reused", "done", "reused"]
    assert (tmp_path / "run/write/output").read_text() == "b"


def test_a_step_is_run_again_when_what_it_takes_has_changed(tmp_path: Path) -> None:
    source = tmp_path / "source"

    def pipeline() -> None:
        copy(taken=fetch(source=str(source)).set_caching_options(False).output)

    this, states = compiled(pipeline, tmp_path), []
    for text in ("a", "a", "b"):
        source.write_text(text)
        states.append(execute(this, tmp_path / "run")[1]["copy"])
    assert states == ["done", "reused", "done"]


@pytest.mark.parametrize("change", ["names", "contents", "deep"])
def test_a_step_that_makes_a_folder_is_run_again_when_anything_in_it_has_changed(change: str, tmp_path: Path) -> None:
    def pipeline() -> None:
        folder(text="a")

    this, root = compiled(pipeline, tmp_path), tmp_path / "run/folder/output"
    execute(this, tmp_path / "run")
    assert execute(this, tmp_path / "run")[1] == {"folder": "reused"}
    if change == "names":
        (root / "deep/file").rename(root / "deep/other")
    else:
        (root / ("deep/file" if change == "deep" else "more")).write_text("b")
    assert execute(this, tmp_path / "run")[1] == {"folder": "done"}


class Fake:
    """Runs nothing, takes 5 bytes, and ends with the codes it was given; what a step measures is what it says."""

    name: ClassVar[str] = "fake"
    ignored: ClassVar[str] = "everything"

    def __init__(self, *codes: int, measured: int | None = None) -> None:
        self.codes, self.measured, self.logs = list(codes), measured, list[Path]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def run(self, task: ir.PipelineTask, command: list[str], log: Path) -> tuple[int, int]:
        log.write_text("".join(f"line {number}\n" for number in range(5)))
        self.logs.append(log)
        if self.measured is not None:
            metadata = {"artifacts": [{"metadata": {"peak_memory_bytes": self.measured}}]}
            (log.parent / "executor_output.json").write_text(json.dumps({"artifacts": {"output": metadata}}))
        return self.codes.pop(0), 5

    def stop(self) -> None:
        pass


def test_the_record_says_how_each_step_went(tmp_path: Path) -> None:
    def pipeline(text: str) -> None:
        shell(script="true").after(write(text=text))

    this, progress = compiled(pipeline, tmp_path), Silent()
    run = Run(this, {"text": "a"}, tmp_path / "deep" / "run", "now", runner=Fake(0, 1), engine="some")
    assert not run.execute(progress)

    seconds = {name: outcome.seconds for name, outcome in run.outcomes.items()}
    assert all(0 <= taken < SECONDS and taken == round(taken, 3) for taken in seconds.values())
    logs = {name: str(run.folder / name / "log.txt") for name in seconds}
    assert progress.logs == {name: Path(log) for name, log in logs.items()}
    head = {"pipeline": "sample", "engine": "some", "started": "now", "parameters": {"text": "a"}, "complete": False}
    common = {name: {"seconds": seconds[name], "peak_memory_bytes": 5, "log": logs[name]} for name in logs}
    steps = {
        "write": common["write"] | {"state": "done", "error": None},
        "shell": common["shell"] | {"state": "failed", "error": "line 2\nline 3\nline 4"},
    }
    assert json.loads((run.folder / "run.json").read_text()) == {**head, "steps": steps, "ignored": ["everything"]}
    assert (run.folder / "pipeline.yaml").read_bytes() == this.yaml
    failed = json.loads((run.folder / "shell/outcome.json").read_text())
    assert failed["command"] == ["sh", "-c", "true"]
    assert failed["exit_code"] == 1


@pytest.mark.parametrize(("measured", "peak"), [(None, 5), (7, 7)])
def test_a_step_that_measures_its_memory_itself_is_believed(measured: int | None, peak: int, tmp_path: Path) -> None:
    def pipeline() -> None:
        write(text="a")

    run = Run(compiled(pipeline, tmp_path), {}, tmp_path / "run", runner=Fake(0, measured=measured))
    run.execute(Silent())
    assert run.outcomes["write"].peak_memory_bytes == peak


def test_a_step_that_a_signal_has_ended_is_not_tried_again(tmp_path: Path) -> None:
    run = Run(compiled(one_step("true", retries=5), tmp_path), {}, tmp_path / "run", runner=Fake(1, -9, 0))
    assert not run.execute(Silent())
    assert run.outcomes["shell"].exit_code == -9


def test_the_record_names_what_a_local_run_does_not_give(tmp_path: Path) -> None:
    def pipeline() -> None:
        step = shell(script="true").set_accelerator_type("nvidia.com/gpu").set_accelerator_limit(1).set_cpu_limit("2")
        kubernetes.add_node_selector(step, "pool", "gpu")
        shell(script="true").set_cpu_limit("2")

    execute(compiled(pipeline, tmp_path), tmp_path / "run")
    ignored = json.loads((tmp_path / "run/run.json").read_text())["ignored"]
    assert ignored[1:] == ["shell: accelerator, nodeSelector"]


TRAPS_TERM = "trap 'echo x >> {count}; exit {code}' TERM; echo $$ > {pid}; while true; do sleep 0.05; done"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(signal.SIGINT, 1, id="Ctrl-C ends a step that would be tried again"),
        pytest.param(signal.SIGINT, PREEMPTED, id="Ctrl-C ends a step that saves a checkpoint first"),
        pytest.param(signal.SIGTERM, 0, id="SIGTERM ends a step, and the next does not start"),
    ],
)
def test_after_a_signal_no_step_starts(number: signal.Signals, code: int, tmp_path: Path) -> None:
    pid_file, count, later = tmp_path / "pid", tmp_path / "count", tmp_path / "later"

    def pipeline() -> None:
        step = shell(script=TRAPS_TERM.format(count=count, code=code, pid=pid_file)).set_retry(5)
        shell(script=f"touch {later}").after(step)

    with started(engine(*run_of(pipeline, tmp_path)), stdout=subprocess.PIPE, text=True) as process:
        step = int(content(pid_file))
        process.send_signal(number)
        output, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 128 + number
    assert "resume   nightshift run --resume" in output
    assert count.read_text() == "x\n"
    assert not later.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(step, 0)


@pytest.mark.parametrize("wrapper", [[], ["sh", "-c", 'exec "$@" >&-', "sh"]], ids=["", "without standard output"])
def test_a_second_ctrl_c_kills_a_step_that_does_not_end(wrapper: list[str], tmp_path: Path) -> None:
    pid_file, heard = tmp_path / "pid", tmp_path / "heard"
    script = f"trap 'echo x > {heard}' TERM; echo $$ > {pid_file}; while true; do sleep 0.05; done"
    with started([*wrapper, *engine(*run_of(one_step(script), tmp_path))], stdout=subprocess.DEVNULL) as process:
        step = int(content(pid_file))
        process.send_signal(signal.SIGINT)
        content(heard)
        process.send_signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130
    wait_until(lambda: not Path(f"/proc/{step}").exists(), "the step has ended with the engine")


def test_a_process_that_starts_while_the_others_are_stopped_ends_too(tmp_path: Path) -> None:
    pipeline = compiled(one_step("sleep 600"), tmp_path)
    with Processes() as processes:
        processes.stop()
        code, _ = processes.run(pipeline.tasks[0], ["sleep", "600"], tmp_path / "log")
    assert code == -signal.SIGTERM


@pytest.mark.parametrize("moment", ["before it starts", "while it starts"])
def test_a_stopped_run_starts_no_step(moment: str, tmp_path: Path) -> None:
    runner = Fake(0)
    run = Run(compiled(one_step("true"), tmp_path), {}, tmp_path / "run", runner=runner)

    class Stopping(Silent):
        def report_start(self, task: ir.PipelineTask, log: Path) -> None:
            run.stop()

    if moment == "before it starts":
        run.stop()
    assert not run.execute(Silent() if moment == "before it starts" else Stopping())
    assert runner.logs == []
