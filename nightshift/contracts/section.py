"""What a step contributes to the page of its run: a section, as data and not HTML.

A section lies beside the artifact it is about, as `<artifact>.section.json`: where a step is reused, so is its section,
and the artifact's hash does not depend on what is said about it. The reporting step renders the sections it finds.
"""

from collections.abc import Iterable, Iterator
from math import floor, log10
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from nightshift import storage
from nightshift.contracts.artifact import Artifact, Part
from nightshift.contracts.verdict import Decision, Verdict

SUFFIX = ".section.json"
PAGE = "page.json"
TOPS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)  # where axes end, times a power of ten: a quarter has few digits

Scale = Literal["linear", "sqrt", "log"]
Tone = Literal["good", "neutral", "bad"]
Format = Literal["text", "code", "count", "score", "percent", "seconds", "size", "flops", "plain"]


class Estimate(Part):
    """A value with its interval."""

    value: float
    low: float
    high: float


Cell = str | int | float | Estimate | None


class Fact(Part):
    """One labeled value: a number in the unit of its format, or a text."""

    label: str
    value: Cell
    format: Format = "text"
    note: str = ""


class Text(Part):
    """Sentences; the rest of a long list is folded."""

    kind: Literal["text"] = "text"
    sentences: list[str]
    is_fine_print: bool = False


class Notice(Part):
    """What a reader has to know before using the figures, such as caveats."""

    kind: Literal["notice"] = "notice"
    title: str
    sentences: list[str]


class Facts(Part):
    """Labeled values, side by side."""

    kind: Literal["facts"] = "facts"
    facts: list[Fact]


class TableColumn(Part):
    """A column of a table.

    Attributes:
        title: its heading.
        format: of its values.
        has_bars: whether a bar shows each value beside the largest one.
        limit: is marked on the bars; a value above it stands out.
    """

    title: str
    format: Format = "text"
    has_bars: bool = False
    limit: float | None = None

    @property
    def is_text(self) -> bool:
        """Whether it holds words and not numbers."""
        return self.format in ("text", "code")


class Row(Part):
    """A row of a table, a cell per column; the first one is the row's heading, to which the tag is added."""

    cells: list[Cell]
    tag: str = ""
    tone: Tone = "neutral"


class TableBlock(Part):
    """A table.

    Attributes:
        title: its caption.
        columns: at least one.
        rows: with as many cells as there are columns.
        shown: rows before the rest is folded; all by default.
        is_key: whether the terminal and Kubeflow's overview show it too.
    """

    kind: Literal["table"] = "table"
    title: str
    columns: list[TableColumn]
    rows: list[Row]
    shown: int | None = None
    is_key: bool = False

    @model_validator(mode="after")
    def _rows_fit(self) -> Self:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"row {row.cells[:1]} of {self.title!r} has {len(row.cells)} cells, not "
                                 f"{len(self.columns)}")  # fmt: skip
        return self


class Axis(Part):
    """An axis of a chart, from the first of its ticks to the last one.

    `sqrt` keeps small shares apart, `log` magnitudes, whose ticks are above 0.
    """

    label: str
    ticks: Annotated[list[float], Field(min_length=2)]
    scale: Scale = "linear"

    @classmethod
    def from_zero(cls, label: str, values: Iterable[float], scale: Scale = "linear") -> Self:
        """Return an axis of five round ticks, from 0 to the largest of some values or just beyond."""
        largest = max([0.0, *values]) or 1.0
        power = 10.0 ** floor(log10(largest))
        top = next(power * multiple for multiple in TOPS if power * multiple >= largest * 0.999)
        return cls(label=label, ticks=[round(top * part / 4, 12) for part in range(5)], scale=scale)

    @model_validator(mode="after")
    def _logarithms_exist(self) -> Self:
        if self.scale == "log" and min(self.ticks) <= 0:
            raise ValueError(f"{self.label!r} has ticks {self.ticks}; those of a log scale are above 0")
        return self


class Series(Part):
    """Points of a chart: (x, y) each, in the axes' units; `notes` are shown on hovering, one per point."""

    name: str
    style: Literal["line", "reference", "points"] = "line"
    points: list[tuple[float, float]]
    notes: list[str] = Field(default_factory=list)


class Chart(Part):
    """Series over two numeric axes."""

    kind: Literal["chart"] = "chart"
    title: str
    x: Axis
    y: Axis
    series: list[Series]


class Bars(Part):
    """A value per category, such as a day."""

    kind: Literal["bars"] = "bars"
    title: str
    labels: list[str]
    heights: list[float]
    format: Format = "count"
    limit: float | None = None

    @model_validator(mode="after")
    def _bars_have_labels(self) -> Self:
        if len(self.labels) != len(self.heights):
            raise ValueError(f"{self.title!r} has {len(self.heights)} bars and {len(self.labels)} labels")
        return self


