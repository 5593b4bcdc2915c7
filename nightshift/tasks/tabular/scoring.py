"""Scores of rows, and which of them the model's threshold flags, where it has one."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift import storage
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.runtime.errors import UserError
from nightshift.stats import conformal
from nightshift.tabular.inputs import FrameScorer, matrix
from nightshift.tabular.reasons import Explainer
from nightshift.tasks.base import scoring as base
from nightshift.tasks.named_inputs import name_scores

KEYS = ["event_id", "event_time"]

Score = Callable[[Any], npt.NDArray[np.float32]]
Explain = Callable[[pd.DataFrame], pd.Series]


@dataclass(frozen=True)
class RowScorer(base.DayScorer):
    """A model of rows.

    Attributes:
        model: its manifest.
        score: gives what each row scores.
        explain: gives the reasons of each row's score as JSON; None: nobody has asked for them.
    """

    model: ModelPackage
    score: Score
    explain: Explain | None = None

    def batches(self, features: Table, day: date) -> Iterator[pd.DataFrame]:
        part, columns = features.partition(day), [*KEYS, *self.model.inputs.columns]
        # of a day without rows there is no batch, and its scores need columns all the same
        batches = storage.read_batches(part.uri, columns) if part.rows else [storage.read_frame(part.uri)]
        for rows in batches:
            scored = score_rows(rows, self.model, self.score)
            yield scored.assign(reasons=self.explain(rows)) if self.explain else scored


class ScoringTask(base.ScoringTask):
    """A score a row, and whether it is flagged."""

    def scorer(self, uri: str, model: ModelPackage) -> RowScorer:
        return RowScorer(model, FrameScorer(uri, model).score)

    def explaining_scorer(self, uri: str, model: ModelPackage, reasons: int) -> RowScorer:
        return replace(self.scorer(uri, model), explain=partial(_explain, Explainer.load(uri, model), reasons))


def _explain(explainer: Explainer, most: int, rows: pd.DataFrame) -> pd.Series:
    explained = explainer.explain(matrix(explainer.inputs, rows), most)
    texts = [json.dumps([reason._asdict() for reason in reasons]) for reasons in explained]
    return pd.Series(texts, rows.index, "str")


def score_rows(rows: pd.DataFrame, model: ModelPackage, score: Score) -> pd.DataFrame:
    """Score some rows, and decide at the model's threshold, or say within which interval labels lie, if it has one.

    Args:
        rows: `KEYS` and the model's inputs.
        model: the manifest of the model.
        score: gives what each row scores.

    Returns:
        a row each, in their order: `KEYS`, `score` (float32), and `flagged` (bool), `low` and `high` (float64), or the
        class `predicted`.

    Raises:
        UserError: when the rows lack one of the model's inputs.
    """
    missing = [name for name in model.inputs.columns if name not in rows]
    if missing:
        raise UserError(f"the model needs input {missing[0]!r}, which the features lack; train again")
    scored_rows = rows[KEYS].assign(**name_scores(score(rows), model.preprocessing.labels))
    threshold, interval = model.decision.threshold, model.decision.interval
    if threshold is not None:
        # compared as the endpoint does it: in float32 a threshold would be rounded first
        scored_rows = scored_rows.assign(flagged=scored_rows["score"].astype(float) >= threshold)
    if interval is not None:
        low, high = conformal.bound(scored_rows["score"].to_numpy(), interval)
        scored_rows = scored_rows.assign(low=low, high=high)
    return scored_rows
