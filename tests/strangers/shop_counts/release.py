"""How wrong versions are about a day's counts."""

from collections.abc import Sequence
from datetime import date

import numpy as np

from nightshift.contracts import package
from nightshift.contracts.tables import Table
from nightshift.stats.comparison import Floats
from nightshift.tabular.inputs import Scorer
from shop_counts import poisson

MOST = 10.0  # a deviance that counts as entirely wrong


def losses(table: Table, day: date, uris: Sequence[str]) -> list[Floats]:
    rows = table.read([day]).dropna(subset="label")
    counts, rates = rows["label"].to_numpy(dtype=float), [Scorer(uri, package.load(uri)).score(rows) for uri in uris]
    return [np.minimum(poisson.deviances(counts, each) / MOST, 1) for each in rates]
