"""What drift compares: of the days on which a network is watched, and of rows it had not seen when it was fitted."""

import numpy as np
import pandas as pd

from nightshift.contracts.preprocessing import ClassPreprocessing
from nightshift.data.splits import Plan, apart, rows_of
from nightshift.items import scorer
from nightshift.items.shards import Array, ItemTable
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.tasks.classification import descriptors

KEYS = ["event_id", "event_time"]  # of a row; an id may come again on another day
EMBEDDED = 500  # rows of a day whose embedding is kept
REFERENCE = 2000  # rows, all with their embedding


def describe(inputs: Array, preprocessing: ClassPreprocessing, graph: Graph, embedded: int = EMBEDDED) -> pd.DataFrame:
    """Return what drift compares of some rows.

    Args:
        inputs: what the graph takes of them, (n, ...).
        preprocessing: how rows became that, and what each score is of.
        graph: scores them.
        embedded: rows whose embedding is kept, at most.

    Returns:
        numbered from 0: `descriptors.names` and `score`, the highest probability (float32), the class `predicted`,
        and `embedding`, float32 (width,), null but for one row in so many.
    """
    scores = scorer.scores(graph, inputs)
    predicted = np.array(preprocessing.classes, dtype=object)[scores.argmax(1)]
    every = -(-len(inputs) // embedded) or 1
    some = pd.Series([*scorer.embeddings(graph, inputs[::every])], range(0, len(inputs), every), dtype=object)
    description = pd.DataFrame({**descriptors.describe(preprocessing, inputs), "score": scores.max(1)})
    return description.assign(predicted=pd.Series(predicted, dtype=str), embedding=some)


def reference(rows: pd.DataFrame, items: ItemTable, preprocessing: ClassPreprocessing, graph: Graph) -> pd.DataFrame:
    """Return what drift is measured against: `KEYS`, and what drift compares of some rows.

    A network is surer of rows that it was fitted on, and sees them more clearly, than of any others.
    """
    described = describe(items.inputs(rows), preprocessing, graph, REFERENCE)
    return rows[KEYS].reset_index(drop=True).join(described)


def draw_holdout(rows: pd.DataFrame, plan: Plan, seen: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Return at most `REFERENCE` rows of `plan.before` that a network was not fitted on, drawn by a seed.

    Args:
        rows: of the plan's training days, and of the days before: who they are.
        plan: the windows of the logical date.
        seen: the rows that it was fitted on.
        seed: draws.

    Raises:
        UserError: when there are none.
    """
    holdout = apart(rows_of(rows, plan.before), seen)
    if holdout.empty:
        raise UserError(
            f"{plan.before}: no rows are left for drift to compare with, that share neither group nor content with "
            "the training days; check columns.group, or choose another --date"
        )
    return holdout.iloc[np.sort(np.random.default_rng(seed).permutation(len(holdout))[:REFERENCE])]
