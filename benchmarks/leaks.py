"""Which columns `nightshift config guess` asks about, of leaks and of honest columns that tell the outcome well.

Each table is generated with a seed of its own: 500 to 20,000 rows, of which .5 to 60 % are positive, at least 30. Each
has a leak of one of four kinds, which half of them spell as text, and each second one an honest column beside it that
tells the outcome as well as an honest one may: of likelihood ratios up to 12, or an AUC up to .95.

    python -m benchmarks.leaks                # 40 tables
    python -m benchmarks.leaks --tables 1000
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from statistics import NormalDist

import numpy as np
import pandas as pd

from benchmarks import figures
from nightshift.data.guessing import profiles, roles
from nightshift.data.guessing.profiles import Reading
from nightshift.data.guessing.roles import Choices

NOW = datetime(2026, 1, 1)
LEAST_POSITIVES = 30
Rng = np.random.Generator
Values = np.ndarray
Kind = Callable[[Rng, Values], Values]  # a leak of the outcomes of a table's rows


@dataclass(frozen=True)
class GeneratedTable:
    """A table, and what is known of its columns.

    Attributes:
        frame: texts, as they are read from a file.
        leak: the kind of its leak, in the column of that name.
        honest: the kind of its honest column; empty where it has none.
    """

    frame: pd.DataFrame
    leak: str
    honest: str


def _pick(rng: Rng, outcome: Values, of_positives: float, of_others: float) -> Values:
    """Return which rows show a sign, of a share of the positives and of the others."""
    return rng.random(len(outcome)) < np.where(outcome, of_positives, of_others)


def _spell(rng: Rng, numbers: Values) -> Values:
    """Return numbers with two decimals, or names of thirty things."""
    if rng.random() < 1 / 2:
        return numbers.round(2).astype(str)
    return np.char.add("v", rng.integers(0, 30, len(numbers)).astype(str))


def _nearly_empty(rng: Rng, outcome: Values) -> Values:
    """Empty on all positives, and on .1 to 5 % of the others."""
    return np.where(_pick(rng, outcome, 1, rng.uniform(0.001, 0.05)), "", _spell(rng, rng.gamma(2, 30, len(outcome))))


def _filled_in(rng: Rng, outcome: Values) -> Values:
    """Filled in on 92 to 100 % of the positives, and on up to 4 % of the others."""
    is_filled = _pick(rng, outcome, rng.uniform(0.92, 1), rng.uniform(0, 0.04))
    return np.where(is_filled, _spell(rng, rng.gamma(2, 30, len(outcome))), "")


def _one_value(rng: Rng, outcome: Values) -> Values:
    """One value on 93 to 100 % of the positives, and on up to 4 % of the others, which have 1 to 40 more."""
    others = rng.integers(1, rng.integers(2, 41), len(outcome))
    values = np.where(_pick(rng, outcome, rng.uniform(0.93, 1), rng.uniform(0, 0.04)), 0, others)
    return np.char.add("s" if rng.random() < 1 / 2 else "", values.astype(str))


def _beyond_threshold(rng: Rng, outcome: Values) -> Values:
    """A number above a threshold on 93 to 100 % of the positives and up to 4 % of the others, or below it."""
    is_beyond = _pick(rng, outcome, rng.uniform(0.93, 1), rng.uniform(0, 0.04))
    numbers = np.where(is_beyond, 100, 0) + rng.gamma(2, 10, len(outcome)).clip(0, 99)
    return (numbers * rng.choice([-1, 1])).round(rng.integers(0, 3)).astype(str)


def _honest_score(rng: Rng, outcome: Values) -> Values:
    """A number with an AUC of .85 to .95."""
    apart = NormalDist().inv_cdf(rng.uniform(0.85, 0.95)) * 2**0.5
    return (rng.normal(size=len(outcome)) + apart * outcome).round(3).astype(str)


def _honest_sign(rng: Rng, outcome: Values) -> Values:
    """Which rows show a sign of a likelihood ratio of 5 to 12, on 40 to 95 % of the positives."""
    recall = rng.uniform(0.4, 0.95)
    return _pick(rng, outcome, recall, recall / rng.uniform(5, 12))


def _honest_value(rng: Rng, outcome: Values) -> Values:
    """One value of 2 to 20 with such a sign."""
    others = rng.integers(1, rng.integers(2, 20), len(outcome))
    return np.char.add("c", np.where(_honest_sign(rng, outcome), 0, others).astype(str))


def _honest_gap(rng: Rng, outcome: Values) -> Values:
    """Numbers that are missing with such a sign."""
    return np.where(_honest_sign(rng, outcome), "", rng.gamma(2, 30, len(outcome)).round(2).astype(str))


def _honest_tail(rng: Rng, outcome: Values) -> Values:
    """Amounts of which the largest are all positive: 20 to 50 % of the positives."""
    is_large = _pick(rng, outcome, rng.uniform(0.2, 0.5), 0)
    return (rng.gamma(2, 30, len(outcome)).clip(0, 300) + 300 * is_large).round(2).astype(str)


LEAKS: dict[str, Kind] = {
    "empty on all positives and some others": _nearly_empty,
    "filled in on most positives and few others": _filled_in,
    "one value of most positives and few others": _one_value,
    "beyond a threshold on most positives and few others": _beyond_threshold,
}
HONEST: dict[str, Kind] = {
    "a number with an AUC up to .95": _honest_score,
    "a value with a likelihood ratio up to 12": _honest_value,
    "gaps with a likelihood ratio up to 12": _honest_gap,
    "amounts of which the largest are positive": _honest_tail,
}


def generate(number: int) -> GeneratedTable:
    """Return one of the tables."""
    rng = np.random.default_rng(number)
    rows = int(np.exp(rng.uniform(np.log(500), np.log(20_000))))
    share = max(LEAST_POSITIVES / rows, np.exp(rng.uniform(np.log(0.005), np.log(0.6))))
    outcome = rng.permutation(np.arange(rows) < share * rows)
    seconds = np.sort(rng.integers(0, 90 * 86_400, rows))
    times = (np.datetime64("2025-03-01") + seconds.astype("timedelta64[s]")).astype(str)
    kinds = list(LEAKS), list(HONEST)
    leak, honest = kinds[0][number % 4], kinds[1][number // 2 % 4] if number % 2 else ""
    columns = {"id": np.arange(rows).astype(str), "at": times, "fraud": outcome.astype(int).astype(str)}
    columns |= {"leak": LEAKS[leak](rng, outcome)} | ({"honest": HONEST[honest](rng, outcome)} if honest else {})
    frame = pd.DataFrame(columns, dtype=str)
    return GeneratedTable(frame.mask(frame == ""), leak, honest)


def find_questions(table: GeneratedTable) -> set[str]:
    """Return which of the two columns are left out and asked about."""
    profile = profiles.profile(table.frame, Reading(",", NOW))
    left_out = roles.assign(profile.columns, Choices(label="fraud")).left_out
    return {name for name, reason in left_out.items() if "known before the outcome?" in reason}


def measure(tables: int) -> Iterator[tuple[str, bool]]:
    """Return the kind of each column, and whether it was asked about."""
    for table in map(generate, range(tables)):
        questions = find_questions(table)
        yield table.leak, "leak" in questions
        if table.honest:
            yield table.honest, "honest" in questions


def main() -> None:
    """Print, and with RECORD=1 record, how many columns of each kind were asked about."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=40, help="how many to generate (default: %(default)s)")
    columns = list(measure(parser.parse_args().tables))
    groups = {"all leaks": set(LEAKS), "all honest columns": set(HONEST)}
    kinds = {kind: {kind} for kind in [*LEAKS, *HONEST]}
    rows = [
        _count(name, [is_left_out for kind, is_left_out in columns if kind in members])
        for name, members in (kinds | groups).items()
    ]
    figures.publish("leaks", rows)


def _count(name: str, left_out: list[bool]) -> figures.Row:
    share = sum(left_out) / len(left_out)
    return {"column": name, "columns": len(left_out), "asked about": sum(left_out), "%": 100 * share}


if __name__ == "__main__":
    main()
