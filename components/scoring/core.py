"""What is kept of an event that was scored."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from components.classes import watched
from components.common.contracts.package import ModelPackage
from components.common.errors import UserError
from components.common.graph import Graph

SCHEMA = 2  # of the columns; a new number makes every day anew
KEYS = ("event_id", "event_time")

Score = Callable[[Any], npt.NDArray[np.float32]]


def classified(
    rows: pd.DataFrame, inputs: npt.NDArray[Any], model: ModelPackage, version: str, graph: Graph
) -> pd.DataFrame:
    """Score images or texts and take each for the class with the highest score.

    Args:
        rows: `KEYS`, n rows.
        inputs: what the graph takes of them, (n, ...).
        model: the manifest of the model.
        version: what it is called.
        graph: of the model.

    Returns:
        a row each, in their order: `KEYS`, what drift compares (`watched.of`) and `model_version`.
    """
    found = watched.of(inputs, model.classes, graph)
    return rows[list(KEYS)].reset_index(drop=True).join(found).assign(model_version=version)


def scored(rows: pd.DataFrame, model: ModelPackage, version: str, score: Score) -> pd.DataFrame:
    """Score some rows and decide at the model's threshold.

    Args:
        rows: `KEYS` and the model's inputs.
        model: the manifest of the model.
        version: what it is called.
        score: gives the probability of the positive class of each row.

    Returns:
        a row each, in their order: `KEYS`, `score` (float32, 0..1), `flagged` (bool) and `model_version`.

    Raises:
        UserError: when the rows lack one of the model's inputs.
    """
    missing = [name for name in model.tabular.columns if name not in rows]
    if missing:
        raise UserError(f"the model needs input {missing[0]!r}, which the features lack; train again")
    scores = score(rows)
    # compared as the endpoint does it: in float32 a threshold would be rounded first
    flagged = scores.astype(float) >= model.threshold
    return rows[list(KEYS)].assign(score=scores, flagged=flagged, model_version=version)
