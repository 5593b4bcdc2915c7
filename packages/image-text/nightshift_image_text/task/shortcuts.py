"""What the scores of findings owe to the corners of images, where a mark may stand that tells of the label.

A score that falls when the corners are hidden was read off there. A finding may lie in a corner too, and no figure
tells one from the other, so the gate holds such a model for a person and does not refuse it.
"""

from collections.abc import Sequence

import numpy as np

from nightshift.contracts.evaluation import Gain
from nightshift.items import metrics, scorer
from nightshift.items.images import Pixels
from nightshift.items.metrics import Scores
from nightshift.models.graph import Graph
from nightshift.models.tensors import Array, by_name, split_rows
from nightshift.stats import bootstrap
from nightshift_image_text.contracts.evaluation import Shortcut
from nightshift_image_text.task.measuring import SCORE
from nightshift_image_text.task.subgroups import JudgedPairs, is_enough, state

PIXELS = "pixels"
CORNER = 7  # a corner's side is the image's, divided by this; with 6, findings beside it count as well


def hide_corners(pixels: Pixels) -> Pixels:
    """Return images without their corners, uint8 (n, side, side, channels): in the median color of the border."""
    hidden = pixels.copy()
    edges = (pixels[:, 0], pixels[:, -1], pixels[:, :, 0], pixels[:, :, -1])
    border = np.median(np.concatenate(edges, axis=1), axis=1).astype(np.uint8)
    width = max(1, pixels.shape[1] // CORNER)
    for rows in (slice(width), slice(-width, None)):
        for columns in (slice(width), slice(-width, None)):
            hidden[:, rows, columns] = border[:, None, None]
    return hidden


def score_hidden(graph: Graph, inputs: Array) -> Scores:
    """Return the scores of n rows whose images' corners are hidden, (n, findings)."""
    batches = split_rows(by_name(inputs), scorer.AT_ONCE)
    hidden = ({**batch, PIXELS: hide_corners(batch[PIXELS])} for batch in batches)
    return np.concatenate([scorer.outputs(graph, batch, (SCORE,))[SCORE] for batch in hidden])


def find_shortcuts(
    pairs: JudgedPairs, hidden: Scores, findings: Sequence[str], thresholds: Sequence[float], least: int
) -> list[Shortcut]:
    """Return what each finding's score owes to the corners.

    Args:
        pairs: n rows and their scores.
        hidden: their scores with corners hidden, (n, findings).
        findings: their names.
        thresholds: of each finding.
        least: rows that have to be taken for a finding.
    """
    positive, ones = metrics.predict(pairs.scores, thresholds), np.ones(len(hidden))
    areas = [metrics.auc_rocs(pairs.labels, scores, ones) for scores in (pairs.scores, hidden)]
    seen, unseen = ([None if np.isnan(area) else float(area) for area in side] for side in areas)
    falls = pairs.scores.astype(float) - hidden
    return [
        Shortcut(
            finding=name,
            rows=int(positive[:, number].sum()),
            fall=_mean(falls[:, number], pairs, positive[:, number], least),
            auc_roc=seen[number],
            hidden_auc_roc=unseen[number],
        )
        for number, name in enumerate(findings)
    ]


def _mean(falls: Scores, pairs: JudgedPairs, positive: metrics.Flags, least: int) -> Gain | None:
    if not is_enough(positive, pairs.groups, least):
        return None
    return state(float(falls[positive].mean()), bootstrap.mean_of_groups(falls, pairs.groups, positive))
