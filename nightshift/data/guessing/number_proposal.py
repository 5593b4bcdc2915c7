"""The config that a table suggests whose label is a number."""

from collections.abc import Iterator
from typing import Any

from nightshift.data.guessing import lengths
from nightshift.data.guessing.daily_counts import DailyCounts
from nightshift.data.guessing.roles import Roles

# lengths of windows, days of training, days of test: the first for which there are enough days
VARIANTS: tuple[tuple[list[int], int, int], ...] = (
    ([7, 28], 56, 14), ([7, 28], 28, 14), ([7, 28], 28, 7), ([7], 14, 7), ([7], 7, 7)
)  # fmt: skip
BOOSTING = {"n_estimators": 150, "learning_rate": 0.1, "max_depth": 4, "tree_method": "hist"}


def list_candidates(roles: Roles) -> dict[str, Any]:
    """Return candidates that suit the labels: counts are from 0 and whole."""
    known = roles.label.dropna()
    is_count = bool((known >= 0).all() and (known == known.round()).all())
    objective = "count:poisson" if is_count else "reg:squarederror"
    return {
        "xgboost": {"kind": "xgboost", "parameters": {"objective": objective, **BOOSTING}},
        "ridge": {"kind": "ridge"},
    }


def fit_first(configs: list[dict[str, Any]], counts: DailyCounts) -> tuple[dict[str, Any], list[str]]:
    """Return the first config for which the table has enough days, with windows, and a sentence about these.

    Raises:
        UserError: when it has too few for all of them.
    """
    return lengths.fit_longest([*_vary(configs)], counts)


def _vary(configs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for config in configs:
        for windows, train_days, test_days in VARIANTS:
            protocol = {"train_days": train_days, "test_days": test_days}
            yield config | {"task": config["task"] | {"windows_days": windows}, "protocol": protocol}
