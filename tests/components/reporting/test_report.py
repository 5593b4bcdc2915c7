import json
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from components.reporting import report
from nightshift import drawing
from nightshift.contracts.section import (
    Axis,
    Bars,
    Chart,
    Code,
    Fact,
    Facts,
    FoldedBlocks,
    Link,
    Links,
    Notice,
    Picture,
    Pictures,
    Row,
    Section,
    SectionOutcome,
    Series,
    TableBlock,
    TableColumn,
    Text,
)
from tests.components.reporting.conftest import SCORES

pytestmark = pytest.mark.slow

AXIS = Axis(label="<script>", ticks=[0, 1])
SPELL = "<script>alert('&\"')</script>"
STEPS = {  # by the files that they leave
    "events": "ingestion",
    "features": "features",
    "model/model.json": "training",
    "profile/profile.json": "profiling",
    "evaluation/evaluation.json": "evaluation",
    "evaluation/verdict.json": "evaluation",
    "scores/scores.json": "scoring",
    "drift/drift.json": "drift",
    "drift/verdict.json": "drift",
    "deployment": "deployment",
}
VOID = {"meta", "br", "img"}


class Page(HTMLParser):
    """What a browser makes of the page: elements, the rows of its tables, its text and its exact figures."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.text = ""
        self.style = ""
        self.figures: list[list[str]] = []  # exact, shown
        self.feed(html.replace("<wbr>", ""))  # a place to break a line is no text
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag == "data":
            self.figures.append([dict(attrs)["value"], ""])

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if "style" in self.open:
            self.style += data
            return
        self.text += f"{data} "
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] = f"{self.rows[-1][-1]} {data.strip()}".strip()
        if "data" in self.open:
            self.figures[-1][1] += data

    def row(self, first: str) -> list[str]:
        """The first table row that begins with a text."""
        return next(row for row in self.rows if row and row[0].startswith(first))


def texts(page: Page) -> str:
    return " ".join(page.text.split())


def test_the_page_is_well_formed_and_small_and_needs_nothing_from_outside(sample):
    page = Page(html := sample.report()[1])
    assert page.open == []
    assert html.startswith("<!doctype html>")
    assert len(html.encode()) < 1_500_000
    for tag, attributes in page.elements:
        assert tag not in {"script", "link", "iframe", "img", "object", "embed", "base", "form"}
        assert not [name for name in attributes if name.startswith("on") or name in {"src", "srcset", "style"}]
        href = attributes.get("href") or ""
        assert not href.startswith("/")
        assert ":" not in href
    assert "url(" not in page.style
    assert "@import" not in page.style


def test_every_link_leads_to_a_file_below_the_run(sample):
    page = Page(sample.report()[1])
    hrefs = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    links = [unquote(href) for href in hrefs if not href.startswith("#")]
    assert "quarantine: day #41.parquet" in links
    assert "drift/drift/evidently.html" in links
    assert [link for link in links if not (sample.folder / link).is_file()] == []
    assert not [href for href in hrefs if "#" in href[1:]]


def test_the_contents_lead_to_every_section_of_the_page(sample):
    page = Page(sample.report()[1])
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a" and attributes["href"][0] == "#"]
    assert links == [
        f"#{attributes['id']}" for tag, attributes in page.elements if tag == "section" and "id" in attributes
    ]


@pytest.mark.parametrize(
    ("tiles", "columns"), [(1, 4), (5, 5), (6, 3), (7, 4), (8, 4), (9, 3), (10, 5), (12, 4), (13, 3)]
)
def test_the_last_row_of_tiles_has_the_fewest_holes(tiles, columns):
    assert drawing.tile_columns(tiles) == columns


def test_what_lies_elsewhere_is_named_but_not_linked(sample, new_run, tmp_path):
    other = new_run(tmp_path / "elsewhere", "r1")
    (artifact,) = sample.executor_input["inputs"]["artifacts"]["model"]["artifacts"]
    artifact["uri"] = other.uris["model"]
    page = Page(sample.report()[1])
    assert str(other.file("model/model.json")) in page.text
    assert not [a for _, a in page.elements if "elsewhere" in (a.get("href") or "")]


def test_the_use_case_and_the_headline_stand_in_title_and_header(sample):
    html = sample.report()[1]
    assert "<title>handbook: Version 3 is live &middot; 2018-08-14</title>" in html
    header = html.split("<header")[1].split("</header>")[0]
    assert "<strong>handbook</strong>" in header
    assert "<h1>Version 3 is live</h1>" in header
    assert "trained on older days" in header
    assert html.count("trained on older days") == 1


def test_three_reasons_are_shown_and_the_rest_is_folded(sample):
    html = sample.report()[1]
    shown, folded = html.split("<summary>2 more</summary>")
    assert "Signal 3 is" in shown
    assert "Signal 4 is" not in shown
    assert "Signal 4 is" in folded


def test_a_long_table_is_folded_after_its_first_rows(sample):
    page = Page(html := sample.report()[1])
    assert "<summary>3 more</summary>" in html
    assert page.row("is_weekend")[1] == "0.250"
    assert page.row("customer_count_1d")[1] == "0.150"


def test_figures_have_intervals_tags_and_exact_values(sample):
    page = Page(sample.report()[1])
    assert page.row("random_forest")[0] == "random_forest selected"
    assert page.row("random_forest")[1].startswith("0.658")
    assert "Average precision 0.658 [0.61, 0.70] random_forest" in texts(page)
    assert {float(value) for value, _ in page.figures} >= {score[1] for score in SCORES.values()}


def test_a_value_above_its_limit_stands_out(sample):
    assert sample.report()[1].count('class="bar hot"') == 2


def test_tables_have_headers_and_charts_have_titles(sample):
    page = Page(html := sample.report()[1])
    heads = [attributes for tag, attributes in page.elements if tag == "th"]
    assert {attributes.get("scope") for attributes in heads} == {"col", "row"}
    labels = [attributes["aria-label"] for tag, attributes in page.elements if attributes.get("role") == "img"]
    assert labels == ["Precision and recall", "Events by day"]
    assert "<title>Precision and recall: precision over recall</title>" in html
    assert "<caption>Metrics on the test days</caption>" in html
    assert "Caveats Land: 3 of 4 test rows are new." in texts(page)


@pytest.mark.parametrize(("file", "step"), list(STEPS.items()))
def test_a_report_is_made_without(sample, file, step):
    sample.file(file).unlink()
    summary, html = sample.report()
    through = file in ("evaluation/evaluation.json", "drift/drift.json")  # the verdict is there
    assert summary["status"] == ("succeeded" if through else "failed")
    assert summary["steps"][step]["state"] == ("done" if through else "skipped")
    assert ("The run is incomplete" in html) is not through
    assert Page(html).open == []


def test_a_report_is_made_of_nothing_but_the_flags(sample):
    for file in STEPS:
        sample.file(file).unlink()
    (sample.folder / "run.json").unlink()
    for path in sample.folder.rglob("*.section.json"):
        path.unlink()
    summary, html = sample.report()
    assert (summary["status"], summary["model_version"], summary["endpoint"]) == ("failed", None, None)
    assert {step["state"] for step in summary["steps"].values()} == {"skipped"}
    assert "No result from ingestion, features, training" in html


def test_a_failed_step_is_named_with_its_error_and_log(sample):
    for file in list(STEPS)[2:]:
        sample.file(file).unlink()
    record = json.loads((sample.folder / "run.json").read_text())
    steps = {name: record["steps"][name] for name in ("ingestion", "features", "training")}
    steps["training"] |= {"state": "failed", "error": "the training days hold no positive; choose another date"}
    sample.change("run.json", steps=steps)
    summary, html = sample.report()
    page = Page(html)
    assert "<h1>The run failed in training</h1>" in html
    assert "Step training failed the training days hold no positive; choose another date" in texts(page)
    assert "No result from profiling, evaluation, scoring, drift, deployment." in texts(page)
    assert ("a", {"href": "training/log.txt"}) in page.elements
    assert page.row("training")[:2] == ["training failed", "failed"]
    assert summary["steps"]["training"]["error"] == "the training days hold no positive; choose another date"
    assert summary["rows"]["read"] == 690_135


def test_missing_measures_are_said_to_be_missing(sample):
    _, complete = sample.report()
    for value in sample.executor_input["inputs"]["artifacts"].values():
        value["artifacts"][0]["metadata"] = {}
    _, bare = sample.report()
    assert "No measurements" not in complete
    assert f"No measurements arrived from {', '.join(dict.fromkeys(STEPS.values()))};" in bare


@pytest.mark.parametrize(
    ("on_cpu", "reason"),
    [({"features", "training"}, "features, training"), (set(), "nothing")],
)
def test_where_the_cpu_was_used_though_cuda_was_asked_for_is_said(sample, on_cpu, reason):
    sample.flags["device"] = "cuda"
    for value in sample.executor_input["inputs"]["artifacts"].values():
        metadata = value["artifacts"][0]["metadata"]
        metadata["device"] = "cpu" if metadata["step"] in on_cpu else "cuda"
    _, html = sample.report()
    assert f"CUDA was asked for. Computed on the CPU: {reason}." in html


def test_what_the_engine_ignored_is_listed(sample):
    text = texts(Page(sample.report()[1]))
    assert "Requests that this engine ignored training: accelerator profiling: accelerator" in text


def test_whatever_a_text_holds_is_shown_and_never_run(sample):
    """Every place where users, libraries or logs may put text."""
    blocks = [
        Text(sentences=[SPELL]),
        Notice(title=SPELL, sentences=[SPELL]),
        Facts(facts=[Fact(label=SPELL, value=SPELL, note=SPELL)]),
        TableBlock(
            title=SPELL, columns=[TableColumn(title=SPELL, format="code")], rows=[Row(cells=[SPELL], tag=SPELL)]
        ),
        Chart(title=SPELL, x=AXIS, y=AXIS, series=[Series(name="", style="points", points=[(0, 0)], notes=[SPELL])]),
        Bars(title=SPELL, labels=[SPELL], heights=[1.0]),
        Pictures(title=SPELL, pictures=[Picture(png=SPELL, caption=SPELL, note=SPELL)]),
        Links(title=SPELL, links=[Link(name=SPELL, uri=f"/elsewhere/{SPELL}")]),
        FoldedBlocks(title=SPELL, blocks=[Code(title=SPELL, text=SPELL)]),
    ]
    outcome = SectionOutcome(headline=SPELL, label=SPELL, reasons=[SPELL])
    sample.flags.update(data=SPELL)
    sample.change("run.json", ignored=[SPELL], engine=SPELL, pipeline=SPELL)
    sample.show("deployment", title=SPELL, outcome=outcome, highlights=[Fact(label=SPELL, value=SPELL)], blocks=blocks)
    html = sample.report()[1]
    assert "<script" not in html
    assert not [tag for tag, _ in Page(html).elements if tag == "script"]
    assert Page(html).text.count(SPELL) >= 25
    assert [attributes.get("aria-label") for _, attributes in Page(html).elements].count(SPELL) == 2
    assert [attributes.get("alt") for _, attributes in Page(html).elements].count(SPELL) == 1


def test_an_error_with_markup_is_shown_as_text(sample):
    record = json.loads((sample.folder / "run.json").read_text())
    record["steps"]["drift"] |= {"state": "failed", "error": SPELL}
    sample.change("run.json", steps=record["steps"])
    html = sample.report()[1]
    assert "<script" not in html
    assert SPELL in Page(html).text


def test_the_legend_of_a_chart_names_lines_and_points():
    series = [
        Series(name="limit", style="reference", points=[(0, 1), (1, 1)]),
        Series(name="tried", style="points", points=[(0.5, 0.5)]),
    ]
    chart = Chart(title="t", x=Axis(label="x", ticks=[0, 1]), y=Axis(label="y", ticks=[0, 1]), series=series)

    html = report.alone(Section(title="Any", weight=1, blocks=[chart]), "/runs/r1")

    legend = html.split('<ul class="legend">')[1].split("</ul>")[0]
    assert "limit" in legend and "<circle" in legend and "tried" in legend


def test_the_heading_over_a_bar_stands_over_its_number():
    columns = [TableColumn(title="Share", format="percent"), TableColumn(title="Score", format="score", has_bars=True)]
    table = TableBlock(title="t", columns=columns, rows=[Row(cells=[0.1, 0.5])])

    html = report.alone(Section(title="Any", weight=1, blocks=[table]), "/runs/r1")

    assert '<th scope="col">Share</th><th scope="col" colspan="2" class="barred">Score</th>' in html
    assert '<td class="n barred">' in html


def test_paper_shows_what_a_screen_folds():
    html = report.alone(Section(title="Any", weight=1), "/runs/r1")

    printed = html.split("@media print")[1].split("</style>")[0]
    assert "details::details-content" in printed and "display: none" not in printed
