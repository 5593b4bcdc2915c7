"""How wrong versions are about a day's events, for whoever compares them as labels arrive."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.contracts import package
from nightshift.contracts.tables import Table
from nightshift.tabular.inputs import Scorer

Floats = npt.NDArray[np.floating[Any]]


def losses(table: Table, day: date, uris: Sequence[str]) -> list[Floats]:
    """Return the squared error of each labeled event's score by some models, float64 (n,) a model, between 0 and 1.

    Args:
        table: the features.
        day: the events'.
        uris: folders of the models.
    """
    rows = table.read([day])
    rows = rows.loc[rows["label"].notna()]
    labels = rows["label"].to_numpy(dtype=np.float64)
    scores = [Scorer(uri, package.load(uri)).score(rows) for uri in uris]
    return [np.square(each.astype(np.float64) - labels) for each in scores]
