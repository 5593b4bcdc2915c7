"""The table of a backfill."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from nightshift.contracts.section import PAGE, Fact, Page, Section, SectionOutcome
from pipelines.cli import days
from pipelines.engines.local.backfill import BackfilledDay

LABELS = ("Version", "Average precision", "Champion's average precision", "Precision at 100", "Test rows", "Savings")


def finish(folder: Path, day: str) -> BackfilledDay:
    facts = [Fact(label=label, value=f"{number}{'5' * 8}") for number, label in enumerate(LABELS)]
    section = Section(title="Evaluation", weight=1, highlights=facts, blocks=[])
    headline = SectionOutcome(headline="It is better.")
    page = Page(use_case="fraud", run=day, headline=headline, outcomes=[], sections=[section])
    page.write(str(folder / day / PAGE))
    return BackfilledDay(day, "done", folder / day)


@pytest.mark.parametrize("width", [40, 80, 300])
def test_every_figure_of_every_day_is_whole_at_any_width(width: int, tmp_path: Path) -> None:
    outcomes = [finish(tmp_path, day) for day in ("2025-06-01", "2025-06-02")]
    console = Console(file=io.StringIO(), width=width)
    tables = list(days.tables(outcomes, console.width))
    console.print(*tables)
    printed = console.file.getvalue()  # type: ignore[attr-defined]  # the buffer above
    assert all(printed.count(f"{number}55555555") == len(outcomes) for number in range(len(LABELS)))
    assert "…" not in printed
    assert printed.count("2025-06-01") == len(tables)


def test_days_without_a_report_are_a_table_of_states(tmp_path: Path) -> None:
    (table,) = days.tables([BackfilledDay("2025-06-01", "failed", tmp_path)], 80)
    assert len(table.columns) == 2
