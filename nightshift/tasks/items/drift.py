"""How far a network's view of the newest items lies from its view of older ones."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.config.policy import DriftLimits, EmbeddingDriftLimits
from nightshift.contracts import package
from nightshift.contracts.drift import PREDICTED, Signal
from nightshift.stats import embeddings
from nightshift.stats.embeddings import EffectSize, Floats
from nightshift.stats.shift import BINS, find_chance_limits
from nightshift.tasks.base.drift import DriftInputs

SHARE = "share of the rows"  # unit of a signal
UNITS = {"domain_classifier": "ROC AUC above 0.5", "mmd": "maximum mean discrepancy", "novelty": SHARE}
L = TypeVar("L", bound=DriftLimits)
FEWEST, MOST = 20, 2000  # newest rows by which embeddings are compared, all with all


def stack(embedded: pd.Series) -> Floats:
    """Return a column of embeddings as float64 (n, width), without the rows that have none."""
    vectors = embedded.dropna().to_list()
    return np.array(vectors, dtype=float).reshape(len(vectors), -1 if vectors else 0)


def beyond_chance(limits: L, reference: pd.DataFrame, rows: int) -> L:
    """Return limits of columns that samples of these sizes exceed by chance once in 1 / `RARE` times at most.

    Args:
        limits: the config's.
        reference: what is compared; a class that is predicted has more bins than a number where there are many.
        rows: with which it is compared.
    """
    classes = reference[PREDICTED].nunique() if PREDICTED in reference else 0
    psi, distance = find_chance_limits(len(reference), rows, max(BINS, classes))
    return limits.model_copy(update={"psi": max(limits.psi, psi), "wasserstein": max(limits.wasserstein, distance)})


def compare_embeddings(inputs: DriftInputs[Any], limits: EmbeddingDriftLimits) -> Iterator[Signal]:
    """Yield how far a network's view of the newest days lies from its view of the reference; see `compare_views`."""
    uris = (inputs.scores.partition(day).uri for day in inputs.days.newest)
    days = [stack(storage.read_frame(uri, [package.EMBEDDING])[package.EMBEDDING]) for uri in uris]
    yield from compare_views(stack(inputs.reference[package.EMBEDDING]), [rows for rows in days if len(rows)], limits)


def compare_views(reference: Floats, days: Sequence[Floats], limits: EmbeddingDriftLimits) -> Iterator[Signal]:
    """Yield how far the network's view of the newest days lies from its view of the reference, given enough of both.

    Novelty is looked for on the newest day, the newest two and so on: of many rows a day shows it, of few the window.

    Args:
        reference: embeddings, (m, width).
        days: embeddings of each of the newest days that have rows, the newest last, (n, width) each.
        limits: of the config.
    """
    if min(len(reference), sum(map(len, days))) < FEWEST:
        return
    reference, days = embeddings.standardize(reference, days)
    new = [_novelty(rows, effect, limits) for rows, effect in embeddings.novelties(reference, days)]
    yield max(new, key=lambda signal: (signal.value or 0) / signal.limit)
    window = np.concatenate(days)
    window = window[:: -(-len(window) // MOST)]
    separability = embeddings.separability(reference, window)
    reason = f"A classifier tells newest rows from the reference with a ROC AUC of {0.5 + separability.value:.3f}"
    yield _signal("domain_classifier", separability, limits.domain_classifier, reason)
    far = embeddings.discrepancy(reference, window)
    reason = f"The maximum mean discrepancy of newest rows and the reference is {far.value:.3f}"
    yield _signal("mmd", far, limits.mmd, reason)


def _novelty(rows: int, effect: EffectSize, limits: EmbeddingDriftLimits) -> Signal:
    unlike = f"{effect.value:.1%} of the newest {rows:,} rows are less like the reference than"
    return _signal("novelty", effect, limits.novelty, f"{unlike} {embeddings.KNOWN:.0%} of its own")


def _signal(name: str, effect: EffectSize, limit: float, reason: str) -> Signal:
    limit = max(limit, effect.chance)
    sentence = f"{reason} (effect {effect.value:.3f}, limit {limit:.3f})."
    return Signal(
        name=name, value=effect.value, limit=limit, unit=UNITS[name], raised=effect.value > limit, reason=sentence
    )
