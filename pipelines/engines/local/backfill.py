"""Run a pipeline for many past days, one after the other, leaving out those that are complete already."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from components.common.contracts.section import Estimate, Fact, read_page
from components.common.contracts.state import State
from components.common.errors import UserError
from components.common.figures import written
from pipelines import arguments, ir
from pipelines.engines.local import runs
from pipelines.engines.local.progress import Progress, explain_failure
from pipelines.engines.local.run import Run
from pipelines.engines.local.warm import Forks, Server

TEXTS = ("date", "state")


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
    if str(last) > arguments.yesterday():
        raise UserError(f"--to is {last}; the last complete UTC day is {arguments.yesterday()}")
    return [str(first + timedelta(days=i)) for i in range((last - first).days + 1)]


def backfill(
    pipeline: ir.Pipeline,
    dates: list[str],
    options: dict[str, Any],
    state: State,
    console: Console,
    force: bool = False,
) -> Iterator[Day]:
    """Run the days in order until one fails; the same call again resumes there.

    Args:
        pipeline: the pipeline.
        dates: logical dates.
        options: the other parameters, as for one run.
        state: where this machine keeps things; its target should neither promote nor serve.
        console: where progress goes.
        force: run complete days again too.
    """
    with Server() as server:
        for number, day in enumerate(dates, 1):
            fresh = runs.new(pipeline, options | {"date": day}, state)
            earlier = _earlier(fresh)
            complete = earlier is not None and runs.record(earlier).complete
            if earlier and complete and not force:
                yield Day(day, "complete", earlier)
                continue
            run = fresh if complete or not earlier else runs.again(earlier)
            console.print(f"\n[bold]{day}[/] ({number} of {len(dates)}), run {run.folder.name}", highlight=False)
            with runs.alone(run), Progress(run.pipeline, console) as progress:
                succeeded = replace(run, runner=Forks(server=server)).execute(progress)
            if not succeeded:
                explain_failure(run, console)
                yield Day(day, "failed", run.folder)
                return
            yield Day(day, "done" if run is fresh else "resumed", run.folder)


def table(found: list[Day]) -> Table:
    """Return the days with what their runs have to tell, a column each."""
    made = Table(title="backfill", title_justify="left")
    rows = [{"date": day.date, "state": day.state} | _figures(day.folder) for day in found]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    for column in columns:
        made.add_column(column, justify="left" if column in TEXTS else "right")
    for row in rows:
        made.add_row(*[row.get(column, "") for column in columns])
    return made


def _figures(folder: Path) -> dict[str, str]:
    """Return the highlights of a run's report, column -> text; none where it has no report."""
    page = read_page(str(folder))
    return {fact.label.lower(): _short(fact) for fact in page.highlights} if page else {}


def _short(fact: Fact) -> str:
    value = fact.value.value if isinstance(fact.value, Estimate) else fact.value
    return written(value, fact.format)


def _earlier(fresh: Run) -> Path | None:
    """Return the folder of the newest run of the same pipeline with the same arguments.

    The target of a complete run may be another: nothing of the day is missing. A run to resume would deploy to it.
    """
    prefix = fresh.folder.name.rsplit("-", 1)[0]
    found = runs.newest_first(fresh.folder.parent, f"{prefix}-")
    return next((folder for folder in found if _stands_for(runs.record(folder), fresh)), None)


def _stands_for(record: runs.Record, fresh: Run) -> bool:
    before, wanted = record.parameters, fresh.arguments
    if record.complete and "state" in wanted:
        before = before | {"state": before.get("state", {}) | {"target": wanted["state"]["target"]}}
    return before == wanted
