"""How good scores are: ranking metrics over rows, and precision at k over days."""

from dataclasses import dataclass
from typing import Any, Self, TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.integer[Any]]


class RankingMetrics(TypedDict):
    """A scorer's metrics on some rows; None where a class is missing and the metric has no meaning."""

    auc_roc: float | None
    average_precision: float | None
    precision_at_k: float
    precision_at_k_ceiling: float


def evaluate(rows: pd.DataFrame, scores: Floats, top_k: int) -> RankingMetrics:
    """Measure scores on labeled rows.

    Args:
        rows: `event_time` (datetime64, UTC), `customer`, `label` (0 or 1); n rows.
        scores: one a row, higher is more suspicious; float, shape (n,).
        top_k: entities that can be checked per day.
    """
    labels = rows["label"].to_numpy(dtype=np.int8)
    both = 0 < labels.sum() < len(labels)
    return {
        "auc_roc": float(roc_auc_score(labels, scores)) if both else None,
        "average_precision": float(average_precision_score(labels, scores)) if both else None,
        "precision_at_k": precision_at_k(rows, scores, top_k),
        # a perfect scorer still finds only as many entities as were positive
        "precision_at_k_ceiling": precision_at_k(rows, labels.astype(float), top_k),
    }


def precision_at_k(rows: pd.DataFrame, scores: Floats, top_k: int) -> float:
    """Return the share of positive entities among the `top_k` most suspicious ones, as a mean over days.

    An entity (a customer; without customers, an event) that is detected on one day is left out on the
    following days. Definition: Le Borgne et al.,
    Fraud Detection Handbook, "card precision top-k".

    Args:
        rows: `event_time`, `customer`, `label`; n rows.
        scores: float, shape (n,).
        top_k: entities that can be checked per day.
    """
    ranking = Ranking.from_scores(rows, scores)
    return ranking.precision(np.ones(len(ranking.positive), dtype=np.int64), top_k)


@dataclass(frozen=True)
class Ranking:
    """The entities (customers) of some rows, most suspicious first on every day.

    An entity is an index into `positive`; the indices are the same for any scores of the same rows.

    Attributes:
        days: a day's entities by their highest score, and whether each is positive on that day; int64 of shape
            (entities of the day,) both.
        positive: whether an entity is positive on any day, bool of shape (entities,).
    """

    days: list[tuple[Labels, Labels]]
    positive: npt.NDArray[np.bool_]

    @classmethod
    def from_scores(cls, rows: pd.DataFrame, scores: Floats) -> Self:
        """Rank the entities of labeled rows; equal scores are taken in order of customers.

        Args:
            rows: `event_time`, `customer`, `label`; n rows.
            scores: float, shape (n,).
        """
        frame = pd.DataFrame(
            {
                "day": rows["event_time"].dt.floor("D").to_numpy(),
                "entity": pd.factorize(rows["customer"], sort=True)[0],
                "score": scores,
                "label": rows["label"].to_numpy(dtype=np.int64),
            }
        )
        entities = frame.groupby(["day", "entity"], sort=True)[["score", "label"]].max().reset_index()
        ranked = entities.sort_values("score", ascending=False, kind="stable").groupby("day", sort=True)
        days = [(day["entity"].to_numpy(), day["label"].to_numpy()) for _, day in ranked]
        positive = frame.groupby("entity", sort=True)["label"].max().to_numpy(dtype=bool)
        return cls(days, positive)

    def precision(self, copies: Labels, top_k: int) -> float:
        """Return precision at k when every entity exists as often as `copies` says, int64 of shape (entities,)."""
        left, precisions = copies.copy(), []
        for entities, positive in self.days:
            present = left[entities]
            room = top_k - (present.cumsum() - present)
            detected = np.clip(room, 0, present) * positive
            left[entities] -= detected
            precisions.append(int(detected.sum()) / top_k)
        return float(np.mean(precisions)) if precisions else 0.0
