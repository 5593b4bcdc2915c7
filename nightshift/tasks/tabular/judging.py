"""How good the challenger is, and whether it may replace the champion."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import precision_recall_curve

from nightshift.config import Config
from nightshift.config.policy import Evaluation
from nightshift.contracts import evaluation as contract
from nightshift.contracts.artifact import LabeledWindow
from nightshift.contracts.evaluation import Unseen
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.verdict import Decision, Measure, Opponent, Verdict
from nightshift.errors import UserError
from nightshift.stats import bootstrap
from nightshift.stats.comparison import Comparison, Floats, Resampled
from nightshift.stats.ranking import Metrics, evaluate

Labels = npt.NDArray[np.integer[Any]]

POINTS = 200
CALIBRATION_BINS = 20
SMALLEST_BIN = 20  # rows


@dataclass(frozen=True)
class Contender(Resampled):
    """A model version, measured on the test rows.

    Attributes:
        sha256: its identity.
        trained_until: last day of its training data, YYYY-MM-DD.
        metrics: on the test rows.
        cost: on the test rows.
        resamples: `average_precision` (absent where it has no meaning), `precision_at_k` and `cost` (per 1,000
            events), each on the same resamples of the test rows; float64 of shape (resamples,).
        version: its number in the registry, 0 before it has one.
    """

    sha256: str
    trained_until: str
    metrics: Metrics
    cost: contract.Cost
    resamples: dict[str, Floats]
    version: int = 0

    def value(self, name: str) -> float:
        """Return a resampled metric on the rows themselves."""
        value = self.cost.per_1000 if name == "cost" else self.metrics[name]  # type: ignore[literal-required]
        return float(value)


@dataclass(frozen=True)
class Trial:
    """One evaluation: who stood against whom, on which rows, and the outcome.

    Attributes:
        config: the use case.
        model: the challenger.
        test: the test window.
        candidates: each of the model's candidates, measured on the test rows.
        champion: measured on the same rows, or a sentence why there is none.
        verdict: what became of it.
        unseen: categorical columns with values the model does not know, on the test rows.
        notes: what else to know of the rows, a sentence each.
        skew: what the replay of a day says of the online features.
    """

    config: Config
    model: ModelPackage
    test: LabeledWindow
    candidates: dict[str, Contender]
    champion: Contender | str
    verdict: Verdict
    unseen: dict[str, Unseen]
    notes: list[str]
    skew: Verdict

    @property
    def challenger(self) -> Contender:
        """The candidate that was selected in training."""
        return self.candidates[self.model.selected]

    @property
    def rival(self) -> Contender | None:
        """The champion, where there is one to compare with."""
        return None if isinstance(self.champion, str) else self.champion

    def figures(self, curves: contract.Curves) -> contract.Evaluation:
        """Return `evaluation.json`."""
        rival = self.rival
        gains = self.challenger.gains(rival) if rival else None
        return contract.Evaluation(
            test=self.test,
            top_k=self.config.evaluation.top_k,
            models={name: dict(found.metrics) for name, found in self.candidates.items()},
            selected=self.model.selected,
            intervals={name: found.intervals() for name, found in self.candidates.items()},
            cost=self.challenger.cost,
            champion=rival
            and contract.Champion(version=rival.version, sha256=rival.sha256, metrics=dict(rival.metrics)),
            gains=gains and {name: contract.Estimate(**asdict(gain)) for name, gain in gains.items()},
            unseen=self.unseen,
            notes=self.notes,
            curves=curves,
        )


def checked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the test rows as they are.

    Raises:
        UserError: when there are none, or when one has no label.
    """
    if rows.empty:
        raise UserError("the test days have no rows left to evaluate on; check the date, or drop_compromised")
    unlabelled = rows.loc[rows["label"].isna(), "event_time"]
    if len(unlabelled):
        raise UserError(
            f"{len(unlabelled)} test rows have no label although it is due, the first on {unlabelled.min().date()}; "
            "deliver that day's labels and run again from ingestion"
        )
    return rows


def measure(rows: pd.DataFrame, scores: Floats, model: ModelPackage, limits: Evaluation, version: int = 0) -> Contender:
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
    each = 1000 * costs(labels, amounts, flagged, limits)
    cost = contract.Cost(
        per_1000=each.mean(), threshold=threshold, alerts=flagged.sum(), missed_positives=labels[~flagged].sum()
    )
    resamples = resampled(rows, scores, limits.top_k) | {"cost": bootstrap.mean(labels, each)}
    measured = evaluate(rows, scores, limits.top_k)
    return Contender(model.sha256, str(model.lineage.train.last), measured, cost, resamples, version)


def resampled(rows: pd.DataFrame, scores: Floats, top_k: int) -> dict[str, Floats]:
    """Return the ranking metrics over resamples, see `Contender.resamples`; without the cost."""
    labels = rows["label"].to_numpy(dtype=np.int8)
    found = {"precision_at_k": bootstrap.precision_at_k(rows, scores, top_k)}
    if 0 < labels.sum() < len(labels):
        found["average_precision"] = bootstrap.average_precision(labels, scores)
    return found


