"""What may have changed of pairs: the words of reports; and of each scanner and site, all that drift compares."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import norm

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.drift import PREDICTED, Signal
from nightshift.items import shards
from nightshift.items.labels import decode
from nightshift.stats.embeddings import RARE
from nightshift.stats.shift import Numbers, find_chance_limits
from nightshift.tasks.base.drift import DriftInputs
from nightshift.tasks.classification import drift as classification
from nightshift.tasks.classification.drift import ItemComparison
from nightshift.tasks.items.drift import FEWEST, SHARE, compare_views, stack
from nightshift_image_text.config import ImageTextDriftLimits
from nightshift_image_text.preprocessing import ImageTextPreprocessing
from nightshift_image_text.task import descriptors
from nightshift_image_text.task.subgroups import COLUMNS, find_parts
from nightshift_image_text.task.views import TOKENS

DEVIATIONS = norm.isf(RARE)  # standard errors that chance exceeds once in 1 / `RARE` times
VIEWS = 100  # embeddings of a scanner or site: of fewer, several images of a patient look like drift
Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class ComparedPairs:
    """Pairs, as drift compares them.

    Attributes:
        rows: `descriptors.NAMES`, `predicted`, `embedding`, and `scanner` and `site` where there are such; n rows.
        tokens: of their reports, (n, length).
        pad: the number that fills reports up.
        findings: names of what `predicted` may hold.
    """

    rows: pd.DataFrame
    tokens: npt.NDArray[np.int32]
    pad: int
    findings: Sequence[str]

    def select(self, part: npt.NDArray[np.bool_]) -> "ComparedPairs":
        """Return some of the pairs, bool (n,)."""
        return ComparedPairs(self.rows[part], self.tokens[part], self.pad, self.findings)

    @property
    def vectors(self) -> Floats:
        """The embeddings of those that have one, (m, width)."""
        return stack(self.rows[package.EMBEDDING])


@dataclass(frozen=True)
class PairComparison(ItemComparison):
    """The newest pairs, beside pairs that a model had not seen when it was fitted."""

    def unlabeled_signals(self) -> Iterator[Signal]:
        yield from super().unlabeled_signals()
        limits = self.inputs.config.drift
        assert isinstance(limits, ImageTextDriftLimits)
        yield from compare_words(self._before, self._now, limits)
        for column in COLUMNS:
            if column in self._before.rows and column in self._now.rows:
                yield from compare_parts(column, self._before, self._now, limits)

    @cached_property
    def _before(self) -> ComparedPairs:
        rows = self.inputs.reference
        return self._as_pairs(rows, np.stack(rows["words"].to_list()))

    @cached_property
    def _now(self) -> ComparedPairs:
        inputs, days = self.inputs, [*self.inputs.days.newest]
        read = [*descriptors.NAMES, PREDICTED, package.EMBEDDING]
        scores = pd.concat([storage.read_frame(inputs.scores.partition(day).uri, read) for day in days])
        features = inputs.features.read(days)
        parts = {column: features[column].to_numpy() for column in COLUMNS if column in features}
        tokens = np.concatenate([shards.map_shard(inputs.features.partition(day))[TOKENS] for day in days])
        return self._as_pairs(scores.reset_index(drop=True).assign(**parts), tokens)

    def _as_pairs(self, rows: pd.DataFrame, tokens: npt.NDArray[np.int32]) -> ComparedPairs:
        model = self.inputs.model
        return ComparedPairs(rows, tokens, model.preprocessing_as(ImageTextPreprocessing).pad, model.classes.classes)


class DriftTask(classification.DriftTask):
    """Findings, embeddings, words, scanners and sites."""

    def comparison(self, inputs: DriftInputs[Any]) -> PairComparison:
        return PairComparison(super().comparison(inputs).inputs)


def compare_words(before: ComparedPairs, now: ComparedPairs, limits: ImageTextDriftLimits) -> Iterator[Signal]:
    """Yield the share of words that no report of the reference has, less what is expected, given enough reports.

    What is expected of a report is the share of its words that no other one has, in the reference (Good, The population
    frequencies of species, 1953). Of a report that is there several times, one counts.
    """
    if min(len(before.tokens), len(now.tokens)) < FEWEST:
        return
    known = np.unique(before.tokens, axis=0)
    words, counts = np.unique(np.concatenate([np.setdiff1d(row, before.pad) for row in known]), return_counts=True)
    alone, unseen = _shares(known, words[counts > 1], before.pad), _shares(now.tokens, words, now.pad)
    expected = float(alone.mean())
    value = float(unseen.mean()) - expected
    error = np.hypot(alone.std() / len(alone) ** 0.5, alone.std() / len(unseen) ** 0.5)
    limit = max(limits.unseen_words, float(DEVIATIONS * error))
    reason = (
        f"{unseen.mean():.1%} of the words of a report are none of the {len(words):,} of the reference, "
        f"{expected:.1%} expected (limit {limit:.3f} more)."
    )
    yield Signal(
        name="vocabulary", value=value, limit=limit, unit="share of words", raised=value > limit, reason=reason
    )


def _shares(tokens: npt.NDArray[np.int32], known: npt.NDArray[np.int32], pad: int) -> Floats:
    """Return the share of each report's words that are not known, (n,)."""
    is_word = tokens != pad
    unknown = is_word & ~np.isin(tokens, known)
    shares: Floats = unknown.sum(1) / np.maximum(is_word.sum(1), 1)
    return shares


