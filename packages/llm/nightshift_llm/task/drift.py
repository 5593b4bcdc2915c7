"""Drift since a language model was trained: of the lengths, the bits per byte and the embeddings of texts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property

import pandas as pd

from nightshift import storage
from nightshift.contracts.drift import Promise, Signal
from nightshift.contracts.section import Block
from nightshift.tasks.classification.drift import beyond_chance, compare_embeddings
from nightshift.tasks.protocol import DriftInputs
from nightshift_llm.config import LanguageConfig, LanguageDriftLimits
from nightshift_llm.task.metrics import TITLE
from nightshift_llm.task.scores import COMPARED

UNIT = "bits per byte gained"


@dataclass(frozen=True)
class DocumentComparison:
    """The newest texts, beside texts that a model had not seen when it was fitted."""

    inputs: DriftInputs[LanguageConfig]

    @cached_property
    def limits(self) -> LanguageDriftLimits:
        """Effect sizes above which something has drifted, and that few texts do not exceed by chance."""
        rows = sum(self.inputs.features.partition(day).rows for day in self.inputs.days.newest)
        return beyond_chance(self.inputs.config.drift, self.reference, rows)

    @property
    def reference(self) -> pd.DataFrame:
        """What drift compares, of the days before the training."""
        return self.inputs.reference[[*COMPARED]]

    @property
    def numeric(self) -> list[str]:
        """The columns that are compared as numbers: all of them."""
        return [*COMPARED]

    def batches(self, days: Iterable[date]) -> Iterator[pd.DataFrame]:
        """Yield what drift compares, a day each."""
        for day in days:
            yield storage.read_frame(self.inputs.scores.partition(day).uri, [*COMPARED])

    def unlabeled_signals(self) -> Iterator[Signal]:
        """Yield how far the network's view of the newest texts lies from its view of the reference."""
        yield from compare_embeddings(self.inputs, self.limits)

    def labeled_signals(self) -> Iterator[Signal]:
        """Yield how well the model predicts the texts of the newest days that it was not trained on."""
        if self.inputs.promise is not None:
            partitions = [self.inputs.scores.partition(day) for day in self.inputs.labeled_days]
            scored = pd.concat([storage.read_frame(part.uri, ["bits", "bytes"]) for part in partitions])
            yield compare_with_promise(scored, self.inputs.promise, self.inputs.config.drift)

    def examples(self) -> list[Block]:
        """Return texts that are worth a look: none, since a report is read by more people than they are."""
        return []


def comparison(inputs: DriftInputs[LanguageConfig]) -> DocumentComparison:
    """Return the comparison of the newest texts."""
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
    reason = f"{TITLE} {reached:.3f} of {texts} new texts, {promised.value:.3f} {promised.measured}."
    return Signal(name="performance", value=rise, limit=limit, unit=UNIT, raised=rise > limit, reason=reason)
