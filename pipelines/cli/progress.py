"""The progress of a run on the terminal, and the explanation of a failure."""

import shlex
import threading
import time
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from nightshift.runtime.printable import printable
from pipelines import ir
from pipelines.engines.local.processes import Processes
from pipelines.engines.local.run import Run, StepOutcome
from pipelines.logs import last_lines

STYLES = {"waiting": "dim", "running": "cyan", "done": "green", "reused": "green", "failed": "bold red"}


class RunProgress:
    """A live table of the steps on a terminal, a line for each event elsewhere."""

    def __init__(self, pipeline: ir.Pipeline, console: Console) -> None:
        self.console = console
        self._lock = threading.Lock()
        self._steps = [task.name for task in pipeline.tasks]
        self._running: dict[str, tuple[float, Path]] = {}
        self._outcomes: dict[str, StepOutcome] = {}
        self._live = Live(get_renderable=self._table, console=console, refresh_per_second=4)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def report_start(self, task: ir.PipelineTask, log: Path) -> None:
        """Show a step as running."""
        with self._lock:
            self._running[task.name] = (time.monotonic(), log)
        if not self.console.is_terminal:
            self.console.print(f"{task.name} started", highlight=False)

    def report_end(self, task: ir.PipelineTask, outcome: StepOutcome) -> None:
        """Show how a step went."""
        with self._lock:
            self._running.pop(task.name, None)
            self._outcomes[task.name] = outcome
        if not self.console.is_terminal:
            line = f"{task.name} {outcome.state} in {outcome.seconds:.1f} s, {_megabytes(outcome.peak_memory_bytes)}"
            self.console.print(line, highlight=False)

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0))
        for heading in ("step", "state", "seconds", "memory", ""):
            table.add_column(heading, justify="right" if heading in ("seconds", "memory") else "left", no_wrap=True)
        with self._lock:
            for name in self._steps:
                table.add_row(name, *self._cells(name))
        return table

    def _cells(self, name: str) -> list[str | Text]:
        if name in self._outcomes:
            outcome = self._outcomes[name]
            style = STYLES[outcome.state]
            return [f"[{style}]{outcome.state}", f"{outcome.seconds:.1f}", _megabytes(outcome.peak_memory_bytes), ""]
        if name in self._running:
            since, log = self._running[name]
            last_line = plain_text(last_lines(log, 1), "dim")
            return [f"[{STYLES['running']}]running", f"{time.monotonic() - since:.1f}", "", last_line]
        return [f"[{STYLES['waiting']}]waiting", "", "", ""]


def explain_failure(run: Run, console: Console) -> None:
    """Print the failed step, its command, its last lines and how to resume."""
    for name, outcome in run.outcomes.items():
        if outcome.state != "failed":
            continue
        console.print(f"\n[bold red]{name} failed[/] ({_reason(outcome.exit_code)}); its last lines:")
        console.print(Text(last_lines(Path(outcome.log), 12)), highlight=False)
        console.print(f"\nlog      {outcome.log}", markup=False, highlight=False, soft_wrap=True)
        console.print(f"command  {_shorten_command(outcome.command)}", markup=False, highlight=False, soft_wrap=True)
        explain_resumption(run, console)
        if "reporting" in [task.name for task in run.pipeline.tasks]:
            report = f"report   nightshift report {_format_reference(run)}"
            console.print(report, markup=False, highlight=False, soft_wrap=True)


def explain_resumption(run: Run, console: Console) -> None:
    """Print the command that resumes a run that failed or was stopped."""
    runner = f" --runner {run.runner.name}" if run.runner.name != Processes.name else ""
    command = f"resume   nightshift run --resume {_format_reference(run)}{runner}"
    console.print(command, markup=False, highlight=False, soft_wrap=True)


def plain_text(text: str, style: str = "") -> Text:
    """Return a text that is neither markup nor emoji, nor more than a line."""
    return Text(printable(text), style)


def _format_reference(run: Run) -> str:
    """Return the arguments that name a run to a command in this folder."""
    workspace = run.folder.parent.parent
    flags = [] if workspace.resolve() == Path.cwd() else ["--workspace", str(workspace)]
    return shlex.join([run.folder.name, *flags])


def _reason(code: int) -> str:
    if code < 0:
        return f"ended by signal {-code}" + (", often out of memory" if code == -9 else "")
    return f"exit code {code}"


def _shorten_command(command: list[str]) -> str:
    return " ".join(word if len(word) < 120 else f"{word[:60]}...({len(word)} characters)" for word in command)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
