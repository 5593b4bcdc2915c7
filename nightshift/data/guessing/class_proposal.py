"""The config that a table suggests whose label is one class of several."""

from collections.abc import Iterator
from itertools import product
from typing import Any

from nightshift.data.guessing import lengths
from nightshift.data.guessing.daily_counts import DailyCounts
from nightshift.data.guessing.roles import Roles

Config = dict[str, Any]
WINDOWS = (["7d", "28d"], ["7d"], ["1d"])
DAYS = ((28, 14), (28, 7), (14, 7), (7, 7))  # of training and of test: the first for which there are enough days


def describe_task(roles: Roles, candidates: Config) -> Config:
    """Return the section `task`."""
    task = {"kind": "tabular-classification", "classes": roles.classes, "candidates": candidates}
    return task | {"amount_decimals": roles.decimals}


def set_limits(roles: Roles) -> Config:
    """Return limits by which a model has to be better than always the most frequent class."""
    return {"min_accuracy": round(float(roles.label.dropna().value_counts(normalize=True).iloc[0]), 3)}


def fit_first(configs: list[Config], counts: DailyCounts) -> tuple[Config, list[str]]:
    """Return the first config for which the table has enough days, with windows, and a sentence about these.

    Raises:
        UserError: when it has too few for all of them.
    """
    return lengths.fit_longest([variant for config in configs for variant in _vary(config)], counts)


def _vary(config: Config) -> Iterator[Config]:
    entities = [role for role in ("customer", "terminal") if role in config["columns"]]
    for (train_days, test_days), windows in product(DAYS, WINDOWS if entities else WINDOWS[:1]):
        features = [{"entity": entity, "functions": ["count"], "windows": windows} for entity in entities]
        yield config | {"features": features, "protocol": {"train_days": train_days, "test_days": test_days}}
