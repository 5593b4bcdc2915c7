"""How good the challenger is, and whether it may replace the champion."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import precision_recall_curve

from nightshift.config.tabular import TabularConfig, TabularEvaluationGate
from nightshift.contracts import evaluation as contract
from nightshift.contracts.evaluation import UnseenValues
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.verdict import Measure, Verdict
from nightshift.runtime.errors import UserError
from nightshift.stats import bootstrap
from nightshift.stats.comparison import Floats
from nightshift.stats.ranking import RankingMetrics, evaluate
from nightshift.tasks import trials
from nightshift.tasks.base.metrics import Metric, fill_titles
from nightshift.tasks.metric_reports import list_measures
from nightshift.tasks.tabular.dominance import DominantInput
from nightshift.tasks.tabular.metrics import AVERAGE_PRECISION, METRICS
from nightshift.tasks.trials import Contender, Gate, Trial

Labels = npt.NDArray[np.integer[Any]]

POINTS = 200
CALIBRATION_BINS = 20
SMALLEST_BIN = 20  # rows
NAMED = 3  # of the inputs that rank the test rows nearly alone


@dataclass(frozen=True, kw_only=True)
class RowContender(Contender):
    """A model version, measured on the test rows.

    Resampled are `average_precision` (absent where it has no meaning), `precision_at_k` and `cost` (per 1,000 events).

    Attributes:
        metrics: on the test rows.
        cost: on the test rows.
    """

    metrics: RankingMetrics
    cost: contract.DecisionCost

    def value(self, name: str) -> float:
        """Return a resampled metric on the rows themselves."""
        return float(self.cost.per_1000) if name == "cost" else super().value(name)


@dataclass(frozen=True)
class RowTrial(Trial[RowContender]):
    """One evaluation on rows of a table.

    Attributes:
        unseen: categorical columns with values the model does not know, on the test rows.
        notes: what else to know of the rows, a sentence each.
        skew: what the replay of a day says of the online features.
    """

    config: TabularConfig
    unseen: dict[str, UnseenValues]
    notes: list[str]
    skew: Verdict

    @property
    def metrics(self) -> list[Metric]:
        """The metrics with their titles in the use case."""
        return fill_titles(METRICS, self.config)

    def figures(self, curves: contract.Curves) -> contract.Evaluation:
        """Return `evaluation.json`."""
        return contract.Evaluation(
            **self.shared_figures(),
            top_k=self.config.evaluation.top_k,
            cost=self.challenger.cost,
            unseen=self.unseen,
            notes=self.notes,
            curves=curves,
        )


def check_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the test rows as they are.

    Raises:
        UserError: when there are none, or when one has no label.
    """
    if rows.empty:
        raise UserError("the test days have no rows left to evaluate on; check the date, or drop_compromised")
    unlabeled = rows.loc[rows["label"].isna(), "event_time"]
    if len(unlabeled):
        raise UserError(
            f"{len(unlabeled)} test rows have no label although it is due, the first on {unlabeled.min().date()}; "
            "deliver that day's labels and run again from ingestion, or raise quarantine.max_share to leave them out"
        )
    return rows


def measure(
    rows: pd.DataFrame, scores: Floats, model: ModelPackage, limits: TabularEvaluationGate, version: int = 0
) -> RowContender:
    """Measure a model's scores of the test rows.

    Args:
        rows: `event_time`, `customer`, `label`, and `amount` where events have one; n rows.
        scores: of the model, float, shape (n,).
        model: whose scores they are.
        limits: the gate, with the costs and `top_k`.
        version: its number in the registry.
    """
    labels = rows["label"].to_numpy(dtype=np.int8)
    threshold = model.threshold
    flagged = scores >= threshold
    amounts = rows["amount"].to_numpy(dtype=float) if "amount" in rows else np.ones(len(rows))
    costs_per_1000 = 1000 * costs(labels, amounts, flagged, limits)
    cost = contract.DecisionCost(
        per_1000=costs_per_1000.mean(),
        threshold=threshold,
        alerts=flagged.sum(),
        missed_positives=labels[~flagged].sum(),
    )
    resamples = resample(rows, scores, limits.top_k) | {"cost": bootstrap.mean(labels, costs_per_1000)}
    measured = evaluate(rows, scores, limits.top_k)
    return RowContender.from_model(model, version, metrics=measured, cost=cost, resamples=resamples)


