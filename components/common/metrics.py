"""How good scores are: ranking metrics over rows, and card precision over days."""

from typing import Any, Final, TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.integer[Any]]
NAMES: Final = ("auc_roc", "average_precision", "card_precision", "card_precision_ceiling")


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
    frame = pd.DataFrame(
        {
            "day": rows["event_time"].dt.floor("D").to_numpy(),
            "customer": rows["customer"].to_numpy(),
            "score": scores,
            "label": rows["label"].to_numpy(dtype=np.int8),
        }
    )
    found: set[object] = set()
    precisions = []
    for _, day in frame.groupby("day", sort=True):
        cards = day[~day["customer"].isin(found)].groupby("customer")[["score", "label"]].max()
        # a stable sort, so that equal scores are taken in order of customers
        top = cards.sort_values("score", ascending=False, kind="stable").head(top_k)
        detected = top.index[top["label"] == 1]
        precisions.append(len(detected) / top_k)
        found.update(detected)
    return float(np.mean(precisions)) if precisions else 0.0
