"""No value of the data becomes markup: each sink is read by a real parser, which gives the value back as text."""

import html
import io
import json
import logging
import re
import shlex
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from components.drift import evidently_report
from components.ingestion import core
from components.reporting import report
from nightshift.config import parse
from nightshift.config.policy import DriftLimits
from nightshift.contracts import section as blocks
from nightshift.contracts.section import Fact, Page, Row, Section, SectionOutcome, TableColumn
from nightshift.runtime import step, telemetry
from nightshift.runtime.errors import UserError
from nightshift.runtime.printable import printable, printable_lines
from nightshift.tasks import columns, markdown
from nightshift.tasks.examples import ScoredExample
from pipelines.cli import page as pages
from tests.components import samples

HOSTILE = [
    "<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "</title></textarea></style><b>x", "<!--",
    "]]>", '" onmouseover="alert(1)', "' autofocus x='", "&lt;i&gt;", "&#60;b>", "{{ 7 * 7 }}", "{% raw %}", "a | b",
    "| a | b |", "`code`", "``", "**bold**", "_em_", "~~gone~~", "[link](http://x)", "![i](x.png)", "[a]: http://x",
    "[^1]", "[x] done",
    "# heading", "- item", "+ item", "* item", "12. item", "3) item", "> quote", "---", "===", "line\nbreak\n\n# new",
    "\r\n## new", "\ttab", "\x1b[31mred\x1b[0m", "\x1b]8;;http://x\x07link", "\x9b31m", "\x08\x08", "[red]red[/red]",
    "[/]", "[link=http://x]y[/link]", "\\[red]", ":bomb:", "=HYPERLINK(1)", "\u202etxt.exe", "a\u2028b", "$(id)",
    "'; id; '", "$x$", "\\", "plain", "née Ω 金",
]  # fmt: skip
PIXEL = "iVBORw0KGgo="


