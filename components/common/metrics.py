"""How good scores are: ranking metrics over rows, and card precision over days."""

from dataclasses import dataclass
from typing import Any, Self, TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.integer[Any]]


class Metrics(TypedDict):
    """A scorer's metrics on some rows; None where a class is missing and the metric has no meaning."""

    auc_roc: float | None
    average_precision: float | None
    card_precision: float
    card_precision_ceiling: float


def evaluate(rows: pd.DataFrame, scores: Floats, top_k: int) -> Metrics:
    """Measure scores on labelled rows.

    Args:
        rows: `event_time` (datetime64, UTC), `customer`, `label` (0 or 1); n rows.
        scores: one a row, higher is more suspicious; float, shape (n,).
        top_k: cards that can be checked a day.
    """
    labels = rows["label"].to_numpy(dtype=np.int8)
    both = 0 < labels.sum() < len(labels)
    return {
        "auc_roc": float(roc_auc_score(labels, scores)) if both else None,
        "average_precision": float(average_precision_score(labels, scores)) if both else None,
        "card_precision": card_precision(rows, scores, top_k),
        # a perfect scorer still finds only as many cards as were defrauded
        "card_precision_ceiling": card_precision(rows, labels.astype(float), top_k),
    }


def card_precision(rows: pd.DataFrame, scores: Floats, top_k: int) -> float:
    """Return the share of defrauded cards among the `top_k` most suspicious ones, as a mean over days.

    A card detected on one day is out of the game on the following days. Definition: Le Borgne et al.,
    Fraud Detection Handbook, "card precision top-k".

    Args:
        rows: `event_time`, `customer`, `label`; n rows.
        scores: float, shape (n,).
        top_k: cards that can be checked a day.
    """
    cards = Cards.ranked(rows, scores)
    return cards.precision(np.ones(len(cards.defrauded), dtype=np.int64), top_k)


@dataclass(frozen=True)
class Cards:
    """The cards of some rows, most suspicious first on every day.

    A card is an index into `defrauded`; the indices are the same for any scores of the same rows.

    Attributes:
        days: a day's cards by their highest score, and whether each is defrauded on that day; int64 of shape
            (cards of the day,) both.
        defrauded: whether a card is defrauded on any day, bool of shape (cards,).
    """

    days: list[tuple[Labels, Labels]]
    defrauded: npt.NDArray[np.bool_]

    @classmethod
    def ranked(cls, rows: pd.DataFrame, scores: Floats) -> Self:
        """Rank the cards of labelled rows; equal scores are taken in order of customers.

        Args:
            rows: `event_time`, `customer`, `label`; n rows.
            scores: float, shape (n,).
        """
        frame = pd.DataFrame(
            {
                "day": rows["event_time"].dt.floor("D").to_numpy(),
                "card": pd.factorize(rows["customer"], sort=True)[0],
                "score": scores,
                "label": rows["label"].to_numpy(dtype=np.int64),
            }
        )
        cards = frame.groupby(["day", "card"], sort=True)[["score", "label"]].max().reset_index()
        ranked = cards.sort_values("score", ascending=False, kind="stable").groupby("day", sort=True)
        days = [(day["card"].to_numpy(), day["label"].to_numpy()) for _, day in ranked]
        defrauded = frame.groupby("card", sort=True)["label"].max().to_numpy(dtype=bool)
        return cls(days, defrauded)

    def precision(self, copies: Labels, top_k: int) -> float:
        """Return card precision when every card exists as often as `copies` says, int64 of shape (cards,)."""
        left, precisions = copies.copy(), []
        for cards, defrauded in self.days:
            present = left[cards]
            room = top_k - (present.cumsum() - present)
            detected = np.clip(room, 0, present) * defrauded
            left[cards] -= detected
            precisions.append(int(detected.sum()) / top_k)
        return float(np.mean(precisions)) if precisions else 0.0
