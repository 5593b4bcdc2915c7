"""What effect sizes show where days are drawn alike: a block bootstrap of entities and of days.

Rows of one entity are alike, and so are those of one day, so 300 rows of 24 shops say less than 300 rows of 300. What
a block adds to the difference of two distributions is linearized, and weighted at random (the wild cluster bootstrap:
Cameron, Gelbach & Miller, Bootstrap-based improvements for inference with clustered errors, 2008), with Student's t
for few blocks. Entities are compared with themselves, so that how they differ from each other is no noise. Blockings
that overlap are added as in Robust inference with multiway clustering, 2011, by the same authors.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.floating[Any]]
Ints = npt.NDArray[np.integer[Any]]

FALSE_ALARMS = 0.01  # of a signal a night, on days drawn alike
PREFIX, DAY = "block of ", "block of day"  # of columns that name a row's blocks
BLOCKS = 1 << 16  # to which identifiers are hashed, which nobody can read from them
FEWEST, MOST, CELLS = 32, 256, 1 << 20  # blocks of a comparison, and counts of blocks in memory
FEWEST_DEGREES = 6  # of freedom: a week; with fewer, Student's t would hide every break
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


def list_blocks(columns: Iterable[str]) -> list[str]:
    """Return those of some columns that name blocks."""
    return [name for name in columns if str(name).startswith(PREFIX)]


def list_entities(columns: Iterable[str]) -> list[str]:
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
    if not parts:
        return np.zeros((RESAMPLES, next(iter(before.values())).shape[1])) if before else np.zeros((RESAMPLES, 0))
    random = np.random.default_rng(SEED)
    drawn = sum((_weigh(random, len(part)) @ part for part in parts), np.zeros(1))
    first = next(iter(before))
    return drawn * _overlap(parts, _row_variance(before[first], now[first]))


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
    return np.maximum(limits, scale * np.quantile(most, 1 - FALSE_ALARMS))


def count_allowed(columns: int, share: float) -> int:
    """Return how many of some columns may have drifted before their share exceeds one."""
    return next(count for count in range(columns, -1, -1) if count <= share * max(columns, 1))


def _contribute_entities(before: Floats, now: Floats) -> Floats:
    """Return what each entity adds to the difference; (entities, bins)."""
    met = (before.sum(axis=1) + now.sum(axis=1)) > 0
    parts = _contribute(now[met]) - _contribute(before[met])
    return parts * _correct(len(parts))


def _contribute_days(before: Floats, now: Floats) -> Floats:
    """Return what as many days as there are newest ones add, by how the reference's days differ; (days, bins)."""
    days, newest = before[before.sum(axis=1) > 0], max(np.count_nonzero(now.sum(axis=1)), 1)
    return _contribute(days) * _correct(len(days)) * float(np.sqrt(1 + len(days) / newest))


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


def _overlap(parts: list[Floats], row_variance: float) -> float:
    """Return the factor that takes out what several blockings count more than once."""
    variances = [float(np.square(part).sum()) for part in parts]
    joint = max(sum(variances) - (len(parts) - 1) * row_variance, *variances)
    return float(np.sqrt(joint / sum(variances))) if sum(variances) else 1.0


def _row_variance(before: Floats, now: Floats) -> float:
    """Return the variance of all shares together where rows are independent."""
    sides = [side.sum(axis=0) for side in (before, now)]
    return float(sum((1 - np.square(side / side.sum()).sum()) / side.sum() for side in sides if side.sum()))

