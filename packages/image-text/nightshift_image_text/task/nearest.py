"""Examples of a report: images with their own report, and the reports that are nearest to them, right and wrong."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.contracts import tables
from nightshift.contracts.section import Block, Pictures, Row, TableBlock, TableColumn
from nightshift.contracts.tables import Table
from nightshift.items import drawn, tokens
from nightshift.items.shards import Array
from nightshift.items.tokens import Tokenizer
from nightshift_image_text.retrieval import Embeddings, Pairs, find_nearest

SHOWN, NEAREST = 6, 3  # images, and reports of each
WIDTH = 160  # characters of a report


@dataclass(frozen=True)
class ReportTexts:
    """Where the words of reports are: in the lake's events, beside the features that were made of them.

    Attributes:
        features: the table by day.
        tokenizer: by which a report of the lake is known as the one that the model saw.
    """

    features: Table
    tokenizer: Tokenizer
    _days: dict[str, list[tuple[str, str]]] = field(default_factory=dict, repr=False)

    def read(self, row: pd.Series, numbers: Array) -> str:
        """Return a report, cut to a line; as the tokenizer spells it where its event is gone.

        Args:
            row: of the features table: `event_id` and `event_time`.
            numbers: of its tokens, (length,).
        """
        day = str(row["event_time"].date())
        if day not in self._days:
            self._days[day] = self._read_day(day)
        texts = [text for event, text in self._days[day] if event == str(row["event_id"])]
        known = [text for text in texts if np.array_equal(self._encode(text, numbers), numbers)]
        text = known[-1] if known else tokens.decode_texts(self.tokenizer.content, numbers[None])[0]
        line = " ".join(text.split())
        return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"

    def _encode(self, text: str, numbers: Array) -> Array:
        (encoded,) = tokens.encode_texts(self.tokenizer, len(numbers), [text])
        row: Array = encoded
        return row

    def _read_day(self, day: str) -> list[tuple[str, str]]:
        """Return the ids and reports of a day's events, of every delivery; none where they have been removed."""
        part = next(part for part in self.features.partitions if part.date == day)
        folder = storage.join(part.uri.rsplit("/", 3)[0], "events", f"date={day}")
        uris = [storage.join(folder, name) for name in storage.names(folder) if name.endswith(".parquet")]
        frames = [storage.read_frame(uri, ["event_id", "report"]) for uri in uris if tables.find_partition(uri)]
        events = [(frame["event_id"].astype(str), frame["report"]) for frame in frames]
        return [pair for ids, reports in events for pair in zip(ids, reports, strict=True)]


@dataclass(frozen=True)
class NearestReports:
    """The test pairs, and what a model makes of them.

    Attributes:
        rows: of the features table.
        inputs: structured, with `pixels` and `tokens`, (n,).
        pairs: which images and reports belong together.
        embeddings: of images and reports.
        texts: the words of reports.
    """

    rows: pd.DataFrame
    inputs: Array
    pairs: Pairs
    embeddings: Embeddings
    texts: ReportTexts

    def draw(self, count: int) -> list[int]:
        """Return some rows, spread over the days."""
        return sorted({int(row) for row in np.linspace(0, len(self.rows) - 1, count)})

    def find(self, chosen: Sequence[int], count: int) -> np.ndarray:
        """Return rows with the nearest different reports of the images of some rows, (n, count)."""
        reports = self.pairs.report_rows
        nearest = find_nearest(self.embeddings.images[chosen], self.embeddings.reports[reports], count)
        rows: np.ndarray = reports[nearest]
        return rows

    def belongs(self, row: int, other: int) -> bool:
        """Return whether the image of a row belongs to the report of another."""
        return bool(self.pairs.belong[row, self.pairs.reports[other]])

    def read(self, row: int) -> str:
        """Return a row's report."""
        return self.texts.read(self.rows.iloc[row], self.inputs["tokens"][row])


def blocks(reports: NearestReports) -> Iterator[Block]:
    """Yield some images, and a table of their own reports and of those nearest to them."""
    chosen = reports.draw(SHOWN)
    nearest = reports.find(chosen, NEAREST)
    yield Pictures(
        title="Images and their nearest reports",
        pictures=[
            drawn.picture(
                drawn.enlarge(reports.inputs["pixels"][row]), _caption(reports, row, others), _name(reports, row)
            )
            for row, others in zip(chosen, nearest, strict=True)
        ],
    )
    columns = [TableColumn(title=title) for title in ("Image", "Report", "What it says")]
    rows = [line for row, others in zip(chosen, nearest, strict=True) for line in _lines(reports, row, others)]
    yield TableBlock(title="Reports nearest to these images", columns=columns, rows=rows, shown=2 * (NEAREST + 1))


def _caption(reports: NearestReports, row: int, others: np.ndarray) -> str:
    right = [rank for rank, other in enumerate(others, start=1) if reports.belongs(row, other)]
    return f"own report is number {right[0]}" if right else f"own report is not among the nearest {len(others)}"


def _lines(reports: NearestReports, row: int, others: np.ndarray) -> Iterator[Row]:
    name = _name(reports, row)
    yield Row(cells=[name, "its own", reports.read(row)])
    for rank, other in enumerate(others.tolist(), start=1):
        is_right = reports.belongs(row, other)
        tag, tone = ("right", "good") if is_right else ("wrong", "bad")
        yield Row(cells=[name, f"nearest {rank}, {tag}", reports.read(other)], tone=tone)


def _name(reports: NearestReports, row: int) -> str:
    return str(reports.rows["event_id"].iloc[row])
