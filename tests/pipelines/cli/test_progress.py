"""What the terminal shows of a run's page."""

from pathlib import Path

import pytest
from rich.console import Console

from nightshift.contracts.section import (
    Code,
    Estimate,
    Link,
    Links,
    Page,
    Row,
    Section,
    SectionOutcome,
    TableBlock,
    TableColumn,
    Text,
)
from pipelines.cli.page import show_page

COLUMNS = [TableColumn(title="Candidate"), TableColumn(title="Average precision", format="score")]
ROWS = [Row(cells=["trees", Estimate(value=0.6, low=0.5, high=0.7)], tag="selected"), Row(cells=["[bold]line", None])]
PAGE = Page(
    use_case="tiny",
    run="tiny-training-1",
    headline=SectionOutcome(headline="Version 3 is live", label="promoted", reasons=["It is better."]),
    outcomes=[
        ("Drift", SectionOutcome(headline="", label="fail", reasons=[f"Input {number} moved." for number in range(5)]))
    ],
    sections=[
        Section(
            title="Model quality",
            weight=1,
            blocks=[
                TableBlock(title="Metrics", columns=COLUMNS, rows=ROWS, is_key=True),
                TableBlock(title="Slices", columns=COLUMNS, rows=[]),
                Text(sentences=["Only the page says this."]),
                Links(title="Model card", links=[Link(name="card", uri="/runs/card.md")], is_key=True),
                Code(title="Score an event", text="curl -s [::1]", is_key=True),
            ],
        )
    ],
)


def test_the_terminal_shows_the_headline_key_blocks_and_where_the_report_lies(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_page(PAGE, Path("runs/one"), Console(width=100))
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1:3] == ["Version 3 is live", "  It is better."]
    assert "trees (selected)  0.600 [0.50, 0.70]" in lines
    assert [line.split() for line in lines if "line" in line] == [["[bold]line", "-"]]
    assert {"report   runs/one/report.html", "card     /runs/card.md", "Score an event:", "curl -s [::1]"} <= set(lines)
    assert not {"Slices", "Only the page says this."} & set(lines)


def test_three_reasons_are_printed_and_the_others_counted(capsys: pytest.CaptureFixture[str]) -> None:
    show_page(PAGE, Path("runs/one"), Console(width=100))
    printed = capsys.readouterr().out.split("Drift: fail\n")[1]
    assert printed.splitlines()[:4] == [*(f"  Input {number} moved." for number in range(3)), "  2 more in the report"]
