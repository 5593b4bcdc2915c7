"""The mistakes that a model of images is surest of, and which parts of each image decided."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from nightshift.contracts.section import Block, Pictures
from nightshift.items import drawn
from nightshift.items.images import Pixels
from nightshift.items.metrics import Scores
from nightshift.items.shards import Array
from nightshift.tasks.classification.mistakes import Answers

SHOWN = 8
PARTS = 7  # of an image's side, a divisor of `drawn.SIDE`: each square is hidden once
SHADE = 0.7  # of what is not looked at


def pictures(answers: Answers, score: Callable[[Array], Scores]) -> Block | None:
    """Return pictures of the mistakes, each beside the parts that decided; None without a mistake.

    Args:
        answers: the test rows; inputs are uint8 (n, side, side, channels).
        score: pixels -> probability of each class, (n, classes).
    """
    shown = []
    for row in answers.surest(SHOWN):
        event, true, predicted = answers.names(row)
        pixels = answers.inputs[row]
        both = np.hstack([drawn.enlarge(pixels), lit(pixels, importance(pixels, score))])
        caption = f"{true}, taken for {predicted} ({answers.confidence[row]:.0%})"
        shown.append(drawn.picture(both, caption, event))
    if not shown:
        return None
    return Pictures(title="The surest mistakes, and beside each what decided: the lighter, the more", pictures=shown)


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
    return (drawn.enlarge(pixels) * light[..., None]).astype(np.uint8)
