"""What may have changed of a table's rows beside how far columns have moved: precision, and the positives alone."""

import functools
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.config.tabular import TabularConfig, TabularDriftLimits
from nightshift.contracts.drift import SCORE, Promise, Signal
from nightshift.data.splits import Days
from nightshift.stats import noise, shift
from nightshift.tasks.base import drift as base
from nightshift.tasks.base.drift import DriftInputs
from nightshift.tasks.named_inputs import ReferenceComparison
from nightshift.tasks.tabular import overnight

SCORE_BITS = 12  # of float32, dropped where scores are ranked: what differs by less than 0.05 % is a tie
SCORE_BINS = (int(np.float32(1).view(np.int32)) >> SCORE_BITS) + 1
REFERENCE_POSITIVES = 50  # fewer are no reference
UNREACHED = 1e6  # by a stability index
LOSS, DISTANCE = "average precision lost", "standard deviations"  # units of signals


@dataclass(frozen=True)
class DueRows:
    """What is known of the days whose labels are due.

    Attributes:
        ranks: their rows with labels by score, as `rank` counts them.
        positives: the positives among them.
    """

    ranks: npt.NDArray[np.int64]
    positives: pd.DataFrame


@dataclass(frozen=True)
class RowComparison(ReferenceComparison):
    """The newest rows of a table, beside a model's training rows."""

    inputs: DriftInputs[TabularConfig]

    def unlabeled_signals(self) -> Iterator[Signal]:
        yield from overnight.compare(self.inputs)

    def labeled_signals(self) -> Iterator[Signal]:
        reference, numeric = self.inputs.reference, self.inputs.model.tabular.numeric
        limits = self.inputs.config.drift
        if self.inputs.promise is not None:
            yield performance(self._due.ranks, self.inputs.promise, limits)
        yield positives(reference[reference["label"] == 1], self._due.positives, numeric, limits)

    @cached_property
    def _due(self) -> DueRows:
        parts = [self._describe_due(day) for day in self.inputs.labeled_days]
        ranks = functools.reduce(operator.add, (ranks for ranks, _ in parts))
        return DueRows(ranks, pd.concat([positives for _, positives in parts], ignore_index=True))

    def _describe_due(self, day: date) -> tuple[npt.NDArray[np.int64], pd.DataFrame]:
        """Return how a day's rows with labels rank, and those of them that are positives."""
        ranks = np.zeros((2, SCORE_BINS), np.int64)
        positives = [self.inputs.reference.iloc[:0]]
        for batch in self.batches(Days(day, day)):
            rows = batch[batch["label"].notna()]
            ranks += rank(rows["label"].to_numpy("int8"), rows[SCORE].to_numpy())
            positives.append(rows[rows["label"] == 1])
        # pandas warns where it cannot tell the types of frames without rows
        return ranks, pd.concat([part for part in positives if len(part)] or positives[:1], ignore_index=True)


class DriftTask(base.DriftTask):
    """Precision, the positives alone, and what has changed overnight."""

    def comparison(self, inputs: DriftInputs[TabularConfig]) -> RowComparison:
        return RowComparison(inputs)


def rank(truth: npt.NDArray[np.int8], scores: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Count the rows of each label by score; the counts of batches add up, so that any number of rows can be ranked.

    Args:
        truth: 0 or 1, (n,).
        scores: 0..1, (n,).

    Returns:
        rows without and with fraud, by ascending score; (2, SCORE_BINS).
    """
    # the bits of floats that are not negative have the floats' order; adding 0 turns -0 into 0
    bins = (np.clip(scores, 0, 1) + np.float32(0)).view(np.int32) >> SCORE_BITS
    return np.stack([np.bincount(bins[truth == label], minlength=SCORE_BINS) for label in (0, 1)])


def average_precision(ranks: npt.NDArray[np.int64]) -> float:
    """Return the mean, over positives, of the precision among the rows that score at least as high.

    Args:
        ranks: as `rank` counts them, with one fraud or more.
    """
    legitimate, stolen = np.cumsum(ranks[:, ::-1], axis=1)
    flagged = ranks[1, ::-1]
    seen = flagged > 0
    precision = stolen[seen] / (stolen[seen] + legitimate[seen])
    return float(np.sum(flagged[seen] * precision) / stolen[-1])


def performance(ranks: npt.NDArray[np.int64], promised: Promise, limits: TabularDriftLimits) -> Signal:
    """Compare the average precision on rows whose labels have arrived with what the model promised.

    Customers known as compromised stay in, which makes these rows a little easier than those of the promise.

    Args:
        ranks: the labeled rows, as `rank` counts them.
        promised: what to expect.
        limits: how much may be lost, and how few positives say nothing.
    """
    limit, (legitimate, positives) = limits.average_precision, (int(side) for side in ranks.sum(axis=1))
    if positives < limits.min_positives or not legitimate:
        reason = f"{positives} positives with labels; at least {limits.min_positives} are needed to judge the model."
        return Signal(name="performance", value=None, limit=limit, unit=LOSS, raised=False, reason=reason)
    reached = average_precision(ranks)
    lost = promised.value - reached
    expected = f"{promised.value:.3f} {promised.measured}"
    reason = f"Average precision {reached:.3f} where labels are due ({positives} positives), {expected}."
    return Signal(name="performance", value=lost, limit=limit, unit=LOSS, raised=lost > limit, reason=reason)


def positives(reference: pd.DataFrame, current: pd.DataFrame, numeric: list[str], limits: TabularDriftLimits) -> Signal:
    """Compare the positives alone, which inputs of all rows are too many to show: the input that moved most.

    Args:
        reference: the positives among the reference rows.
        current: the positives among rows whose labels have arrived.
        numeric: the inputs to compare.
        limits: only `positive_wasserstein` counts; with so few rows an index over bins is mostly noise. The limit is
            larger where positives that come in series differ more by chance.
    """
    limit = limits.positive_wasserstein
    if len(current) < limits.min_positives or len(reference) < REFERENCE_POSITIVES:
        needed = f"{limits.min_positives} and {REFERENCE_POSITIVES} are needed to compare them"
        reason = f"{len(current)} positives, and {len(reference)} for reference; at least {needed}."
        return Signal(name="positives", value=None, limit=limit, unit=DISTANCE, raised=False, reason=reason)
    alone = {"psi": UNREACHED, "wasserstein": limit, "max_drifted_share": 0.0}
    compared = reference[[*numeric, *noise.list_blocks(reference)]]
    columns = shift.compare(compared, [current], numeric, limits.model_copy(update=alone))
    moved = max(columns, key=lambda column: (column.wasserstein or 0) / (column.wasserstein_limit or limit))
    value, limit = moved.wasserstein or 0.0, moved.wasserstein_limit or limit
    reason = f"Among positives, {moved.name} moved most: {value:.2f} standard deviations (limit {limit:.3g})."
    return Signal(name="positives", value=value, limit=limit, unit=DISTANCE, raised=value > limit, reason=reason)
