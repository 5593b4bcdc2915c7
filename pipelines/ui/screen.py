"""What a page of the UI shows: the blocks of reports, and links between pages."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil, floor, log10
from typing import Any
from urllib.parse import quote, urlencode

from nightshift.contracts.section import TOPS, Axis, Block, Cell, Fact, Row, TableBlock, TableColumn, Text, Tone
from pipelines.workspace import Workspace

NAME_LENGTH = 200  # characters of a name that are shown; a longer one is nobody's own
SENTENCE_LENGTH = 1000
REASON_LENGTH = 500
TICKS = 4  # parts of an axis, at most one more


@dataclass(frozen=True)
class PageLink:
    """A link to another page of the UI."""

    name: str
    href: str


class LinkedRow(Row):
    """A row whose heading is a link to a page of the UI."""

    href: str = ""


@dataclass(frozen=True)
class Box:
    """One thing to know, and the page that has more of it."""

    title: str
    label: str
    tone: Tone
    reasons: list[str]
    href: str = ""


@dataclass(frozen=True)
class PageChoice:
    """A form that leads to a page.

    Attributes:
        title: above it.
        action: URL of the page.
        fields: name -> what can be chosen, value -> text, the first beforehand.
        texts: name -> what stands in a field to write into.
        button: what it does.
    """

    title: str
    action: str
    fields: dict[str, dict[str, str]]
    texts: dict[str, str] = field(default_factory=dict)
    button: str = "Compare"


@dataclass(frozen=True)
class FormField:
    """A field of a form.

    Attributes:
        name: under which it is sent.
        label: for a person.
        type: of the HTML input.
        is_required: whether it may be empty.
        options: what can be chosen; any text where there are none.
    """

    name: str
    label: str
    type: str = "text"
    is_required: bool = True
    options: tuple[str, ...] = ()


REASON = FormField("reason", "Reason")


@dataclass(frozen=True)
class ActionForm:
    """A form by which a person changes something.

    Attributes:
        title: of its button.
        action: path of its URL.
        fields: what a person fills in.
        needs_session: whether only those see it who have logged in.
    """

    title: str
    action: str
    fields: Sequence[FormField] = (REASON,)
    needs_session: bool = True


@dataclass(frozen=True)
class PagePanel:
    """Blocks under a heading; small multiples stand closer to each other."""

    title: str
    blocks: list[Block]
    is_dense: bool = False


@dataclass(frozen=True)
class Screen:
    """A page.

    Attributes:
        title: its heading.
        lead: a line above it.
        tone: of the heading.
        reasons: sentences below it.
        links: pages about the same.
        facts: a few figures.
        boxes: what to know first.
        panels: the rest.
        choices: forms at the end.
        forms: by which a person acts.
        is_live: whether it changes while somebody looks at it.
    """

    title: str
    lead: str = ""
    tone: Tone = "neutral"
    reasons: list[str] = field(default_factory=list)
    links: list[PageLink] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    panels: list[PagePanel] = field(default_factory=list)
    choices: list[PageChoice] = field(default_factory=list)
    forms: list[ActionForm] = field(default_factory=list)
    is_live: bool = False


@dataclass(frozen=True)
class WebPage:
    """A page of the UI, at a URL of its own.

    Attributes:
        path: of its URL, with parameters in braces; its document is at the same path and `.json`.
        read: makes its document, an artifact, of a workspace and the parameters of the path and the query.
        show: makes the page of its document.
        menu: its name in the menu; empty to stay out of it.
    """

    path: str
    read: Callable[[Workspace, Mapping[str, str]], Any]
    show: Callable[[Any], Screen]
    menu: str = ""


def make_href(*parts: str, **query: Any) -> str:
    """Return the URL of a page, such as `/runs/fraud-1`; empty where a part is too long to be a name."""
    if any(len(part) > NAME_LENGTH for part in parts):
        return ""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    return f"{path}?{urlencode(query)}" if query else path


def shorten(text: str, length: int = NAME_LENGTH) -> str:
    """Return the beginning of a text, the rest as an ellipsis."""
    return text if len(text) <= length else f"{text[:length]}…"


def shorten_all(sentences: Iterable[str], most: int = 20) -> list[str]:
    """Return the beginnings of the first sentences."""
    return [shorten(sentence, SENTENCE_LENGTH) for _, sentence in zip(range(most), sentences, strict=False)]


def make_table(title: str, columns: Sequence[TableColumn], rows: Sequence[Row], empty: str) -> Block:
    """Return a table, or a sentence where it has no rows."""
    if not rows:
        return Text(sentences=[empty])
    return TableBlock(title=title, columns=list(columns), rows=list(rows))


def make_row(cells: Sequence[Cell], href: str = "", tag: str = "", tone: Tone = "neutral") -> Row:
    """Return a row with names of a readable length."""
    short = [shorten(cell) if isinstance(cell, str) else cell for cell in cells]
    return LinkedRow(cells=short, href=href, tag=tag, tone=tone)


def make_axis(label: str, values: Iterable[float], is_whole: bool = False) -> Axis:
    """Return an axis of round ticks around some values, not from 0: small changes are to be seen.

    Args:
        label: of the axis.
        values: to be within it.
        is_whole: whether they are counted, such as days, so that no tick lies between two of them.
    """
    finite = list(values) or [0.0]
    low, high = min(finite), max(finite)
    width = (high - low or abs(high) or 1.0) / TICKS
    power = 10.0 ** floor(log10(width))
    step = next(power * top for top in TOPS if power * top >= width * 0.999)
    step = ceil(step) if is_whole else step
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return Axis(label=label, ticks=[round(step * tick, 12) for tick in range(first, max(last, first + 1) + 1)])


def format_moment(moment: datetime | None) -> str:
    """Return a time in UTC to the minute, empty without one."""
    return f"{moment:%Y-%m-%d %H:%M}" if moment else ""
