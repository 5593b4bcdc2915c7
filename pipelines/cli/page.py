"""The report of a run on the terminal."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nightshift.contracts.section import Link, Page
from nightshift.contracts.section import TableBlock as Block
from nightshift.stats.figures import format_value
from pipelines.cli.progress import plain_text

FILES = {"report": "report.html", "summary": "summary.json"}
REASONS = 3  # shown of an outcome; the report has them all


def show_page(page: Page, folder: Path, console: Console) -> None:
    """Print the report of a run in short: what became of it, the key tables, where to look and what to paste."""
    console.print()
    console.print(plain_text(page.headline.headline, "bold"), highlight=False, soft_wrap=True)
    _list(page.headline.reasons, console)
    for table in page.key_tables:
        console.print(_make_table(table))
    for title, outcome in page.outcomes:
        line = Text.assemble(plain_text(title, "bold"), ": ", plain_text(outcome.label))
        console.print(line, highlight=False, soft_wrap=True)
        _list(outcome.reasons, console)
    console.print()
    links = [Link(name=name, uri=str(folder / file)) for name, file in FILES.items()]
    for link in [*links, *(link for block in page.key_links for link in block.links)]:
        console.print(plain_text(f"{link.name:8} {link.uri}"), highlight=False, soft_wrap=True)
    for code in page.key_codes:
        console.print(f"\n{code.title}:\n{code.text}", markup=False, emoji=False, highlight=False, soft_wrap=True)


def _list(sentences: list[str], console: Console) -> None:
    for sentence in sentences[:REASONS]:
        console.print(plain_text(f"  {sentence}"), highlight=False, soft_wrap=True)
    if len(sentences) > REASONS:
        console.print(f"  {len(sentences) - REASONS} more in the report", highlight=False)


def _make_table(block: Block) -> Table:
    table = Table(title=plain_text(block.title), title_justify="left", box=None, padding=(0, 2, 0, 0))
    for column in block.columns:
        # names are shown whole; headings and intervals wrap on a narrow terminal
        table.add_column(
            plain_text(column.title), justify="left" if column.is_text else "right", no_wrap=column.is_text
        )
    for row in block.rows:
        cells = [format_value(cell, column.format) for cell, column in zip(row.cells, block.columns, strict=True)]
        table.add_row(*map(plain_text, [f"{cells[0]} ({row.tag})" if row.tag else cells[0], *cells[1:]]))
    return table
