"""The figures that the documentation claims: benchmarks record them, and the pages show them.

    RECORD=1 python -m benchmarks.drift   # measures, and replaces what docs/figures.json has of that benchmark
    python -m benchmarks.figures          # writes the tables of the pages anew

Between the comments `<!-- figures: drift -->` and `<!-- end of figures -->` of a page stands the table of a subject,
between `<!-- figure: daily-run | first run | seconds -->` and `<!-- end -->` one figure: of a subject, a row by its
first cell, and a column. A benchmark whose command names files is run from the repository with relative paths, since
the command is published too.
"""

import json
import os
import platform
import re
import shlex
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from rich.console import Console
from rich.table import Table

from nightshift.stats.figures import format_value

Cell = str | int | float | None
Row = Mapping[str, Cell]

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "figures.json"
SHELF = ("reference/benchmarks", "guides/infrastructure", "guides/monitoring", "getting-started/your-data")
PROJECTS = sorted((ROOT / "docs" / "projects").glob("*.md"))
PACKAGES = (ROOT / "packages" / "image-text" / "docs" / "deidentification.md",)
PAGES = (ROOT / "README.md", *(ROOT / "docs" / f"{page}.md" for page in SHELF), *PROJECTS, *PACKAGES)
BLOCK = re.compile(r"(<!-- figures: (\S+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
VALUE = re.compile(r"(<!-- figure: (\S+) \| ([^|]+) \| ([^|]+) -->)[^<]*(<!-- end -->)")
RECORD = "RECORD"  # the environment variable: benchmarks parse their words each in a way of its own
WIDTH = 120


class SubjectFigures(TypedDict):
    """What is known of a subject.

    Attributes:
        command: that measures it.
        date: when it was measured, YYYY-MM-DD, UTC.
        machine: where, and what else went on there.
        note: sentences about what the rows do not hold; may be empty.
        rows: column -> value; a number is in the unit that its column names.
    """

    command: str
    date: str
    machine: str
    note: str
    rows: list[Row]


def publish(subject: str, rows: Sequence[Row], note: str = "") -> None:
    """Print what was measured; with RECORD=1 replace the subject's figures by it.

    Args:
        subject: its name in docs/figures.json.
        rows: column -> value, at least one row.
        note: sentences about what the rows do not hold.
    """
    columns = _columns(rows)
    table = Table(title=subject, title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if _is_numeric(column, rows) else "left")
    for row in rows:
        table.add_row(*(format_cell(row.get(column)) for column in columns))
    Console().print(table, note or "")
    if os.environ.get(RECORD):
        record(FILE, subject, SubjectFigures(**_provenance(), note=note, rows=list(rows)))


def record(file: Path, subject: str, figures: SubjectFigures) -> None:
    """Replace a subject's figures in the file, the subjects in order."""
    known = json.loads(file.read_text()) | {subject: figures}
    file.write_text(json.dumps(dict(sorted(known.items())), indent=2, ensure_ascii=False) + "\n")


def fill(page: str, subjects: Mapping[str, SubjectFigures]) -> str:
    """Return a page with the figures of the subjects that it names.

    Raises:
        KeyError: when it names a subject, a row or a column without figures.
    """
    page = BLOCK.sub(lambda match: f"{match[1]}\n{render(subjects[match[2]])}\n{match[3]}", page)
    return VALUE.sub(lambda match: f"{match[1]}{look_up(subjects[match[2]], match[3], match[4])}{match[5]}", page)


def look_up(figures: SubjectFigures, name: str, column: str) -> str:
    """Return one figure, of the row with a name in its first cell."""
    rows = {next(iter(row.values())): row for row in figures["rows"]}
    return format_cell(rows[name][column])


def render(figures: SubjectFigures) -> str:
    """Return a subject as Markdown: a table, and a line that says how, when and where it was measured."""
    rows, columns = figures["rows"], _columns(figures["rows"])
    rules = ["---:" if _is_numeric(column, rows) else "---" for column in columns]
    cells = [columns, rules, *([format_cell(row.get(column)) for column in columns] for row in rows)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in cells)
    source = f"`{figures['command']}`, {figures['date']}, {figures['machine']}. {figures['note']}"
    return f"{table}\n{textwrap.fill(source, WIDTH, break_on_hyphens=False, break_long_words=False)}\n"


def format_cell(value: Cell) -> str:
    """Write a value: counts in full, measurements in three digits."""
    if value is None or isinstance(value, str):
        return (value or "").replace("|", "\\|")
    return f"{value:,}" if isinstance(value, int) else format_value(value, "plain")


def _columns(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(column for row in rows for column in row))


def _is_numeric(column: str, rows: Sequence[Row]) -> bool:
    return not any(isinstance(row.get(column), str) for row in rows)


def _provenance() -> dict[str, str]:
    command = shlex.join(["python", *sys.orig_argv[1:]])
    return {"command": command, "date": time.strftime("%F", time.gmtime()), "machine": _machine()}


def _machine() -> str:
    model = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    parts = [
        f"{len(os.sched_getaffinity(0))} cores of {model[1] if model else platform.machine()}, {memory:.0f} GiB",
        f"Python {platform.python_version()}",
        f"load {os.getloadavg()[0]:.1f}",
    ]
    if (torch := sys.modules.get("torch")) and torch.cuda.is_available():
        parts.insert(0, torch.cuda.get_device_name())
    return ", ".join(parts)


def main() -> None:
    """Write the tables of the pages anew."""
    subjects = json.loads(FILE.read_text())
    for page in PAGES:
        page.write_text(fill(page.read_text(), subjects))


if __name__ == "__main__":
    main()
