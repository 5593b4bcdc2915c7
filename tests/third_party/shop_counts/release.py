"""How wrong versions are about a day's counts."""

from nightshift.tasks import named_inputs
from nightshift.tasks.base import release as base
from shop_counts import poisson


class ReleaseTask(base.ReleaseTask):
    worst = 10.0  # a deviance that counts as entirely wrong

    def losses(self, table, day, uris):
        counts, rates = named_inputs.score_labeled_rows(table, day, uris)
        return [poisson.deviances(counts, predicted) for predicted in rates]

    def slices(self, table, day, columns):
        return named_inputs.select_slices(named_inputs.read_labeled(table, day), columns)
