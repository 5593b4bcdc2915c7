"""Run a compiled pipeline on this machine: one process or container a step, independent steps in parallel.

A run is a folder with a copy of the pipeline; its `<step>/` holds the step's artifacts, log and executor output
and, once it is done, `outcome.json`. A run is resumed by running it again: a cached step whose command and
input hashes are unchanged and whose outputs are whole is not run again; the others always are, as on Kubeflow.
"""

import json
import os
import shutil
import signal
import threading
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from nightshift import storage
from nightshift.runtime.argv import shorten
from nightshift.runtime.step import PREEMPTED, PREEMPTIONS, USER_ERROR
from pipelines import ir
from pipelines.commands import Commands
from pipelines.engines.local.ignored import list_ignored
from pipelines.engines.local.processes import Processes
from pipelines.engines.local.runner import Runner
from pipelines.engines.local.signals import stop_on_signal
from pipelines.logs import last_lines

DEFINITION = "pipeline.yaml"


@dataclass(frozen=True)
class StepOutcome:
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
    """Observes what happens; called from several threads."""

    def report_start(self, task: ir.PipelineTask, log: Path) -> None:
        """A step's process starts."""

    def report_end(self, task: ir.PipelineTask, outcome: StepOutcome) -> None:
        """A step is done, reused or failed."""


