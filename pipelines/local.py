"""Run a compiled pipeline on this machine: one process or container a step, independent steps in parallel.

A run is a folder with a copy of the pipeline; its `<step>/` holds the step's artifacts, log and executor output
and, once it is done, `outcome.json`. A run is resumed by running it again: a cached step whose command and
input hashes are unchanged and whose outputs are whole is not run again; the others always are, as on Kubeflow.
"""

import json
import os
import shutil
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Protocol, Self

from components.common import storage
from components.common.step import USER_ERROR
from pipelines import ir
from pipelines.processes import Processes

DEFINITION = "pipeline.yaml"


@dataclass(frozen=True)
class Outcome:
    """How a step went.

    Attributes:
        state: `done`, `reused` (unchanged since an earlier attempt of the run) or `failed`.
        seconds: wall time, with all tries and the pauses between them.
        peak_memory_bytes: the largest resident set, as the step says or else of its process; 0 when unknown.
        exit_code: 0 when it went well; negative is a signal.
        command: what ran.
        log: file with all it printed.
        fingerprint: hash of the command and its inputs.
        outputs: output name -> hash.
    """

    state: str
    seconds: float
    peak_memory_bytes: int
    exit_code: int
    command: list[str]
    log: str
    fingerprint: str
    outputs: dict[str, str] = field(default_factory=dict)


class Observer(Protocol):
    """Is told what happens, from several threads."""

    def started(self, task: ir.Task, log: Path) -> None:
        """A step's process starts."""

    def finished(self, task: ir.Task, outcome: Outcome) -> None:
        """A step is done, reused or failed."""


class Runner(Protocol):
    """Runs the steps' commands, and ends what still runs when its block ends."""

    name: ClassVar[str]
    ignored: ClassVar[str]

    def __enter__(self) -> Self:
        """Get ready."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End what still runs."""

    def run(self, task: ir.Task, command: list[str], log: Path) -> tuple[int, int]:
        """Return a command's exit code, negative for a signal, and its peak memory in bytes, 0 when unknown."""

    def stop(self) -> None:
        """Ask all that runs to end."""


