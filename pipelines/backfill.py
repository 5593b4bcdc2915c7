"""Run a pipeline for many past days, one after the other, leaving out those that are complete already."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from components.common.errors import UserError
from pipelines import ir, runs
from pipelines.environments import Environment
from pipelines.local import Run
from pipelines.progress import Progress, explain_failure


@dataclass(frozen=True)
class Day:
    """What became of one day: `complete` (nothing to do), `done`, `resumed` (and done) or `failed`."""

    date: str
    state: str
    folder: Path


def days(first: date, last: date) -> list[str]:
    """Return the days of a closed range, oldest first.

    Raises:
        UserError: when the range is empty or reaches beyond the last complete day.
    """
    if first > last:
        raise UserError(f"--from is {first} and --to is {last}; give the older day first")
    if str(last) > runs.yesterday():
        raise UserError(f"--to is {last}; the last complete UTC day is {runs.yesterday()}")
    return [str(first + timedelta(days=i)) for i in range((last - first).days + 1)]


def backfill(
    pipeline: ir.Pipeline,
    dates: list[str],
    options: dict[str, Any],
    environment: Environment,
    console: Console,
    force: bool = False,
) -> Iterator[Day]:
    """Run the days in order until one fails; the same call again goes on where this one stopped.

    Args:
        pipeline: the pipeline.
        dates: logical dates.
        options: the other parameters, as for one run.
        environment: where to run; its target should neither promote nor serve.
        console: where progress goes.
        force: run complete days again too.
    """
    for number, day in enumerate(dates, 1):
        fresh = runs.new(pipeline, options | {"date": day}, environment)
        earlier = _earlier(fresh)
        complete = earlier is not None and runs.record(earlier).complete
        if earlier and complete and not force:
            yield Day(day, "complete", earlier)
            continue
        run = fresh if complete or not earlier else runs.again(earlier)
        console.print(f"\n[bold]{day}[/] ({number} of {len(dates)}), run {run.folder.name}", highlight=False)
        with runs.alone(run), Progress(run.pipeline, console) as progress:
            succeeded = run.execute(progress)
        if not succeeded:
            explain_failure(run, console)
            yield Day(day, "failed", run.folder)
            return
        yield Day(day, "done" if run is fresh else "resumed", run.folder)


def table(found: list[Day]) -> Table:
    """Return the days with their rows, metrics and seconds."""
    made = Table(title="backfill", title_justify="left")
    for column in ("date", "state", "read", "quarantined", "model", "average precision", "seconds"):
        made.add_column(column, justify="left" if column in ("date", "state", "model") else "right")
    for day in found:
        made.add_row(day.date, day.state, *_figures(day.folder / "summary.json"))
    return made


def _figures(path: Path) -> list[str]:
    if not path.exists():
        return []
    summary = json.loads(path.read_text())
    metrics = summary["models"].get(summary["selected"], {})
    return [
        f"{summary['rows']['read']:,}",
        f"{sum(summary['rows']['quarantined'].values()):,}",
        str(summary["selected"]),
        f"{metrics.get('average_precision') or 0:.3f}",
        f"{sum(step['seconds'] or 0 for step in summary['steps'].values()):.1f}",
    ]


def _earlier(fresh: Run) -> Path | None:
    """Return the folder of the newest run of the same pipeline with the same arguments."""
    prefix = fresh.folder.name.rsplit("-", 1)[0]
    for folder in sorted(fresh.folder.parent.glob(f"{prefix}-*"), reverse=True):
        if (folder / "run.json").exists() and runs.record(folder).parameters == fresh.arguments:
            return folder
    return None
