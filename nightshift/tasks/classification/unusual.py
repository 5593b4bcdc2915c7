"""The newest images or texts that are least like those before, and for comparison those that are most like them."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from nightshift.contracts.section import Block
from nightshift.items.shards import Array
from nightshift.stats import embeddings
from nightshift.stats.embeddings import Floats

SHOWN = 6

# title, `event_id` and `predicted` of some rows, what networks see of them (n, ...) -> a block of the report
Show = Callable[[str, pd.DataFrame, Array], Block]


def blocks(rows: pd.DataFrame, inputs: Array, seen: tuple[Floats, Floats], show: Show) -> list[Block]:
    """Return the least and the most usual rows of a day, by what novelty goes by.

    Args:
        rows: `event_id` and `predicted` of those with an embedding, indexed by their numbers among all.
        inputs: what networks see of all rows of the day, (n, ...).
        seen: embeddings of the reference, (m, width), and of the rows.
        show: how the report has them.
    """
    reference, (newest,) = embeddings.standardize(seen[0], [seen[1]])
    usual_first = rows.iloc[np.argsort(embeddings.distances(newest, reference), kind="stable")]
    ranked = {
        "Of the newest day, what is least like the reference": usual_first[::-1][:SHOWN],
        "Of the newest day, what is most like it": usual_first[:SHOWN],
    }
    return [show(title, rows, inputs[rows.index.to_numpy()]) for title, rows in ranked.items()]
