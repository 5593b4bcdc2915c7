"""What a person sees of a run, during it and at its end."""

import json
import shlex
import threading
import time
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from pipelines import ir
from pipelines.engines.local.processes import Processes
from pipelines.engines.local.run import Outcome, Run
from pipelines.logs import last_lines

STYLES = {"waiting": "dim", "running": "cyan", "done": "green", "reused": "green", "failed": "bold red"}


class Progress:
    """A live table of the steps on a terminal, a line for each event elsewhere."""

    def __init__(self, pipeline: ir.Pipeline, console: Console) -> None:
        self.console = console
        self._lock = threading.Lock()
        self._steps = [task.name for task in pipeline.tasks]
        self._running: dict[str, tuple[float, Path]] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._live = Live(get_renderable=self._table, console=console, refresh_per_second=4)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def started(self, task: ir.Task, log: Path) -> None:
        """Show a step as running."""
        with self._lock:
            self._running[task.name] = (time.monotonic(), log)
        if not self.console.is_terminal:
            self.console.print(f"{task.name} started", highlight=False)

    def finished(self, task: ir.Task, outcome: Outcome) -> None:
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

    def _cells(self, name: str) -> list[str]:
        if name in self._outcomes:
            outcome = self._outcomes[name]
            style = STYLES[outcome.state]
            return [f"[{style}]{outcome.state}", f"{outcome.seconds:.1f}", _megabytes(outcome.peak_memory_bytes), ""]
        if name in self._running:
            since, log = self._running[name]
            said = last_lines(log, 1).replace("[", r"\[")
            return [f"[{STYLES['running']}]running", f"{time.monotonic() - since:.1f}", "", f"[dim]{said}"]
        return [f"[{STYLES['waiting']}]waiting", "", "", ""]


def explain_failure(run: Run, console: Console) -> None:
    """Say which step failed, with which command, what it said last, and how to go on."""
    for name, outcome in run.outcomes.items():
        if outcome.state != "failed":
            continue
        console.print(f"\n[bold red]{name} failed[/] ({_reason(outcome.exit_code)}); its last lines:")
        console.print(last_lines(Path(outcome.log), 12), markup=False, highlight=False)
        console.print(f"\nlog      {outcome.log}", highlight=False, soft_wrap=True)
        console.print(f"command  {_shortened(outcome.command)}", markup=False, highlight=False, soft_wrap=True)
        named = _named(run)
        runner = f" --runner {run.runner.name}" if run.runner.name != Processes.name else ""
        console.print(
            f"resume   nightshift run --resume {named}{runner}", markup=False, highlight=False, soft_wrap=True
        )
        if "reporting" in [task.name for task in run.pipeline.tasks]:
            console.print(f"report   nightshift report {named}", markup=False, highlight=False, soft_wrap=True)


def show_summary(summary: dict[str, Any], folder: Path, console: Console) -> None:
    """Print a run's metrics and verdicts, the path of its report, and the next command."""
    if summary["models"]:
        console.print(_metrics(summary))
    for name, verdict in summary["verdicts"].items():
        if verdict is None:
            continue
        said = verdict["decision"]
        console.print(f"[bold]{name}[/]: {said}. {' '.join(verdict['reasons'])}", highlight=False, soft_wrap=True)
    if repeat := summary.get("repeat"):
        said = f"[bold]repeat[/] of {repeat['run']}: {' '.join(repeat['reasons'])}"
        console.print(said, highlight=False, soft_wrap=True)
    console.print(f"\nreport   {folder / 'report.html'}", highlight=False, soft_wrap=True)
    console.print(f"summary  {folder / 'summary.json'}", highlight=False, soft_wrap=True)
    if "model_card" in summary["links"]:
        console.print(f"card     {summary['links']['model_card']}", highlight=False, soft_wrap=True)
    if summary.get("curl"):
        console.print("\nscore an event on the running endpoint (make stop ends it):")
        console.print(summary["curl"], markup=False, highlight=False, soft_wrap=True)


def show_watch(folder: Path, console: Console) -> None:
    """Print what a run without a summary has scored, and what monitoring has decided."""
    scores, request = watch(folder)
    if scores:
        newest, details = scores["partitions"][-1], scores["details"]
        said = f"{newest['rows']:,} events scored by version {details['version']}, {details['flagged']:,} flagged"
        console.print(f"{newest['date']}: {said}", highlight=False)
        console.print(f"scores   {newest['uri']}", highlight=False, soft_wrap=True)
    if request:
        audit = json.loads((folder / "run.json").read_text())["parameters"]["state"]["audit"]
        console.print(f"drift    {folder / 'drift/drift/evidently.html'}", highlight=False, soft_wrap=True)
        console.print(f"audit    {audit}/{request['key']}.json", highlight=False, soft_wrap=True)
        console.print(f"[bold]monitoring[/]: {request['reason']}", highlight=False, soft_wrap=True)


def next_pipeline(folder: Path) -> str | None:
    """Return the pipeline that a run without a summary asks for, or None."""
    scores, request = watch(folder)
    if request:
        return "training" if request["retrain"] else None
    return "monitoring" if scores else None


def watch(folder: Path) -> list[dict[str, Any]]:
    """Return a run's manifest of the champion's scores and its request, each empty where there is none."""
    paths = (folder / "scoring-of-champion/scores/scores.json", folder / "monitoring/request")
    return [json.loads(path.read_text()) if path.exists() else {} for path in paths]


def _metrics(summary: dict[str, Any]) -> Table:
    rows = summary["rows"]
    title = f"{summary['logical_date']}: {rows['test']:,} test rows, {rows['test_positives']:,} positives"
    table = Table(title=title, title_justify="left")
    table.add_column("model", no_wrap=True)
    columns = list(next(iter(summary["models"].values()), {}))
    for column in columns:
        table.add_column(column.removeprefix("card_").replace("_", " "), justify="right")
    for name, metrics in summary["models"].items():
        mark = " (selected)" if name == summary.get("selected") else ""
        table.add_row(name + mark, *["-" if metrics[c] is None else f"{metrics[c]:.3f}" for c in columns])
    return table


def _named(run: Run) -> str:
    """Return the words by which a command finds a run from here."""
    workspace = run.folder.parent.parent
    place = [] if workspace.resolve() == Path.cwd() else ["--workspace", str(workspace)]
    return shlex.join([run.folder.name, *place])


def _reason(code: int) -> str:
    if code < 0:
        return f"ended by signal {-code}" + (", often out of memory" if code == -9 else "")
    return f"exit code {code}"


def _shortened(command: list[str]) -> str:
    return " ".join(word if len(word) < 120 else f"{word[:60]}...({len(word)} characters)" for word in command)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
