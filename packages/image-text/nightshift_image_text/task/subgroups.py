"""How good a model is on the pairs of each scanner and site, beside all others."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from nightshift.contracts.evaluation import Gain
from nightshift.items import metrics
from nightshift.items.metrics import Flags, Labels, Scores
from nightshift.stats import bootstrap
from nightshift.stats.comparison import BootstrapEstimate
from nightshift_image_text.contracts.evaluation import PartGap, Subgroup

COLUMNS = ("scanner", "site")
MIN_GROUPS = 20  # of a subgroup's rows and of the others, needed to judge it
UNKNOWN = "not stated"


@dataclass(frozen=True)
class JudgedPairs:
    """What is measured on parts of n rows.

    Attributes:
        labels: which findings each row has, (n, findings).
        scores: probability of each finding, (n, findings).
        hits: of each row among the 5 nearest, mean of both directions, (n,).
        groups: number of each row's patient, from 0, (n,).
    """

    labels: Flags
    scores: Scores
    hits: Scores
    groups: Labels


def measure_subgroups(rows: pd.DataFrame, pairs: JudgedPairs, least: int) -> Iterator[Subgroup]:
    """Yield the subgroups of n rows: of each column that they have, the values in alphabetical order.

    Args:
        rows: of the features table.
        pairs: what is measured on them.
        least: rows that a subgroup needs, and the others, to be compared.
    """
    for column, name, part in find_parts(rows):
        enough = all(is_enough(side, pairs.groups, least) for side in (part, ~part))
        yield Subgroup(
            column=column,
            name=name,
            rows=int(part.sum()),
            groups=len(np.unique(pairs.groups[part])),
            auc_roc=compare_aucs(pairs, part) if enough else None,
            recall=_compare_recalls(pairs, part) if enough else None,
        )


def find_parts(rows: pd.DataFrame, columns: Sequence[str] = COLUMNS) -> Iterator[tuple[str, str, Flags]]:
    """Yield the column, the value and the rows, bool (n,), of each scanner and site."""
    for column in columns:
        if column in rows:
            values = rows[column].astype(object).where(rows[column].notna(), UNKNOWN).astype(str).to_numpy()
            yield from ((column, str(name), values == name) for name in np.unique(values))


def is_enough(part: Flags, groups: Labels, least: int) -> bool:
    """Return whether a part of n rows has enough of them, and enough patients, for an interval."""
    return int(part.sum()) >= least and len(np.unique(groups[part])) >= MIN_GROUPS


def compare_aucs(pairs: JudgedPairs, part: Flags) -> PartGap | None:
    """Compare the mean area under the ROC curve on a part with the others'; None without a finding that both have."""
    sides = [metrics.auc_rocs(pairs.labels, pairs.scores, side.astype(float)) for side in (part, ~part)]
    known = ~np.isnan(sides).any(0)
    if not known.any():
        return None
    labels, scores = pairs.labels[:, known], pairs.scores[:, known]
    drawn = [metrics.resample_auc_rocs(labels, scores, pairs.groups, side) for side in (part, ~part)]
    own, others = (float(side[known].mean()) for side in sides)
    return _compare(own, others, metrics.average_known(drawn[1] - drawn[0]))


def _compare_recalls(pairs: JudgedPairs, part: Flags) -> PartGap:
    drawn = [bootstrap.mean_of_groups(pairs.hits, pairs.groups, side) for side in (part, ~part)]
    own, others = (float(pairs.hits[side].mean()) for side in (part, ~part))
    return _compare(own, others, drawn[1] - drawn[0])


def _compare(own: float, others: float, gaps: Scores) -> PartGap:
    return PartGap(value=own, others=others, gap=state(others - own, gaps))


def state(value: float, resamples: Scores) -> Gain:
    """Return a value with the interval of its resamples, (resamples,), as `evaluation.json` has it."""
    return Gain(**asdict(BootstrapEstimate.from_value(value, resamples)))