@dataclass(frozen=True)
class Run:
    """One run of a pipeline with its arguments, below `folder` (whose name is the run's)."""

    pipeline: ir.Pipeline
    arguments: dict[str, Any]
    folder: Path
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    runner: Runner = field(default_factory=Processes)

    def execute(self, observer: Observer) -> bool:
        """Run all steps; after a failure those under way finish and no other starts.

        Returns:
            whether every step went well.
        """
        storage.write_bytes(str(self.folder / DEFINITION), self.pipeline.yaml)
        self.record()
        waiting = list(self.pipeline.tasks)
        running: dict[Future[Outcome], ir.Task] = {}
        with self.runner, ThreadPoolExecutor(os.cpu_count()) as pool:
            try:
                while True:
                    for task in self._ready(waiting):
                        waiting.remove(task)
                        running[pool.submit(self._step, task, observer)] = task
                    if not running:
                        break
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        self._finish(running.pop(done), done.result(), observer)
            except BaseException:
                self.runner.stop()
                raise
        return self.complete

    @property
    def complete(self) -> bool:
        """Whether every step went well."""
        well = {name for name, outcome in self.outcomes.items() if outcome.state != "failed"}
        return all(task.name in well for task in self.pipeline.tasks)

    def record(self) -> None:
        """Write `run.json`: the arguments, how each step went, and what this engine does not do."""
        steps = {
            name: {"state": o.state, "seconds": o.seconds, "peak_memory_bytes": o.peak_memory_bytes, "log": o.log}
            | {"error": last_lines(Path(o.log), 3) if o.state == "failed" else None}
            for name, o in self.outcomes.items()
        }
        record = {
            "pipeline": self.pipeline.name,
            "engine": "local",
            "started": self.started,
            "parameters": self.arguments,
            "steps": steps,
            "complete": self.complete,
            "ignored": self._ignored(),
        }
        storage.write_json(str(self.folder / "run.json"), record)

    def command(self, task: ir.Task) -> list[str]:
        """Return a step's command line in this run."""
        return ir.argv(task, lambda kind, name: self._fill(task, kind, name))

    def _ready(self, waiting: list[ir.Task]) -> list[ir.Task]:
        if any(outcome.state == "failed" for outcome in self.outcomes.values()):
            return []
        return [task for task in waiting if all(need in self.outcomes for need in task.needs)]

    def _finish(self, task: ir.Task, outcome: Outcome, observer: Observer) -> None:
        self.outcomes[task.name] = outcome
        self.record()
        observer.finished(task, outcome)

    def _step(self, task: ir.Task, observer: Observer) -> Outcome:
        command = self.command(task)
        fingerprint = self._fingerprint(task, command)
        before = self._earlier(task)
        if task.cached and before and before.fingerprint == fingerprint and before.outputs == self._hashes(task):
            return Outcome(**asdict(before) | {"state": "reused"})
        folder = self._folder(task)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        observer.started(task, folder / "log.txt")
        outcome = self._attempts(task, command, fingerprint)
        if outcome.state == "done":
            storage.write_json(str(folder / "outcome.json"), asdict(outcome))
        return outcome

    def _attempts(self, task: ir.Task, command: list[str], fingerprint: str) -> Outcome:
        delay, log = task.retry.seconds, self._folder(task) / "log.txt"
        started = time.monotonic()
        for attempt in range(task.retry.count + 1):
            code, peak = self.runner.run(task, command, log)
            # exit code 2 is the user's to mend: another try would only repeat the message
            if code in (0, USER_ERROR) or code < 0 or attempt == task.retry.count:
                break
            time.sleep(delay)
            delay *= task.retry.factor
        seconds = round(time.monotonic() - started, 3)
        state, hashes = ("done", self._hashes(task)) if code == 0 else ("failed", {})
        return Outcome(state, seconds, self._measured(task) or peak, code, command, str(log), fingerprint, hashes)

    def _fill(self, task: ir.Task, kind: str, name: str) -> str:
        if kind == "parameter":
            kfp_type, source = task.parameters[name]
            return ir.text(self._value(source), kfp_type)
        if kind == "run":
            return self.folder.name
        if kind == "input":
            return self._uri(task.artifacts[name])
        return self._uri(ir.Artifact(task.name, name)) if kind == "output" else json.dumps(self._executor_input(task))

    def _value(self, source: ir.Constant | ir.Reference) -> Any:
        return source.value if isinstance(source, ir.Constant) else self.arguments[source.name]

    def _executor_input(self, task: ir.Task) -> dict[str, Any]:
        def artifact(key: str, source: ir.Artifact, metadata: dict[str, Any]) -> dict[str, Any]:
            return {"artifacts": [{"name": key, "uri": self._uri(source), "metadata": metadata}]}

        inputs = {key: artifact(key, source, self._metadata(source)) for key, source in task.artifacts.items()}
        outputs = {key: artifact(key, ir.Artifact(task.name, key), {}) for key in task.outputs}
        values = {key: self._value(source) for key, (_, source) in task.parameters.items()}
        output_file = str(self._folder(task) / "executor_output.json")
        return {
            "inputs": {"parameterValues": values, "artifacts": inputs},
            "outputs": {"artifacts": outputs, "outputFile": output_file},
        }

    def _metadata(self, source: ir.Artifact) -> dict[str, Any]:
        path = self.folder / source.task / "executor_output.json"
        if not path.exists():
            return {}
        made = json.loads(path.read_text()).get("artifacts", {}).get(source.output, {}).get("artifacts", [{}])
        return dict(made[0].get("metadata", {}))

    def _fingerprint(self, task: ir.Task, command: list[str]) -> str:
        words = [word for template, word in zip(task.command, command, strict=True) if template != "{{$}}"]
        hashes = [self.outcomes[source.task].outputs.get(source.output) for source in task.artifacts.values()]
        return storage.fingerprint([words, hashes])

    def _earlier(self, task: ir.Task) -> Outcome | None:
        path = self._folder(task) / "outcome.json"
        return Outcome(**json.loads(path.read_text())) if path.exists() else None

    def _hashes(self, task: ir.Task) -> dict[str, str]:
        return {name: _hash(Path(self._uri(ir.Artifact(task.name, name)))) for name in task.outputs}

    def _ignored(self) -> list[str]:
        """Return, a line each, what steps ask for and this run does not give."""
        tasks = self.pipeline.tasks
        asked = {task.name: [*{"accelerator"} & set(task.resources), *sorted(task.kubernetes)] for task in tasks}
        return [self.runner.ignored, *(f"{name}: {', '.join(keys)}" for name, keys in asked.items() if keys)]

    def _measured(self, task: ir.Task) -> int:
        """Return the peak memory that a step has measured itself, in bytes; 0 when it has not."""
        made = (self._metadata(ir.Artifact(task.name, output)) for output in task.outputs)
        return max((int(metadata.get("peak_memory_bytes", 0)) for metadata in made), default=0)

    def _folder(self, task: ir.Task) -> Path:
        return self.folder / task.name

    def _uri(self, artifact: ir.Artifact) -> str:
        return str(self.folder / artifact.task / artifact.output)


def last_lines(log: Path, count: int) -> str:
    """Return the last lines of a log that are not empty."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join([line for line in lines if line.strip()][-count:])


def _hash(path: Path) -> str:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return storage.fingerprint([[str(file.relative_to(path)), _hash(file)] for file in files])
    return storage.sha256(path.read_bytes()) if path.exists() else ""
