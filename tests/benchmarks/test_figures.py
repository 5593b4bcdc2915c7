"""Figures that benchmarks record and pages show."""

import json
import re

import pytest

from benchmarks import figures

SUBJECTS = json.loads(figures.FILE.read_text())
ENTRY = figures.SubjectFigures(
    command="python -m benchmarks.speed",
    date="2026-11-26",
    machine="2 quiet cores",
    note="A note.",
    rows=[{"what": "ours", "s": 0.12345, "rows": 1234567}, {"what": "a | b", "s": 12.0}],
)


@pytest.mark.parametrize("page", figures.PAGES, ids=lambda page: page.name)
def test_the_pages_show_what_was_recorded(page):
    text = page.read_text()

    assert figures.fill(text, SUBJECTS) == text, "run `make figures`"


def test_every_recorded_subject_is_on_a_page():
    shown = {subject for page in figures.PAGES for _, subject, _ in figures.BLOCK.findall(page.read_text())}

    assert shown == set(SUBJECTS)


def test_no_table_with_figures_is_typed():
    typed = figures.BLOCK.sub("", (figures.ROOT / "docs" / "reference" / "benchmarks.md").read_text())

    assert re.findall(r"^\|.*\d.*$", typed, re.MULTILINE) == []


def test_a_subject_is_a_table_and_a_line_that_says_how_when_and_where_it_was_measured():
    page = figures.fill("Before\n<!-- figures: speed -->\nold\n<!-- end of figures -->\nafter\n", {"speed": ENTRY})

    assert page.splitlines() == [
        "Before",
        "<!-- figures: speed -->",
        "",
        "| what | s | rows |",
        "| --- | ---: | ---: |",
        "| ours | 0.123 | 1,234,567 |",
        "| a \\| b | 12 |  |",
        "",
        "`python -m benchmarks.speed`, 2026-11-26, 2 quiet cores. A note.",
        "",
        "<!-- end of figures -->",
        "after",
    ]


def test_a_sentence_shows_one_figure_of_a_subject():
    sentence = "It takes <!-- figure: speed | ours | s -->9<!-- end --> s."

    assert figures.fill(sentence, {"speed": ENTRY}) == sentence.replace("9", "0.123")


@pytest.mark.parametrize(
    ("page", "missing"),
    [
        ("<!-- figures: size -->\n<!-- end of figures -->", "size"),
        ("<!-- figure: speed | theirs | s --><!-- end -->", "theirs"),
        ("<!-- figure: speed | ours | MB --><!-- end -->", "MB"),
    ],
)
def test_a_page_that_names_what_was_not_recorded_is_an_error(page, missing):
    with pytest.raises(KeyError, match=missing):
        figures.fill(page, {"speed": ENTRY})


def test_what_is_recorded_replaces_the_subject_and_no_other_one(tmp_path):
    file = tmp_path / "figures.json"
    file.write_text(json.dumps({"speed": {"rows": []}, "drift": {"rows": [1]}}))

    figures.record(file, "speed", ENTRY)

    assert json.loads(file.read_text()) == {"drift": {"rows": [1]}, "speed": ENTRY}


def test_a_casual_run_of_a_benchmark_only_prints(monkeypatch, capsys):
    monkeypatch.delenv(figures.RECORD, raising=False)
    before = figures.FILE.read_text()

    figures.publish("speed", ENTRY["rows"], "A note.")

    assert "1,234,567" in capsys.readouterr().out
    assert figures.FILE.read_text() == before
