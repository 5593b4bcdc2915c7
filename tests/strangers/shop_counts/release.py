"""How wrong versions are about a day's counts."""

from collections.abc import Sequence
from datetime import date

import numpy as np

from nightshift.contracts.tables import Table
from nightshift.stats.comparison import Floats
from nightshift.tasks import rows
from shop_counts import poisson

MOST = 10.0  # a deviance that counts as entirely wrong


def losses(table: Table, day: date, uris: Sequence[str]) -> list[Floats]:
    counts, rates = rows.scored(table, day, uris)
    return [np.minimum(poisson.deviances(counts, each) / MOST, 1) for each in rates]
