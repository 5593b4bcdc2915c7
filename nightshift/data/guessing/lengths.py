"""The shortest windows of training and test that hold enough positives for a decision."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, timedelta
from itertools import product
from typing import Any

from nightshift.config import parse
from nightshift.data.guessing.daily_counts import DailyCounts
from nightshift.data.splits import Days, Plan, lookback, plan
from nightshift.runtime.errors import UserError

MIN_POSITIVES = 50  # positives of the test days, which decide; the schema's default
FEWEST_POSITIVES = 20
WINDOWS: list[list[str]] = [["1d", "7d", "30d"], ["1d", "7d", "14d"], ["1d", "7d"], ["1d"]]
WEEK = 7
USUAL_TRAINING = 14  # days
Config = dict[str, Any]


def fit_first(configs: list[Config], counts: DailyCounts) -> tuple[Config, list[str]]:
    """Return the first config for which the table has enough days, with windows, and sentences about these.

    Raises:
        UserError: when it has too few for all of them.
    """
    *preferred, last = configs
    for config in preferred:
        with suppress(UserError):
            return _fit(config, counts)
    return _fit(last, counts)


def fit_longest(variants: list[Config], counts: DailyCounts) -> tuple[Config, list[str]]:
    """Return the first of some configs for which the table has enough days, and a sentence about its windows.

    Raises:
        UserError: when it has too few for all of them.
    """
    span = counts.span
    for config in variants:
        if list_days(config, span.last).events.first >= span.first:
            protocol = config["protocol"]
            days = f"{protocol['train_days']} days of training and {protocol['test_days']} of test"
            return config, [f"{days} are the longest usual windows that the table has room for."]
    needed = len([*list_days(variants[-1], span.last).events])
    raise UserError(
        f"the table has {len(counts.rows)} days, {span}, and the shortest windows need {needed}; bring more days, or "
        "give a shorter --label-delay"
    )


def list_days(config: Config, last: date) -> Plan:
    """Return the days of a run of a config as in a YAML file; columns that decide none are not parsed."""
    keys = {role: column for role, column in config["columns"].items() if isinstance(column, str)}
    return plan(parse(config | {"columns": keys, "limits": {}}), last)


def _fit(config: Config, counts: DailyCounts) -> tuple[Config, list[str]]:
    """Return a config with the first windows that hold enough positives, or with those that hold most."""
    best: tuple[Config, int] | None = None
    for variant in _variants(config, len(counts.rows)):
        positives = _count_positives(variant, counts)
        if positives is not None and (best is None or best[1] < positives):
            best = variant, positives
        if best and best[1] >= MIN_POSITIVES:
            break
    if best is None:
        raise UserError(_too_few(config, counts))
    variant, positives = best
    lowest = max(FEWEST_POSITIVES, positives * 3 // 4)  # other days have fewer
    gate = {} if lowest >= MIN_POSITIVES else {"min_positives": lowest}
    return variant | {"evaluation": gate}, [*_describe(variant["protocol"], positives, lowest)]


def _describe(protocol: dict[str, Any], positives: int, lowest: int) -> Iterator[str]:
    days = f"{protocol['train_days']} days of training and {protocol['test_days']} of test"
    if positives >= MIN_POSITIVES:
        yield f"{days} are the shortest windows with {MIN_POSITIVES} positives to test: these hold {positives:,}."
    elif positives >= FEWEST_POSITIVES:
        yield f"The file has room for {days}, which hold {positives:,} positives; with more days, raise them."
    else:
        yield (
            f"No windows that the file has room for hold the {FEWEST_POSITIVES} positives that a decision takes: of "
            f"{days} the test days hold {positives:,}. Runs train models, and promote none: bring more days."
        )
    if lowest < MIN_POSITIVES:
        yield f"{lowest} positives are to decide on a promotion (evaluation.min_positives), usually {MIN_POSITIVES}."


def _variants(config: Config, days: int) -> Iterator[Config]:
    has_entities = bool({"customer", "terminal"} & config["columns"].keys())
    for windows, (train_days, test_days) in product(WINDOWS if has_entities else [[]], _lengths(days)):
        protocol: dict[str, Any] = {"train_days": train_days, "test_days": test_days}
        protocol |= {"drop_compromised": False} if has_entities else {}
        yield config | {
            "features": [{"preset": "payments"} | ({"windows": windows} if windows else {})],
            "protocol": protocol,
        }


def _lengths(days: int) -> Iterator[tuple[int, int]]:
    """Yield days of training and of test, whole weeks: as many of both, at least the usual, then half of training."""
    tests = [WEEK * weeks for weeks in range(1, max(1, days // (2 * WEEK)) + 1)]
    yield from ((max(USUAL_TRAINING, test), test) for test in tests)
    yield from ((WEEK * max(1, test // WEEK // 2), test) for test in tests)


def _count_positives(variant: Config, counts: DailyCounts) -> int | None:
    """Return the positives of the test days of a run for the last day; none where it has none to train or select with.

    None where the table does not reach back so far.
    """
    days = list_days(variant, counts.span.last)
    if days.events.first < counts.span.first:
        return None
    windows = (days.validation.train, days.validation.test, days.test.train, days.test.test)
    *others, test = (_sum_up(counts, window) for window in windows)
    return test if all(others) else 0


def _sum_up(counts: DailyCounts, days: Days) -> int:
    return int(counts.positives[str(days.first) : str(days.last)].sum())


def _too_few(config: Config, counts: DailyCounts) -> str:
    *_, smallest = sorted(_variants(config, len(counts.rows)), key=_count_days, reverse=True)
    parts = " + ".join(f"{days} ({key})" for days, key in lookback(parse(smallest)))
    have = len(counts.rows)
    return (
        f"the rows are of {have} days, {counts.span}, and a run needs at least {_count_days(smallest)}: {parts}; bring "
        "more days, or give a shorter --label-delay"
    )


def _count_days(variant: Config) -> int:
    last = date(2024, 1, 1) + timedelta(days=36_500)
    events = list_days(variant, last).events
    return (events.last - events.first).days + 1