def costs(labels: Labels, amounts: Floats, flagged: npt.NDArray[np.bool_], limits: Evaluation) -> Floats:
    """Return what deciding on each event cost: its check when it is flagged, its loss when it is a missed fraud.

    A flagged fraud is taken to be stopped, so it costs its check only. A missed one costs its amount times
    `cost_missed_positive`.

    Args:
        labels: 0 or 1, shape (n,).
        amounts: in any currency, float, shape (n,).
        flagged: bool, shape (n,).
        limits: the costs.
    """
    return np.where(flagged, limits.cost_alert, labels * amounts * limits.cost_missed_positive)


def judge(challenger: Contender, champion: Contender | str, positives: int, limits: Evaluation) -> Verdict:
    """Decide whether the challenger may replace the champion.

    The rule:

    1. Nothing is decided with fewer than `min_positives` positives, or with one class only.
    2. The challenger fails when its average precision is too low or too good to be true (a leaked label).
    3. Without a champion that can be measured, these floors are all there is to pass.
    4. Between a model and itself there is nothing to decide.
    5. The challenger passes when it is better beyond noise: the paired 95 % interval of its gain in average
       precision lies above 0.
    6. It passes when it is non-inferior and fresher: that interval lies above -tolerance, and it was trained
       on days newer than the champion's. Equals of the same days never replace one another.
    7. Otherwise it fails.

    Card precision and cost are reported with their intervals; they do not decide. Deployment promotes
    nothing that is not fresher, whatever is said here.

    Args:
        challenger: the new model.
        champion: the version that serves, or a sentence why there is none to compare with.
        positives: in the test rows.
        limits: the gate.
    """
    decision, reasons = _decided(challenger, champion, positives, limits)
    rival = None if isinstance(champion, str) else champion
    return Verdict(
        gate="evaluation",
        decision=decision,
        reasons=reasons,
        measures=[*_measures(challenger, positives, limits), *(_gains(challenger, rival, limits) if rival else [])],
        subject=challenger.sha256,
        compared_with=rival and Opponent(version=rival.version, sha256=rival.sha256),
    )


def _decided(
    challenger: Contender, champion: Contender | str, positives: int, limits: Evaluation
) -> tuple[Decision, list[str]]:
    precision = challenger.metrics["average_precision"]
    refused = _below_floors(precision, positives, limits)
    if refused:
        decidable = positives >= limits.min_positives and precision is not None
        told = [champion] if isinstance(champion, str) else []
        return Decision.FAIL if decidable else Decision.UNDECIDED, [*told, *refused]
    if isinstance(champion, str):
        return Decision.PASS, [champion, _passed(challenger, positives)]
    if challenger.sha256 == champion.sha256:
        return Decision.UNDECIDED, [f"The challenger is identical to champion version {champion.version}."]
    return _against(challenger, champion, limits)


def _measures(challenger: Contender, positives: int, limits: Evaluation) -> Iterator[Measure]:
    sure = challenger.estimates()
    yield Measure(name="positives", value=positives, limit=limits.min_positives)
    for name, value in challenger.metrics.items():
        found = sure.get(name)
        limit = limits.min_average_precision if name == "average_precision" else None
        yield Measure(name=name, value=value, limit=limit, interval=found and (found.low, found.high))
    cost = sure["cost"]
    yield Measure(name="cost_per_1000", value=cost.value, interval=(cost.low, cost.high), higher_is_better=False)


def _gains(challenger: Contender, champion: Contender, limits: Evaluation) -> Iterator[Measure]:
    gain = challenger.gains(champion).get("average_precision")
    if gain:
        interval = (gain.low, gain.high)
        yield Measure(name="average_precision_gain", value=gain.value, limit=-limits.tolerance, interval=interval)


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


def _below_floors(precision: float | None, positives: int, limits: Evaluation) -> list[str]:
    refused = []
    if positives < limits.min_positives:
        refused.append(
            f"The test days hold {positives} positives; at least {limits.min_positives} are needed to decide."
        )
    if precision is None:
        refused.append("The test days hold one class only, so average precision has no meaning.")
    elif precision < limits.min_average_precision:
        refused.append(f"Average precision {precision:.3f} is below the floor {limits.min_average_precision:g}.")
    elif precision > limits.max_average_precision:
        refused.append(
            f"Average precision {precision:.3f} is above {limits.max_average_precision:g}: "
            "too good to be true, a feature probably leaks the label."
        )
    return refused


def _passed(challenger: Contender, positives: int) -> str:
    precision = challenger.estimates()["average_precision"]
    return (
        f"The challenger passes the floors with average precision {precision} on {positives} positives (95 % interval)."
    )


def _against(challenger: Contender, champion: Contender, limits: Evaluation) -> tuple[Decision, list[str]]:
    gains, metric = challenger.gains(champion), "average_precision"
    ours, theirs = (each.estimates()[metric] for each in (challenger, champion))
    found = Comparison(metric, ours, theirs, gains[metric], challenger.trained_until, champion.trained_until)
    decision, reasons = found.decided(champion.version, limits.tolerance)
    rest = (
        f"Precision at {limits.top_k} changes by {gains['precision_at_k']}, cost per 1,000 events by {gains['cost']}."
    )
    return decision, [*reasons, rest]