class Link(Part):
    """A file to look at."""

    name: str
    uri: str


class Links(Part):
    """Files to look at."""

    kind: Literal["links"] = "links"
    title: str
    links: list[Link]
    is_key: bool = False


class Code(Part):
    """Text to copy, such as a command."""

    kind: Literal["code"] = "code"
    title: str
    text: str
    is_key: bool = False


class Picture(Part):
    """An image in a page.

    Attributes:
        png: its bytes, in base64.
        caption: what there is to see.
        note: what it is of, such as an id.
    """

    png: str
    caption: str
    note: str = ""


class Pictures(Part):
    """Images, side by side."""

    kind: Literal["pictures"] = "pictures"
    title: str
    pictures: list[Picture]


class FoldedBlocks(Part):
    """Blocks that are shown on demand."""

    kind: Literal["fold"] = "fold"
    title: str
    blocks: list["Block"]


Block = Annotated[
    Text | Notice | Facts | TableBlock | Chart | Bars | Pictures | Links | Code | FoldedBlocks,
    Field(discriminator="kind"),
]


class SectionOutcome(Part):
    """What became of something, and why.

    Attributes:
        headline: a line that can stand over the whole page.
        label: one or two words for a list of outcomes; empty to stay out of it.
        tone: whether that is good news.
        reasons: sentences.
        next: the pipeline that should follow, if any.
    """

    headline: str
    label: str = ""
    tone: Tone = "neutral"
    reasons: list[str] = Field(default_factory=list)
    next: str | None = None

    @classmethod
    def from_verdict(cls, verdict: Verdict, headline: str) -> Self:
        """Return the outcome that a gate's verdict is."""
        tones: dict[Decision, Tone] = {Decision.PASS: "good", Decision.FAIL: "bad", Decision.UNDECIDED: "neutral"}
        tone: Tone = "bad" if verdict.caveat else tones[verdict.decision]
        first = " ".join(filter(None, [verdict.caveat, headline]))
        return cls(headline=first, label=verdict.decision, tone=tone, reasons=verdict.reasons)


class Section(Artifact):
    """What one step has to show.

    Attributes:
        title: its heading.
        weight: sections come in ascending order; the first one with an outcome gives the page its headline.
        outcome: what became of the step's subject, where something was decided or done.
        highlights: a few figures for the top of the page.
        blocks: the rest.
    """

    title: str
    weight: int
    outcome: SectionOutcome | None = None
    highlights: list[Fact] = Field(default_factory=list)
    blocks: list[Block] = Field(default_factory=list)


class Page(Artifact):
    """The report of a run as data: what HTML, Markdown and the terminal are made from.

    Attributes:
        use_case: name of the config.
        run: the run's id.
        headline: the first thing to know.
        outcomes: a section's title and its outcome, without the headline's own and what that says already.
        sections: in their order.
    """

    use_case: str
    run: str
    headline: SectionOutcome
    outcomes: list[tuple[str, SectionOutcome]]
    sections: list[Section]

    @property
    def highlights(self) -> list[Fact]:
        """A few figures of all sections."""
        return [fact for section in self.sections for fact in section.highlights]

    @property
    def key_tables(self) -> list[TableBlock]:
        """The tables that a short report shows too."""
        return [block for block in self._blocks() if isinstance(block, TableBlock) and block.is_key]

    @property
    def key_codes(self) -> list[Code]:
        """The commands that a short report shows too."""
        return [block for block in self._blocks() if isinstance(block, Code) and block.is_key]

    @property
    def key_links(self) -> list[Links]:
        """The files that a short report names too."""
        return [block for block in self._blocks() if isinstance(block, Links) and block.is_key]

    def _blocks(self) -> Iterator[Block]:
        return (block for section in self.sections for block in section.blocks)


def write_section(artifact: str, section: Section) -> None:
    """Write the section about an artifact.

    Args:
        artifact: URI of the file or folder that the step has written.
        section: what it has to show.
    """
    section.write(section_uri(artifact))


def read_section(artifact: str) -> Section | None:
    """Return the section about an artifact, None where there is none.

    Raises:
        UserError: when there is something else in its place.
    """
    uri = section_uri(artifact)
    return Section.read(uri) if storage.exists(uri) else None


def read_page(folder: str) -> Page | None:
    """Return the page of a run, None where it has none.

    Args:
        folder: URI of the run's folder.

    Raises:
        UserError: when there is something else in its place.
    """
    uri = storage.join(folder, PAGE)
    return Page.read(uri) if storage.exists(uri) else None


def section_uri(artifact: str) -> str:
    """Return where the section about an artifact lies."""
    return artifact.rstrip("/") + SUFFIX
