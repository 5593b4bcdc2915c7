"""How wrong versions are about a day's counts."""

from nightshift.tasks import rows
from shop_counts import poisson

WORST = 10.0  # a deviance that counts as entirely wrong


def losses(table, day, uris):
    counts, rates = rows.score_labeled_rows(table, day, uris)
    return [poisson.deviances(counts, predicted) for predicted in rates]


def slices(table, day, columns):
    return rows.select_slices(rows.read_labeled(table, day), columns)
