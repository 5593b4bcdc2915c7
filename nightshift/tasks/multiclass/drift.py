"""What may have changed of rows of classes beside how far columns have moved: accuracy, and unlearned classes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from nightshift.config.multiclass import MulticlassConfig
from nightshift.contracts.drift import PREDICTED, Signal
from nightshift.tasks.base import drift as base
from nightshift.tasks.base.drift import DriftInputs
from nightshift.tasks.classification.drift import DueItems, count_unlearned, performance
from nightshift.tasks.named_inputs import ReferenceComparison


@dataclass(frozen=True)
class MulticlassComparison(ReferenceComparison):
    """The newest rows of a table of classes, beside a model's training rows."""

    inputs: DriftInputs[MulticlassConfig]

    def labeled_signals(self) -> Iterator[Signal]:
        limits = self.inputs.config.drift
        if any(self._due.unlearned.values()):
            yield count_unlearned(self._due, limits.unlearned)
        if self.inputs.promise is not None:
            yield performance(self._due, self.inputs.promise, limits)

    @cached_property
    def _due(self) -> DueItems:
        batches = [rows.loc[rows["label"].notna(), ["label", PREDICTED]]
                   for rows in self.batches(self.inputs.labeled_days)]  # fmt: skip
        rows = pd.concat(batches) if batches else pd.DataFrame({"label": [], PREDICTED: []})
        unlearned = {name: int((rows["label"] == name).sum()) for name in self.inputs.model.lineage.unlearned}
        return DueItems(len(rows), int((rows["label"] == rows[PREDICTED]).sum()), unlearned)


class DriftTask(base.DriftTask):
    """Accuracy and unlearned classes."""

    def comparison(self, inputs: DriftInputs[MulticlassConfig]) -> MulticlassComparison:
        return MulticlassComparison(inputs)
