"""What drift compares: of the days on which a network is watched, and of rows it had not seen when it was fitted."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from nightshift.contracts.preprocessing import ClassPreprocessing
from nightshift.items import labels, scorer
from nightshift.items.shards import Array, ItemTable
from nightshift.models.graph import Graph
from nightshift.tasks.classification import descriptors
from nightshift.tasks.items.references import EMBEDDED, KEYS, REFERENCE


@dataclass(frozen=True)
class ItemModel:
    """A model of items.

    Attributes:
        graph: scores them.
        preprocessing: how rows became what it takes, and what each score is of.
        thresholds: of each class, where an item has any number of them.
    """

    graph: Graph
    preprocessing: ClassPreprocessing
    thresholds: Sequence[float] = ()


def describe(inputs: Array, model: ItemModel, embedded: int = EMBEDDED) -> pd.DataFrame:
    """Return what drift compares of some rows.

    Args:
        inputs: what the graph takes of them, (n, ...).
        model: scores them.
        embedded: rows whose embedding is kept, at most.

    Returns:
        numbered from 0: `descriptors.names` and `score`, the highest probability (float32), the class `predicted`, of
        several labels a text of `nightshift.items.labels`, and `embedding`, float32 (width,), null but for one row in
        so many.
    """
    preprocessing, graph = model.preprocessing, model.graph
    scores = scorer.scores(graph, inputs)
    predicted = labels.name_predictions(scores, preprocessing.classes, model.thresholds)
    every = -(-len(inputs) // embedded) or 1
    some = pd.Series([*scorer.embeddings(graph, inputs[::every])], range(0, len(inputs), every), dtype=object)
    description = pd.DataFrame({**descriptors.describe(preprocessing, inputs), "score": scores.max(1)})
    return description.assign(predicted=pd.Series(predicted, dtype=str), embedding=some)


def reference(rows: pd.DataFrame, items: ItemTable, model: ItemModel) -> pd.DataFrame:
    """Return what drift is measured against: `KEYS`, and what drift compares of some rows.

    A network is surer of rows that it was fitted on, and sees them more clearly, than of any others.
    """
    described = describe(items.inputs(rows), model, REFERENCE)
    return rows[KEYS].reset_index(drop=True).join(described)
