"""From frames to a model's input matrix, and from there to scores."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.contracts.package import ModelPackage, read_graph
from nightshift.contracts.preprocessing import Inputs
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError

MAX_CATEGORIES = 100


def seen_in(
    rows: pd.DataFrame, numeric: Iterable[str], categorical: Iterable[str], nullable: Iterable[str] = ()
) -> Inputs:
    """Return the inputs with the categories that occur in some rows, the most frequent `MAX_CATEGORIES`.

    Args:
        rows: the categorical columns.
        numeric: names of the numeric inputs.
        categorical: names of the categorical inputs.
        nullable: those of the numeric inputs whose numbers may be missing.
    """
    categories = {column: _categories(rows[column]) for column in categorical}
    return Inputs(numeric=list(numeric), categorical=categories, nullable=list(nullable))


def matrix(inputs: Inputs, frame: pd.DataFrame) -> npt.NDArray[np.float32]:
    """Return a model's input, float32 of shape (rows, inputs.width), NaN where a number is missing.

    Raises:
        UserError: when a number is missing that must not be.
    """
    if unexpected := missing_inputs(inputs, frame):
        raise UserError(
            f"input {unexpected[0]!r} is missing in some rows, and the model takes none without it; name it in "
            "limits.nullable and train again"
        )
    blocks = [frame[inputs.numeric].to_numpy(dtype=np.float32)]
    # in the order of their names, since that of a mapping does not survive being written as JSON
    for column, categories in sorted(inputs.categorical.items()):
        values = frame[column].astype(str).to_numpy()
        blocks.append((values[:, None] == np.array(categories, dtype=object)[None, :]).astype(np.float32))
    return np.hstack(blocks)


def positions(inputs: Inputs, names: Iterable[str]) -> list[int]:
    """Return which columns of the matrix some inputs have, ascending."""
    owners = list(inputs.numeric)
    for column, categories in sorted(inputs.categorical.items()):
        owners += [column] * len(categories)
    wanted = set(names)
    return [position for position, owner in enumerate(owners) if owner in wanted]


def missing_inputs(inputs: Inputs, frame: pd.DataFrame) -> list[str]:
    """Return the numeric inputs of which some rows lack the number that a model needs."""
    required = [name for name in inputs.numeric if name not in inputs.nullable]
    return [name for name in required if frame[name].isna().any()]


class FrameScorer:
    """Scores frames with one candidate of a model.

    Raises:
        UserError: when a graph's bytes are not those the manifest names.
    """

    def __init__(self, uri: str, package: ModelPackage, candidate: str | None = None) -> None:
        self._inputs = package.inputs
        self.graph = Graph(read_graph(uri, package, candidate or package.selected))

    def score(self, frame: pd.DataFrame) -> npt.NDArray[np.float32]:
        """Return what each row scores, float32 of shape (rows,)."""
        return self.graph.score(matrix(self._inputs, frame))


def _categories(values: pd.Series) -> list[str]:
    # sorted first, so that among equally frequent ones the choice does not depend on the order of rows
    counts = values.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    return sorted(str(value) for value in counts.index[:MAX_CATEGORIES])