@dataclass
class Run:
    """One run of a pipeline with its arguments, below `folder` (whose name is the run's); `engine` orders its steps.

    `outcomes` grows while it runs, a step at a time.
    """

    pipeline: ir.Pipeline
    arguments: dict[str, Any]
    folder: Path
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    outcomes: dict[str, StepOutcome] = field(default_factory=dict)
    runner: Runner = field(default_factory=Processes)
    engine: str = "local"
    _stopped: threading.Event = field(default_factory=threading.Event, init=False, repr=False, compare=False)

    def execute(self, observer: Observer) -> bool:
        """Run all steps; after a failure those in progress finish and no other starts; a signal ends them.

        Returns:
            whether every step went well.

        Raises:
            InterruptedRunError: after a signal, once no step runs.
        """
        self.begin()
        waiting = list(self.pipeline.tasks)
        running: dict[Future[StepOutcome], ir.PipelineTask] = {}
        stopping = stop_on_signal(lambda _: self.stop())
        with self.runner, ThreadPoolExecutor(os.cpu_count()) as pool, stopping:
            try:
                while True:
                    for task in self._ready(waiting):
                        waiting.remove(task)
                        running[pool.submit(self.attempt, task, self.commands.argv(task), observer)] = task
                    if not running:
                        break
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        self._finish(running.pop(done), done.result(), observer)
            except BaseException:
                self.stop()
                raise
        return self.complete

    def stop(self) -> None:
        """Start no other step, nor one again, and ask those that run to end."""
        self._stopped.set()
        self.runner.stop()

    @property
    def complete(self) -> bool:
        """Whether every step went well."""
        well = {name for name, outcome in self.outcomes.items() if outcome.state != "failed"}
        return all(task.name in well for task in self.pipeline.tasks)

    def begin(self) -> None:
        """Write the pipeline and the record into the run's folder."""
        storage.write_bytes(str(self.folder / DEFINITION), self.pipeline.yaml)
        self.record()

    def record(self) -> None:
        """Write `run.json`: the arguments, how each step went, and what this engine does not do."""
        steps = {
            name: {"state": o.state, "seconds": o.seconds, "peak_memory_bytes": o.peak_memory_bytes, "log": o.log}
            | {"error": last_lines(Path(o.log), 3) if o.state == "failed" else None}
            for name, o in self.outcomes.items()
        }
        head = {"pipeline": self.pipeline.name, "engine": self.engine, "started": self.started}
        ignored = [self.runner.ignored, *list_ignored(self.pipeline.tasks, self.arguments.get("config", {}))]
        body = {"parameters": self.arguments, "steps": steps, "complete": self.complete, "ignored": ignored}
        storage.write_json(str(self.folder / "run.json"), head | body)

    @property
    def commands(self) -> Commands:
        """The steps' command lines in this run."""
        return Commands(str(self.folder), self.arguments)

    def attempt(self, task: ir.PipelineTask, command: list[str], observer: Observer) -> StepOutcome:
        """Run one step, with all its tries, or reuse what it has made in an earlier attempt of the run.

        Args:
            task: the step; those it needs are done.
            command: its command line.
            observer: notified when a process starts.
        """
        fingerprint = self._fingerprint(task, command)
        before = self.earlier(task)
        current = (fingerprint, self._hashes(task))
        if task.cached and before and before.state == "done" and (before.fingerprint, before.outputs) == current:
            return replace(before, state="reused")
        folder = self._folder(task)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        observer.report_start(task, folder / "log.txt")
        outcome = self._attempts(task, shorten(command, folder), fingerprint)
        storage.write_json(str(folder / "outcome.json"), asdict(outcome))
        return outcome

    def earlier(self, task: ir.PipelineTask) -> StepOutcome | None:
        """Return how a step went when it was last tried in this run."""
        path = self._folder(task) / "outcome.json"
        return StepOutcome(**json.loads(path.read_text())) if path.exists() else None

    def _ready(self, waiting: list[ir.PipelineTask]) -> list[ir.PipelineTask]:
        if self._stopped.is_set() or any(outcome.state == "failed" for outcome in self.outcomes.values()):
            return []
        return [task for task in waiting if all(need in self.outcomes for need in task.needs)]

    def _finish(self, task: ir.PipelineTask, outcome: StepOutcome, observer: Observer) -> None:
        self.outcomes[task.name] = outcome
        self.record()
        observer.report_end(task, outcome)

    def _attempts(self, task: ir.PipelineTask, command: list[str], fingerprint: str) -> StepOutcome:
        log, started = self._folder(task) / "log.txt", time.monotonic()
        delays = [task.retry.seconds * task.retry.factor**number for number in range(task.retry.count)]
        for delay in [*delays, None]:
            code, peak = self._run_uninterrupted(task, command, log)
            # exit code 2 is the user's to fix: another try would only repeat the message
            if code in (0, USER_ERROR) or code < 0 or delay is None or self._stopped.wait(delay):
                break
        seconds = round(time.monotonic() - started, 3)
        state, hashes = ("done", self._hashes(task)) if code == 0 else ("failed", {})
        memory = self._read_peak_memory(task) or peak
        return StepOutcome(state, seconds, memory, code, command, str(log), fingerprint, hashes)

    def _run_uninterrupted(self, task: ir.PipelineTask, command: list[str], log: Path) -> tuple[int, int]:
        """Run a command again as often as it is preempted, which is no failure of it."""
        code, peak = -signal.SIGTERM, 0
        for _ in range(PREEMPTIONS + 1):
            if self._stopped.is_set():
                break
            code, peak = self.runner.run(task, command, log)
            if code != PREEMPTED:
                break
        return code, peak

    def _fingerprint(self, task: ir.PipelineTask, command: list[str]) -> str:
        argv = [word for template, word in zip(task.command, command, strict=True) if template != "{{$}}"]
        sources = chain.from_iterable(task.artifacts.values())
        return storage.fingerprint([argv, [_hash(Path(self.commands.uri(source))) for source in sources]])

    def _hashes(self, task: ir.PipelineTask) -> dict[str, str]:
        return {name: _hash(Path(self.commands.uri(ir.ArtifactRef(task.name, name)))) for name in task.outputs}

    def _read_peak_memory(self, task: ir.PipelineTask) -> int:
        """Return the peak memory in bytes that a step measured itself; 0 when it has not."""
        entries = (self.commands.metadata(ir.ArtifactRef(task.name, output)) for output in task.outputs)
        return max((int(metadata.get("peak_memory_bytes", 0)) for metadata in entries), default=0)

    def _folder(self, task: ir.PipelineTask) -> Path:
        return self.folder / task.name


def _hash(path: Path) -> str:
    """Return the identity of a file or of all files of a folder, read in pieces; empty where there is nothing."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        return storage.fingerprint([[str(file.relative_to(path)), _hash(file)] for file in files])
    return storage.digest(str(path)) if path.exists() else ""
