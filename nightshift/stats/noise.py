"""What effect sizes show where days are drawn alike: a block bootstrap of entities and of days.

Rows of one entity are alike, and so are those of one day, so 300 rows of 24 shops say less than 300 rows of 300. What
a block adds to the difference of two distributions is linearized, and weighted at random (the wild cluster bootstrap:
Cameron, Gelbach & Miller, Bootstrap-based improvements for inference with clustered errors, 2008), with Student's t
for few blocks. Entities are compared with themselves, so that how they differ from each other is no noise. Blockings
that overlap are added as in Robust inference with multiway clustering, 2011, by the same authors.
"""

from collections.abc import Hashable, Iterable, Mapping
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]

FALSE_ALARMS = 0.01  # false alarms of a signal a night, on days drawn alike
PREFIX, DAY = "block of ", "block of day"  # prefix of the columns that name a row's blocks
BLOCKS = 1 << 16  # to which identifiers are hashed, which nobody can read from them
FEWEST, MOST, CELLS = 32, 256, 1 << 20  # blocks of a comparison, and counts of blocks in memory
FEWEST_DEGREES = 6  # degrees of freedom, a week's: with fewer, Student's t would hide every break
RESAMPLES, SEED, USUAL = 500, 0, 0.95


def name_blocks(rows: pd.DataFrame, entities: Iterable[str], days: Any) -> pd.DataFrame:
    """Return the blocks that rows lie in, uint16 in a column each: of their day, then of each kind of entity.

    Args:
        rows: with the columns `entities`; n of them.
        entities: columns of identifiers.
        days: on which the rows lie: one date, or `datetime64` (n,).
    """
    ordinal = days.toordinal() if isinstance(days, date) else np.asarray(days, "datetime64[D]").astype(np.int64)
    blocks: dict[str, Any] = {DAY: np.broadcast_to(ordinal % BLOCKS, len(rows)).astype(np.uint16)}
    for name in entities:
        hashed = pd.util.hash_array(rows[name].astype(str).to_numpy(dtype=object))
        blocks[PREFIX + name] = (hashed % BLOCKS).astype(np.uint16)
    return pd.DataFrame(blocks, index=rows.index)


def list_blocks(columns: Iterable[Hashable]) -> list[str]:
    """Return those of some columns that name blocks."""
    return [str(name) for name in columns if str(name).startswith(PREFIX)]


def list_entities(columns: Iterable[Hashable]) -> list[str]:
    """Return the columns of identifiers whose blocks are among some columns."""
    return [name.removeprefix(PREFIX) for name in list_blocks(columns) if name != DAY]


def limit_blocks(bins: int) -> int:
    """Return into how many blocks rows are put, of comparisons of so many bins."""
    return 1 << (min(max(CELLS // max(bins, 1), FEWEST), MOST).bit_length() - 1)


def draw(before: Mapping[str, Floats], now: Mapping[str, Floats]) -> Floats:
    """Return by how much the shares of bins differ by chance, (RESAMPLES, bins).

    Args:
        before: rows of the reference by blocking, block and bin, (blocks, bins) each.
        now: the same of the newest rows.
    """
    parts = [
        _contribute_days(before[name], now[name]) if name == DAY else _contribute_entities(before[name], now[name])
        for name in before
    ]
    parts = [part for part in parts if len(part) > 1]
    first = next(iter(before))
    if not parts:
        return np.zeros((RESAMPLES, before[first].shape[1]))
    random = np.random.default_rng(SEED)
    drawn = np.sum([_weigh(random, len(part)) @ part for part in parts], axis=0)
    by_chance: Floats = drawn * _overlap(parts, _spread_of_rows(before[first]) + _spread_of_rows(now[first]))
    return by_chance


def find_limits(effects: list[Floats], limits: Floats, allowed: int) -> Floats:
    """Return limits of effect sizes that more than `allowed` columns exceed once in 1 / `FALSE_ALARMS` nights at most.

    Args:
        effects: by chance, of each column: (RESAMPLES, measures).
        limits: below which no effect size counts, (measures,).
        allowed: columns that may have drifted.

    Returns:
        (columns, measures), at least `limits`.
    """
    drawn = np.stack(effects)
    scale = np.maximum(np.quantile(drawn, USUAL, axis=1), np.finfo(float).tiny)
    ratios = np.where(drawn > limits, drawn / scale[:, None], 0).max(axis=2)
    most = np.sort(ratios, axis=0)[max(len(ratios) - 1 - allowed, 0)]
    above: Floats = np.maximum(limits, scale * np.quantile(most, 1 - FALSE_ALARMS))
    return above


def count_allowed(columns: int, share: float) -> int:
    """Return how many of some columns may have drifted before their share exceeds one."""
    return max(count for count in range(columns + 1) if count / max(columns, 1) <= share)


def _contribute_entities(before: Floats, now: Floats) -> Floats:
    """Return what each entity adds to the difference; (entities, bins)."""
    met = (before.sum(axis=1) + now.sum(axis=1)) > 0
    parts = _contribute(now[met]) - _contribute(before[met])
    return parts * _correct(len(parts))


def _contribute_days(before: Floats, now: Floats) -> Floats:
    """Return what as many days as there are newest ones add, by how the reference's days differ; (days, bins).

    By what its days differ beyond what their rows do, the newest ones do too.
    """
    days, newest = before[before.sum(axis=1) > 0], max(int(np.count_nonzero(now.sum(axis=1))), 1)
    parts = _contribute(days) * _correct(len(days))
    spread, by_row = _spread(parts), _spread_of_rows(before)
    expected = spread + max(spread - by_row, 0) * len(days) / newest + _spread_of_rows(now)
    return parts * float(np.sqrt(expected / spread)) if spread else parts


def _contribute(counts: Floats) -> Floats:
    """Return what blocks add to the shares of their bins, beyond their part of the rows; (blocks, bins)."""
    rows = max(float(counts.sum()), 1)
    parts: Floats = (counts - counts.sum(axis=1, keepdims=True) * (counts.sum(axis=0) / rows)) / rows
    return parts


def _correct(blocks: int) -> float:
    return float(np.sqrt(blocks / max(blocks - 1, 1)))


def _weigh(random: np.random.Generator, blocks: int) -> Floats:
    """Return weights of blocks, (RESAMPLES, blocks), that are Student's t for few of them."""
    degrees = max(blocks - 1, FEWEST_DEGREES)
    spread = np.sqrt(random.chisquare(degrees, (RESAMPLES, 1)) / degrees)
    weights: Floats = random.standard_normal((RESAMPLES, blocks)) / spread
    return weights


def _overlap(parts: list[Floats], by_row: float) -> float:
    """Return the factor that takes out what several blockings count more than once: how rows differ."""
    spreads = np.array([_spread(part) for part in parts])
    total = float(spreads.sum())
    joint = max(total - (len(parts) - 1) * by_row, float(spreads.max()))
    return float(np.sqrt(joint / total)) if total else 1.0


def _spread(parts: Floats) -> float:
    """Return the variance of a distribution function that blocks add to, all bins together: few bins in a row count."""
    return float(np.square(np.cumsum(parts, axis=1)).sum())


def _spread_of_rows(counts: Floats) -> float:
    """Return the same where rows are independent; 0 without rows."""
    bins = counts.sum(axis=0, dtype=np.float64)
    reached = np.cumsum(bins) / max(bins.sum(), 1)
    return float((reached * (1 - reached)).sum() / max(bins.sum(), 1))
