"""How wrong versions are about a day's images or texts, for whoever compares them as labels arrive."""

from collections.abc import Sequence
from datetime import date

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.items import metrics, shards
from nightshift.items.labels import decode
from nightshift.items.metrics import Scores
from nightshift.items.scorer import ClassScorer
from nightshift.runtime.errors import UserError
from nightshift.stats import bootstrap
from nightshift.tasks.base import release as base
from nightshift.tasks.named_inputs import select_group_slices

AT_ONCE = "`nightshift release abort` ends their release, `nightshift promote` promotes one without steps"


class ReleaseTask(base.ReleaseTask):
    """The Brier score of each labeled item, between 0 and 1; of a group, which errs together, its mean.

    It is half the sum over classes where one of them is true, and the mean over classes where any number is.
    """

    worst = 1.0

    def losses(self, table: Table, day: date, uris: Sequence[str]) -> list[Scores]:
        part = table.partition(day)
        rows, inputs = storage.read_frame(part.uri), shards.map_shard(part)
        known = rows["label"].notna().to_numpy()
        labeled = rows.loc[known]
        groups = bootstrap.number_groups(labeled)
        model_losses: list[Scores] = []
        models = {uri: package.load(uri) for uri in uris}
        if len({model.decision.is_multilabel for model in models.values()}) > 1:
            raise UserError(f"task.label_separator: is set for one version and not for another; {AT_ONCE}")
        names = [*dict.fromkeys(name for model in models.values() for name in model.classes.classes)]
        for uri, model in models.items():
            preprocessing = model.classes
            shards.check(table, preprocessing, f"versions of different inputs are not compared: {AT_ONCE}")
            # the whole shard, which is mapped into memory: by now hardly a row has no label
            scores = ClassScorer(uri, model).score(inputs)[known]
            if model.decision.is_multilabel:
                errors = metrics.multilabel_brier(decode(labeled["label"], names), _align(scores, model, names))
            else:
                errors = metrics.half_brier(shards.labels(labeled, preprocessing.classes), scores)
            model_losses.append(np.bincount(groups, errors) / np.bincount(groups))
        return model_losses

    def slices(self, table: Table, day: date, columns: Sequence[str]) -> pd.DataFrame:
        labeled = storage.read_frame(table.partition(day).uri).dropna(subset="label")
        return select_group_slices(labeled, columns)


def _align(scores: Scores, model: ModelPackage, names: Sequence[str]) -> Scores:
    """Return scores of some classes, 0 of those that a model does not know, (n, names)."""
    aligned = np.zeros((len(scores), len(names)))
    aligned[:, [names.index(name) for name in model.classes.classes]] = scores
    return aligned
