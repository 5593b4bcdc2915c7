"""The output of a backfill: each day's progress, then a row a day."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nightshift.contracts.listings import BackfilledRun, BackfillReport
from nightshift.contracts.section import Estimate, Fact, read_page
from nightshift.figures import format_value
from nightshift.printable import printable
from pipelines.cli.progress import RunProgress, explain_failure
from pipelines.engines.local.backfill import BackfilledDay
from pipelines.engines.local.run import Run

TEXTS = ("date", "state")


@contextmanager
def progress(run: Run, dates: list[str], console: Console) -> Iterator[RunProgress]:
    """Show the run of one of the days while it goes on, and why it failed if it did."""
    day = run.arguments["date"]
    console.print(f"\n[bold]{day}[/] ({dates.index(day) + 1} of {len(dates)}), run {run.folder.name}", highlight=False)
    with RunProgress(run.pipeline, console) as shown:
        yield shown
    explain_failure(run, console)


def table(days: list[BackfilledDay]) -> Table:
    """Return the days with the highlights of their runs, a column each."""
    table = Table(title="backfill", title_justify="left")
    rows = [{"date": day.date, "state": day.state} | _figures(day.folder) for day in days]
    columns = list(dict.fromkeys(column for row in rows for column in row))
    for column in columns:
        table.add_column(
            Text(printable(column)), justify="left" if column in TEXTS else "right", no_wrap=column in TEXTS
        )
    for row in rows:
        table.add_row(*[Text(row.get(column, "")) for column in columns])
    return table


def describe(days: list[BackfilledDay]) -> BackfillReport:
    """Return the days as a document."""
    runs = [
        BackfilledRun(date=day.date, state=day.state, run=day.folder.name, highlights=_highlights(day.folder))
        for day in days
    ]
    return BackfillReport(days=runs)


def _figures(folder: Path) -> dict[str, str]:
    """Return the highlights of a run's report, column -> text."""
    return {fact.label.lower(): _short(fact) for fact in _highlights(folder)}


def _highlights(folder: Path) -> list[Fact]:
    """Return the highlights of a run's report; none where it has no report."""
    page = read_page(str(folder))
    return list(page.highlights) if page else []


def _short(fact: Fact) -> str:
    value = fact.value.value if isinstance(fact.value, Estimate) else fact.value
    return format_value(value, fact.format)
