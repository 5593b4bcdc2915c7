"""Drift since a language model was trained: of the lengths, the bits per byte and the embeddings of texts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property

import pandas as pd

from nightshift import storage
from nightshift.contracts.drift import Promise, Signal
from nightshift.tasks.base import drift as base
from nightshift.tasks.base.drift import DriftInputs
from nightshift.tasks.items.drift import beyond_chance, compare_embeddings
from nightshift_llm.config import LanguageConfig, LanguageDriftLimits
from nightshift_llm.task.metrics import BITS_PER_BYTE
from nightshift_llm.task.scores import COMPARED

UNIT = "bits per byte gained"


@dataclass(frozen=True)
class DocumentComparison(base.Comparison):
    """The newest texts, beside texts that a model had not seen when it was fitted."""

    inputs: DriftInputs[LanguageConfig]

    @cached_property
    def limits(self) -> LanguageDriftLimits:
        rows = sum(self.inputs.features.partition(day).rows for day in self.inputs.days.newest)
        return beyond_chance(self.inputs.config.drift, self.reference, rows)

    @property
    def reference(self) -> pd.DataFrame:
        return self.inputs.reference[[*COMPARED]]

    @property
    def numeric(self) -> list[str]:
        return [*COMPARED]

    def batches(self, days: Iterable[date]) -> Iterator[pd.DataFrame]:
        for day in days:
            yield storage.read_frame(self.inputs.scores.partition(day).uri, [*COMPARED])

    def unlabeled_signals(self) -> Iterator[Signal]:
        yield from compare_embeddings(self.inputs, self.limits)

    def labeled_signals(self) -> Iterator[Signal]:
        if self.inputs.promise is not None:
            partitions = [self.inputs.scores.partition(day) for day in self.inputs.labeled_days]
            scored = pd.concat([storage.read_frame(part.uri, ["bits", "bytes"]) for part in partitions])
            yield compare_with_promise(scored, self.inputs.promise, self.inputs.config.drift)


class DriftTask(base.DriftTask):
    """Bits per byte and embeddings."""

    def comparison(self, inputs: DriftInputs[LanguageConfig]) -> DocumentComparison:
        return DocumentComparison(inputs)


def compare_with_promise(scored: pd.DataFrame, promised: Promise, limits: LanguageDriftLimits) -> Signal:
    """Compare the bits per byte of new texts with the model's reference value.

    Args:
        scored: `bits` and `bytes` of each text.
        promised: of the model.
        limits: of the config.
    """
    limit, texts = limits.bits_per_byte, len(scored)
    if texts < limits.min_rows:
        reason = f"{texts} new texts; at least {limits.min_rows} are needed to judge the model."
        return Signal(name="performance", value=None, limit=limit, unit=UNIT, raised=False, reason=reason)
    reached = float(scored["bits"].sum() / scored["bytes"].sum())
    rise = reached - promised.value
    reason = f"{BITS_PER_BYTE.title} {reached:.3f} of {texts} new texts, {promised.value:.3f} {promised.measured}."
    return Signal(name="performance", value=rise, limit=limit, unit=UNIT, raised=rise > limit, reason=reason)
