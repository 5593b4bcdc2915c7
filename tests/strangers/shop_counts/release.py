"""How wrong versions are about a day's counts."""

import numpy as np

from nightshift.tasks import rows
from shop_counts import poisson

MOST = 10.0  # a deviance that counts as entirely wrong


def losses(table, day, uris):
    counts, rates = rows.scored(table, day, uris)
    return [np.minimum(poisson.deviances(counts, each) / MOST, 1) for each in rates]
