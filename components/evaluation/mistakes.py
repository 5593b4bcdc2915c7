"""The mistakes that a model is surest of: what it saw of each row, and which parts of an image decided."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from components.classes import drawn, tokens
from components.classes.images import Pixels
from components.classes.metrics import Labels, Scores
from components.classes.shards import Array
from components.common.contracts.section import Block, Column, Pictures, Row, Table

IMAGES, TEXTS = 8, 20  # that are shown
PARTS = 7  # of an image's side, a divisor of `drawn.SIDE`: each square is hidden once
SHADE = 0.7  # of what is not looked at


@dataclass(frozen=True)
class Answers:
    """The test rows, and what a model says of them.

    Attributes:
        rows: who they are, with `event_id`.
        inputs: what the graph takes of them, (n, ...).
        labels: numbers of their classes, (n,).
        scores: probability of each class, (n, classes).
        classes: their names.
    """

    rows: pd.DataFrame
    inputs: Array
    labels: Labels
    scores: Scores
    classes: list[str]

    def surest(self, most: int) -> Iterator[int]:
        """Yield the numbers of the rows taken for another class, the surest first."""
        wrong = np.flatnonzero(self.scores.argmax(1) != self.labels)
        yield from wrong[np.argsort(-self.scores[wrong].max(1), kind="stable")][:most].tolist()

    def names(self, row: int) -> tuple[str, str, str]:
        """Return a row's id, its class, and what it is taken for."""
        taken, event = self.scores[row].argmax(), self.rows["event_id"].iloc[row]
        return str(event), self.classes[self.labels[row]], self.classes[taken]


def of_images(answers: Answers, score: Callable[[Array], Scores]) -> Block | None:
    """Return pictures of the mistakes, each beside the parts that decided; None without a mistake.

    Args:
        answers: the test rows; inputs are uint8 (n, side, side, channels).
        score: pixels -> probability of each class, (n, classes).
    """
    pictures = []
    for row in answers.surest(IMAGES):
        event, true, taken = answers.names(row)
        pixels = answers.inputs[row]
        both = np.hstack([drawn.enlarged(pixels), lit(pixels, importance(pixels, score))])
        caption = f"{true}, taken for {taken} ({answers.scores[row].max():.0%})"
        pictures.append(drawn.picture(both, caption, event))
    if not pictures:
        return None
    return Pictures(title="The surest mistakes, and beside each what decided: the lighter, the more", pictures=pictures)


def of_texts(answers: Answers, tokenizer: bytes) -> Block | None:
    """Return a table of the mistakes, with the texts where a tokenizer's file can tell them; None without a mistake."""
    rows = list(answers.surest(TEXTS))
    columns = [Column(title="Row"), Column(title="Class"), Column(title="Taken for")]
    columns += [Column(title="Confidence", format="percent"), Column(title="What the model saw")]
    told = tokens.decoded(tokenizer, answers.inputs[rows])
    cells = [
        Row(cells=[*answers.names(row), float(answers.scores[row].max()), text])
        for row, text in zip(rows, told, strict=True)
    ]
    return Table(title="The surest mistakes", columns=columns, rows=cells, shown=5) if rows else None


def importance(pixels: Pixels, score: Callable[[Array], Scores]) -> npt.NDArray[np.float64]:
    """Return what each of an image's parts does for the class that it is taken for.

    A part is hidden behind the image's mean color (occlusion sensitivity: Zeiler and Fergus, Visualizing and
    Understanding Convolutional Networks, 2014, section 4.2).

    Args:
        pixels: uint8 (side, side, channels).
        score: pixels -> probability of each class, (n, classes).

    Returns:
        by how much the probability falls, at least 0, as a share of the most; (PARTS, PARTS).
    """
    part = np.arange(len(pixels)) * PARTS // len(pixels)
    hidden = np.repeat(pixels[None], PARTS * PARTS, axis=0)
    for number, (row, column) in enumerate(np.ndindex(PARTS, PARTS)):
        hidden[number][np.ix_(part == row, part == column)] = pixels.mean((0, 1)).round()
    whole, *others = score(np.concatenate([pixels[None], hidden])).astype(float)
    fallen = np.maximum(whole.max() - np.array(others)[:, whole.argmax()], 0)
    shares: npt.NDArray[np.float64] = fallen.reshape(PARTS, PARTS) / max(fallen.max(), np.finfo(float).tiny)
    return shares


def lit(pixels: Pixels, weights: npt.NDArray[np.float64]) -> Pixels:
    """Return the enlarged image, the darker the less a part weighs; weights are 0 to 1, (PARTS, PARTS)."""
    light = np.kron(1 - SHADE * (1 - weights), np.ones((drawn.SIDE // PARTS, drawn.SIDE // PARTS)))
    return (drawn.enlarged(pixels) * light[..., None]).astype(np.uint8)
