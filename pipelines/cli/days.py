"""The output of a backfill: each day's progress, then a row a day."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nightshift.contracts.listings import BackfilledRun, BackfillReport
from nightshift.contracts.section import Estimate, Fact, read_page
from nightshift.runtime.printable import printable
from nightshift.stats.figures import format_value
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


def tables(days: list[BackfilledDay], width: int) -> Iterator[Table]:
    """Yield the days with the highlights of their runs, a column each, in as many tables as the width makes necessary.

    Args:
        days: what a backfill has done.
        width: characters of a line.
    """
    rows = [{"date": day.date, "state": day.state} | _figures(day.folder) for day in days]
    columns = {column: _column_width(column, rows) for row in rows for column in row}
    texts = [column for column in columns if column in TEXTS]
    figures = [column for column in columns if column not in TEXTS]
    while figures or texts:
        shown, room = list(texts), width - 1 - sum(columns[column] for column in texts)
        while figures and (len(shown) == len(texts) or columns[figures[0]] <= room):
            room -= columns[figures[0]]
            shown.append(figures.pop(0))
        yield _table(shown, rows)
        texts = texts if figures else []


def _table(columns: list[str], rows: list[dict[str, str]]) -> Table:
    table = Table(title="backfill", title_justify="left")
    for column in columns:
        table.add_column(
            Text("\n".join(_heading(column))), justify="left" if column in TEXTS else "right", no_wrap=True
        )
    for row in rows:
        table.add_row(*[Text(row.get(column, "")) for column in columns])
    return table


def _column_width(column: str, rows: list[dict[str, str]]) -> int:
    """Return the characters that a column takes, with the padding and the line beside it."""
    return max(map(cell_len, [*_heading(column), *(row.get(column, "") for row in rows)])) + 3


def _heading(column: str) -> list[str]:
    return printable(column).split() or [""]


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