def resample(rows: pd.DataFrame, scores: Floats, top_k: int) -> dict[str, Floats]:
    """Return the ranking metrics over resamples, see `RowContender`; without the cost."""
    labels = rows["label"].to_numpy(dtype=np.int8)
    resamples = {"precision_at_k": bootstrap.precision_at_k(rows, scores, top_k)}
    if 0 < labels.sum() < len(labels):
        resamples["average_precision"] = bootstrap.average_precision(labels, scores)
    return resamples


def costs(labels: Labels, amounts: Floats, flagged: npt.NDArray[np.bool_], limits: TabularEvaluationGate) -> Floats:
    """Return what deciding on each event cost: its check when it is flagged, its loss when it is a missed fraud.

    A flagged fraud is taken to be stopped, so it costs its check only. A missed one costs its amount, be it
    paid or refunded, times `cost_missed_positive`.

    Args:
        labels: 0 or 1, shape (n,).
        amounts: in any currency, float, shape (n,).
        flagged: bool, shape (n,).
        limits: the costs.
    """
    return np.where(flagged, limits.cost_per_alert, labels * np.abs(amounts) * limits.cost_missed_positive)


def judge(
    challenger: RowContender,
    champion: RowContender | str,
    positives: int,
    limits: TabularEvaluationGate,
    dominant: Sequence[DominantInput] = (),
    reference: RowContender | None = None,
) -> Verdict:
    """Decide whether the challenger may replace the champion; the rule is that of `trials.judge`.

    Nothing is decided with fewer than `min_positives` positives, or with one class only. The floors: average precision
    is neither too low nor too good to be true (a leaked label). It is the metric of the comparison, too; card precision
    and cost are reported with their intervals and do not decide.

    Args:
        challenger: the new model.
        champion: the version that serves, or a sentence why there is none to compare with.
        positives: in the test rows.
        limits: the gate.
        dominant: inputs that rank the test rows nearly alone, the best first; they hold the challenger for a person.
        reference: the best of earlier versions, where that is not the champion.
    """
    undecidable = list(_undecidable(challenger, positives, limits))
    gate = Gate(
        metric="average_precision",
        tolerance=limits.tolerance,
        undecidable=undecidable,
        refused=list(_below_floors(challenger, limits)),
        passed="" if undecidable else _describe_pass(challenger, positives),
        measures=list(_measures(challenger, positives, limits)),
        remarks=[] if isinstance(champion, str) else _remarks(challenger, champion, limits),
        held=list(_describe_dominant(dominant, challenger)),
    )
    return trials.judge(challenger, champion, gate, reference)


def _measures(challenger: RowContender, positives: int, limits: TabularEvaluationGate) -> Iterator[Measure]:
    yield Measure(name="positives", value=positives, limit=limits.min_positives)
    yield from list_measures(challenger, METRICS, {AVERAGE_PRECISION.name: limits.min_average_precision})
    cost = challenger.estimates()["cost"]
    yield Measure(name="cost_per_1000", value=cost.value, interval=(cost.low, cost.high), higher_is_better=False)


def curves(labels: Labels, scores: Floats) -> contract.Curves:
    """Return the precision-recall and calibration curves, at most `POINTS` points each.

    Args:
        labels: 0 or 1, shape (n,).
        scores: probability of the positive class, float, shape (n,).
    """
    return contract.Curves(precision_recall=precision_recall(labels, scores), calibration=calibration(labels, scores))


