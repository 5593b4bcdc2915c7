"""How sure a metric of classes is: the bootstrap of the test rows by group, seeded.

What is drawn is a group with all of its rows, since those of one patient, author or camera err together; without groups
it is a row. The seed is fixed, so two scorers of the same rows see the same resamples, and the difference of their
metrics is paired.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift.items.metrics import Labels, macro_f1

RESAMPLES = 200
SEED = 0

Floats = npt.NDArray[np.float64]


def groups(rows: pd.DataFrame) -> Labels:
    """Return the number of each row's group, (n,): that of the row itself where there are no groups."""
    if "group" not in rows:
        return np.arange(len(rows))
    return pd.factorize(rows["group"])[0].astype(np.int64)


def resample(labels: Labels, predicted: Labels, groups: Labels, classes: int) -> dict[str, Floats]:
    """Return `accuracy` and `macro_f1` of every resample of the groups, (`RESAMPLES`,) each.

    Args:
        labels: numbers of classes, (n,).
        predicted: the same, as a scorer has it.
        groups: number of each row's group, from 0, (n,).
        classes: how many there are.
    """
    cells = labels * classes + predicted
    counted = (np.bincount(cells, weights[groups], classes**2) for weights in draws(int(groups.max()) + 1))
    counts = np.stack([count.reshape(classes, classes) for count in counted])
    hits, rows = np.trace(counts, axis1=1, axis2=2), counts.sum((1, 2))
    return {"accuracy": hits / rows, "macro_f1": macro_f1(counts)}


def draws(groups: int) -> Iterator[Floats]:
    """Yield how often each group is drawn in each resample, (groups,)."""
    random = np.random.default_rng(SEED)
    for _ in range(RESAMPLES):
        yield np.bincount(random.integers(0, groups, groups), minlength=groups).astype(float)