def compare_parts(
    column: str, before: ComparedPairs, now: ComparedPairs, limits: ImageTextDriftLimits
) -> Iterator[Signal]:
    """Yield which scanners or sites are new, and of the others the one that has changed the most.

    Args:
        column: `scanner` or `site`.
        before: the reference.
        now: the newest pairs.
        limits: of the config.
    """
    known = {name: part for _, name, part in find_parts(before.rows, [column])}
    present = {name: part for _, name, part in find_parts(now.rows, [column])}
    new = {name: int(part.sum()) for name, part in present.items() if name not in known}
    yield count_new(column, new, len(now.rows), limits.novelty)
    changed = []
    for name in sorted(known.keys() & present.keys()):
        sides = before.select(known[name]), now.select(present[name])
        if min(len(side.rows) for side in sides) >= FEWEST:
            changed += [_name_part(column, name, signal) for signal in compare_part(*sides, limits)]
    if changed:
        yield _find_worst(changed)


def count_new(column: str, new: dict[str, int], rows: int, limit: float) -> Signal:
    """Return how many of the newest pairs are of scanners or sites that the reference has not, which it names."""
    count = sum(new.values())
    share = count / max(rows, 1)
    named = ", ".join(f"{name!r} ({pairs})" for name, pairs in new.items())
    reason = f"{count} of {rows} newest pairs are of a {column} that the reference has not"
    return Signal(
        name=f"new_{column}",
        value=share,
        limit=limit,
        unit=SHARE,
        raised=share > limit,
        reason=f"{reason}: {named}." if new else f"{reason}.",
    )


def compare_part(before: ComparedPairs, now: ComparedPairs, limits: ImageTextDriftLimits) -> Iterator[Signal]:
    """Yield how far the pairs of one scanner or site have moved, given enough of both."""
    yield from _compare_numbers(before, now, limits)
    yield from _compare_prevalences(before, now, limits)
    yield from compare_words(before, now, limits)
    views = before.vectors, now.vectors
    if min(map(len, views)) >= VIEWS:
        yield from compare_views(views[0], [views[1]], limits)


def _compare_numbers(before: ComparedPairs, now: ComparedPairs, limits: ImageTextDriftLimits) -> Iterator[Signal]:
    _, chance = find_chance_limits(len(before.rows), len(now.rows))
    limit = max(limits.wasserstein, chance)
    for name in descriptors.NAMES:
        columns = before.rows[name], now.rows[name]
        bins = Numbers.from_reference(columns[0].to_numpy(dtype=float))
        moved = bins.distance(*(bins.count(values, bins.locate(values)) for values in columns))
        if moved is not None:
            means = f"{columns[1].mean():.4g}, {columns[0].mean():.4g} in the reference"
            reason = f"{name} is {means} (Wasserstein {moved:.3f} standard deviations, limit {limit:.3f})."
            yield Signal(
                name=name, value=moved, limit=limit, unit="standard deviations", raised=moved > limit, reason=reason
            )


def _compare_prevalences(before: ComparedPairs, now: ComparedPairs, limits: ImageTextDriftLimits) -> Iterator[Signal]:
    sides = [decode(side.rows[PREDICTED], before.findings) for side in (before, now)]
    for number, name in enumerate(before.findings):
        old, new = (float(flags[:, number].mean()) for flags in sides)
        pooled = float(np.concatenate(sides)[:, number].mean())
        error = (pooled * (1 - pooled) * sum(1 / len(flags) for flags in sides)) ** 0.5
        limit, change = max(limits.prevalence, float(DEVIATIONS * error)), abs(new - old)
        reason = (
            f"{name} is predicted for {new:.1%} of the pairs, {old:.1%} in the reference (limit {limit:.1%} apart)."
        )
        yield Signal(name=name, value=change, limit=limit, unit=SHARE, raised=change > limit, reason=reason)


def _name_part(column: str, name: str, signal: Signal) -> Signal:
    reason = f"Of {column} {name!r}: {signal.reason[0].lower()}{signal.reason[1:]}"
    return signal.model_copy(update={"name": column, "reason": reason})


def _find_worst(signals: Sequence[Signal]) -> Signal:
    """Return the signal that is the farthest beyond its limit, with the number of others beyond theirs."""
    worst = max(signals, key=lambda signal: (signal.value or 0) / signal.limit)
    others = sum(signal.raised for signal in signals) - 1
    return worst.model_copy(update={"reason": f"{worst.reason} {others} more moved."}) if others > 0 else worst