def precision_recall(labels: Labels, scores: Floats) -> contract.PrecisionRecall:
    """Return precision over recall, recall ascending from 0; empty without a fraud.

    Args:
        labels: 0 or 1, shape (n,).
        scores: float, shape (n,).
    """
    if not labels.any():
        return contract.PrecisionRecall(recall=[], precision=[])
    precision, recall, _ = precision_recall_curve(labels, scores, drop_intermediate=True)
    kept = np.unique(np.linspace(0, len(recall) - 1, POINTS).round().astype(int))[::-1]
    return contract.PrecisionRecall(recall=recall[kept].tolist(), precision=precision[kept].tolist())


def calibration(labels: Labels, scores: Floats) -> contract.Calibration:
    """Return the mean score and the share of positives by quantile bins of the score, scores ascending.

    Positives are rare, so bins of equal size would put nearly all of them into the last one: the bins shrink
    by a constant factor towards the top, down to `SMALLEST_BIN` rows. Equal scores share a bin.

    Args:
        labels: 0 or 1, shape (n,).
        scores: float, shape (n,).
    """
    above = np.geomspace(1, min(1, SMALLEST_BIN / len(scores)), CALIBRATION_BINS)
    edges = np.unique(np.quantile(scores, 1 - above, method="inverted_cdf"))
    frame = pd.DataFrame({"score": scores.astype(float), "label": labels})
    bins = frame.groupby(np.searchsorted(edges, scores, side="right")).agg(
        predicted=("score", "mean"), observed=("label", "mean"), count=("label", "size")
    )
    return contract.Calibration(**{name: bins[name].tolist() for name in ("predicted", "observed", "count")})


def _undecidable(challenger: RowContender, positives: int, limits: TabularEvaluationGate) -> Iterator[str]:
    if positives < limits.min_positives:
        yield f"The test days hold {positives} positives; at least {limits.min_positives} are needed to decide."
    if challenger.metrics["average_precision"] is None:
        yield "The test days hold one class only, so average precision has no meaning."


def _below_floors(challenger: RowContender, limits: TabularEvaluationGate) -> Iterator[str]:
    precision = challenger.metrics["average_precision"]
    if precision is None:
        return
    if precision < limits.min_average_precision:
        yield f"Average precision {precision:.3f} is below the floor {limits.min_average_precision:g}."
    elif precision > limits.max_average_precision:
        yield (
            f"Average precision {precision:.3f} is above {limits.max_average_precision:g}: "
            "too good to be true, a feature probably leaks the label."
        )


def _describe_dominant(dominant: Sequence[DominantInput], challenger: RowContender) -> Iterator[str]:
    if not dominant:
        return
    others = f", and so do {len(dominant) - 1} more" if len(dominant) > 1 else ""
    yield f"{dominant[0]} by itself ranks the test rows nearly as well as the model{others}."
    auc_roc, precision = (challenger.metrics[name] for name in ("auc_roc", "average_precision"))
    for measured in dominant[:NAMED]:
        yield (
            f"{measured} has ROC AUC {measured.auc_roc:.3f} by itself, the model {auc_roc:.3f}; average precision "
            f"{measured.average_precision:.3f}, the model {precision:.3f}."
        )
    names = ", ".join(dict.fromkeys(repr(measured.name) for measured in dominant[:NAMED]))
    yield (
        f"Is {names} known before the outcome? If not, remove it from columns; if it is, name it in "
        "evaluation.allowed_alone; then train again."
    )


def _describe_pass(challenger: RowContender, positives: int) -> str:
    precision = challenger.estimates()["average_precision"]
    return (
        f"The challenger passes the floors with average precision {precision} on {positives} positives (95 % interval)."
    )


def _remarks(challenger: RowContender, champion: RowContender, limits: TabularEvaluationGate) -> list[str]:
    gains = challenger.gains(champion)
    return [
        f"Precision at {limits.top_k} changes by {gains['precision_at_k']}, cost per 1,000 events by {gains['cost']}."
    ]
