"""A step as a process of this machine, in the project's own environment."""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from nightshift.runtime.step import USER_ERROR
from nightshift.storage import locks
from pipelines import ir
from pipelines.engines.airflow.operators.context import Rendering
from pipelines.engines.airflow.operators.lineage import name_parent
from pipelines.engines.airflow.operators.links import MODEL, REPORT, TEMPLATES
from pipelines.engines.local import runs
from pipelines.engines.local.processes import Processes
from pipelines.engines.local.run import Run, StepOutcome
from pipelines.logs import last_lines

POLL_SECONDS = 0.5


class StepOperator(BaseOperator):
    """Runs one step of a local run, whose folder and record are those of `nightshift run`."""

    template_fields = ("argv", "links")
    operator_extra_links = (REPORT, MODEL)

    def __init__(
        self,
        *,
        steps: Sequence[ir.PipelineTask],
        argv: list[str],
        rendering: Rendering,
        number: int = 0,
        **options: Any,
    ) -> None:
        """Make the task of one of some steps that differ in a number alone."""
        step = steps[number]
        seconds = int(step.kubernetes.get("activeDeadlineSeconds", 0))  # a pod counts them itself, once it has a node
        # a mapped task has one already, Airflow's default
        super().__init__(**options | {"execution_timeout": timedelta(seconds=seconds) if seconds else None})
        self.step = replace(step, retry=ir.Retry())  # Airflow's own
        self.argv = argv
        self.links = TEMPLATES
        self.rendering = rendering
        self.output_metadata: dict[str, Any] = {}

    def execute(self, context: Any) -> None:
        """Run the step, or reuse what an earlier try of this DAG run has made of the same input.

        Raises:
            AirflowFailException: on a mistake of the user, which is not tried again.
            AirflowException: on any other failure.
        """
        run = self._active = self._run(context)
        step = replace(self.step, environment=self.step.environment | name_parent(context))
        run.folder.mkdir(parents=True, exist_ok=True)
        with runs.under_way(run), run.runner, _Follower(self.log) as follower:
            outcome = run.attempt(step, self.argv, follower)
            _record(run, self.step, outcome)
        if outcome.state == "failed":
            kind = AirflowFailException if outcome.exit_code == USER_ERROR else AirflowException
            raise kind(f"exit code {outcome.exit_code}: {last_lines(Path(outcome.log), 3)}")
        self.output_metadata = next(
            (run.commands.metadata(ir.ArtifactRef(self.step.name, name)) for name in self.step.outputs), {}
        )
        self.log.info("%s after %.1f s, %s", outcome.state, outcome.seconds, run.folder)

    def on_kill(self) -> None:
        """End the step's processes, and start none again."""
        self._active.stop()

    def _run(self, context: Any) -> Run:
        commands = self.rendering.commands(context)
        processes = Processes(self.rendering.settings.python)
        started = context["dag_run"].start_date.isoformat(timespec="seconds")
        folder = Path(commands.root)
        return Run(self.rendering.pipeline, commands.arguments, folder, started, runner=processes, engine="airflow")


class _Follower:
    """Copies what a step prints into the task's log while it runs."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._ended = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def report_start(self, task: ir.PipelineTask, log: Path) -> None:
        """Begin to read the step's log."""
        log.touch()
        self._threads.append(threading.Thread(target=self._follow, args=(log,)))
        self._threads[-1].start()

    def report_end(self, task: ir.PipelineTask, outcome: StepOutcome) -> None:
        """Nothing to add: the task says it."""

    def _follow(self, log: Path) -> None:
        with log.open(errors="replace") as lines:
            while True:
                last = self._ended.wait(POLL_SECONDS)
                for line in lines:
                    self._log.info("%s", line.rstrip())
                if last:
                    return


def _record(run: Run, step: ir.PipelineTask, outcome: StepOutcome) -> None:
    """Write the run's record anew: tasks of a DAG run are processes of their own, which end in any order."""
    with locks.hold(run.folder / "run.lock"):
        others = {task.name: run.earlier(task) for task in run.pipeline.tasks}
        run.outcomes.update({name: other for name, other in others.items() if other} | {step.name: outcome})
        run.begin()