class Elements(HTMLParser):
    """What a browser takes a page for: its elements with their attributes' names, its text, and its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: Counter = Counter()
        self.text, self.values = "", []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs) -> None:
        if tag != "wbr":  # where a path may be broken, which depends on its text
            self.tags[tag, tuple(sorted(name for name, _ in attrs))] += 1
        self.values += [value for _, value in attrs if value]

    def handle_data(self, data) -> None:
        self.text += data

    def handle_comment(self, data) -> None:
        self.tags["comment", ()] += 1


def section(value: str, folder: Path) -> Section:
    """Every kind of block, with the value wherever there is text."""
    axis, fact = blocks.Axis(label=value, ticks=[0, 1]), Fact(label=value, value=value, note=value)
    columns, row = (
        [TableColumn(title=value), TableColumn(title=value, format="code")],
        Row(cells=[value, value], tag=value),
    )
    series = blocks.Series(name=value, style="points", points=[(0, 0)], notes=[value])
    links = [blocks.Link(name=value, uri=uri) for uri in ("s3://elsewhere", f"{folder}/file")]
    every = [
        blocks.Text(sentences=[value, value]),
        blocks.Notice(title=value, sentences=[value]),
        blocks.TableBlock(title=value, columns=columns, rows=[row] * 3, shown=1, is_key=True),
        blocks.Facts(facts=[fact, Fact(label="", value=blocks.Estimate(value=1, low=0, high=2))]),
        blocks.Chart(title=value, x=axis, y=axis, series=[series]),
        blocks.Bars(title=value, labels=[value], heights=[1.0]),
        blocks.Pictures(title=value, pictures=[blocks.Picture(png=PIXEL, caption=value, note=value)]),
        blocks.Links(title=value, links=links, is_key=True),
        blocks.Code(title=value, text=value),
        blocks.FoldedBlocks(title=value, blocks=[blocks.Text(sentences=[value])]),
    ]
    outcome = SectionOutcome(headline=value, label=value, reasons=[value] * 5)
    return Section(title=value, weight=1, outcome=outcome, highlights=[fact], blocks=every)


@pytest.mark.parametrize("value", HOSTILE)
def test_a_page_shows_it_as_text(value, tmp_path):
    plain, page = (Elements(report.alone(section(text, tmp_path), str(tmp_path))) for text in ("plain", value))
    assert page.tags == plain.tags
    # a carriage return is a newline by the time HTML is parsed
    times = Elements(report.alone(section("plain", tmp_path), str(tmp_path))).text.count("plain")
    # a cell shows escapes for what ends a line, moves a cursor, or hides or turns text
    assert sum(map(page.text.count, {value, printable(value)})) >= times


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Evidently's own
def test_evidently_s_page_has_no_element_of_the_data_s():
    def rendered(values: list[str]) -> Elements:
        rows = pd.DataFrame({"channel": values * 2, "score": np.linspace(0, 1, 2 * len(values))})
        return Elements(evidently_report.render(rows, rows.iloc[::-1], ["score"], DriftLimits()))

    page = rendered(HOSTILE)
    assert page.tags == rendered(["a", "b"] * 50).tags
    (first, second) = re.findall(r"^ *var \w+ = (.*);$", page.text, re.MULTILINE)[:2]
    assert not re.search(r"[<>&\u2028\u2029]", first + second)

    def texts(value):
        if isinstance(value, dict | list):
            for nested in value.values() if isinstance(value, dict) else value:
                yield from texts(nested)
        elif isinstance(value, str):
            yield value

    # Plotly, which reads tags and entities in labels, shows these
    shown = {html.unescape(text) for text in texts([json.loads(first), json.loads(second)]) if "<" not in text}
    assert {printable(value) for value in HOSTILE} <= shown


@pytest.mark.parametrize("value", HOSTILE)
def test_a_markdown_page_shows_it_as_text(value):
    def tokens(value: str) -> list:
        rows = markdown.table((value, value), [(value, value), (markdown.strong(value), value)])
        lines = [*markdown.items([value, markdown.line("key: ", markdown.strong(value))]), "", value, "", *rows]
        parsed = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown.page(value, {value: lines}))
        return [part for token in parsed for part in (token.children or [token])]

    def shape(tokens: list) -> list:
        return [token.type for token in tokens if token.type not in ("text", "text_special")]

    parsed = tokens(value)
    assert shape(parsed) == shape(tokens("plain"))
    text = "".join(token.content for token in parsed)
    assert text.count(printable(value).strip()) >= 11


@pytest.mark.parametrize("value", HOSTILE)
def test_code_in_markdown_is_the_value_and_nothing_else(value):
    (paragraph,) = [
        token for token in MarkdownIt().parse(markdown.line("Model: ", markdown.code(value))) if token.children
    ]
    assert [child.type for child in paragraph.children] == ["text", "code_inline"]
    assert paragraph.children[1].content.strip() == printable(value).strip()


def printed(value: str, folder: Path) -> str:
    shown = section(value, folder)
    page = Page(use_case="x", run="r", headline=shown.outcome, outcomes=[(value, shown.outcome)], sections=[shown])
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system="truecolor", width=2000, legacy_windows=False)
    pages.show_page(page, folder, console)
    return stream.getvalue()


@pytest.mark.parametrize("value", HOSTILE)
def test_a_terminal_shows_it_and_does_not_obey_it(value, tmp_path):
    codes = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;.*?\x1b\\")
    text, plain = printed(value, tmp_path), printed("plain", tmp_path)
    assert Counter(codes.findall(text)) == Counter(codes.findall(plain))
    shown = codes.sub("", text)
    assert shown.count("\n") == plain.count("\n")
    assert shown.replace("\n", "").isprintable()
    assert shown.count(printable(value).strip()) >= 9


@pytest.mark.parametrize("value", HOSTILE)
def test_a_log_s_record_is_a_line(value):
    record = logging.LogRecord("nightshift", logging.INFO, "", 1, "of %s", (value,), None)
    assert step.LineFormatter().format(record) == f"of {printable(value)}"
    assert step.LineFormatter().format(record).isprintable()


@pytest.mark.parametrize("value", HOSTILE)
def test_a_message_about_the_data_has_its_own_lines_only(value):
    config = parse(samples.CONFIG)
    row = dict.fromkeys(config.columns.roles, value) | {core.REASON: "bad_amount"}
    (example,) = core.examples([pd.DataFrame([row])], config, "bad_amount")
    assert example.isprintable()
    with pytest.raises(UserError) as error:
        columns.require(pd.DataFrame({value: [1]}), config.columns)
    assert printable(value)[:500] in str(error.value)
    assert str(error.value).isprintable()
    assert printable_lines(f"{error.value}\n  {value}").count("\n") == 1 + value.count("\n")


def test_labels_of_metrics_are_one_line_short_and_few():
    registry = CollectorRegistry()
    few = {value: float(number) for number, value in enumerate(HOSTILE)}
    many = {f"column {number} {'x' * 200}": float(number) for number in range(1000)}
    registry.register(telemetry._Gauges({"drift": {"psi": few, "effect": many}}))
    psi, effect = text_string_to_metric_families(generate_latest(registry).decode())
    assert {sample.labels["name"]: sample.value for sample in psi.samples} == {printable(key): few[key] for key in few}
    assert len(effect.samples) == telemetry.LABELS
    assert {len(sample.labels["name"]) for sample in effect.samples} == {telemetry.LABEL_LENGTH}
    assert {sample.value for sample in effect.samples} == set(map(float, range(800, 1000)))


@pytest.mark.parametrize("value", HOSTILE)
def test_the_command_to_paste_is_one_command_with_the_value_in_it(value):
    example = ScoredExample("instances", {"channel": value}, 0.5)
    words = shlex.split(example.curl("http://127.0.0.1:1"))
    assert json.loads(words[-1]) == example.request
    assert words[:2] == ["curl", "-s"]
