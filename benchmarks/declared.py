"""Average precision of fraud's declared features beside the preset's, on the test days of three simulated worlds.

`python -m benchmarks.declared`: the shipped XGBoost, fitted on the shipped declaration and on `preset: payments` alone.
"""

from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import xgboost
from sklearn.metrics import average_precision_score

from benchmarks import figures
from nightshift.config import parse
from nightshift.config.tabular import TabularConfig
from nightshift.data import splits
from nightshift.stats import bootstrap
from nightshift.stats.bootstrap import TAILS
from nightshift.tabular import frames
from nightshift.tasks.tabular.compromise import test_rows
from nightshift.tasks.tabular.features import core
from nightshift.tasks.tabular.simulator import SimulationTask
from pipelines import configs

Labels = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]

DATE = date(2025, 6, 30)
SEEDS = range(3)


def simulate(config: TabularConfig) -> pd.DataFrame:
    """Return the simulated events of a run, under their canonical names."""
    names = {column.name: column.role for column in config.columns.read}
    days = [SimulationTask().day(config.simulator, day) for day in splits.plan(config, DATE).events]
    return pd.concat(days, ignore_index=True).rename(columns=names).astype({"label": "Int8"})


def score(config: TabularConfig, events: pd.DataFrame) -> tuple[Labels, Floats]:
    """Return labels and scores of the test days' rows."""
    fold, inputs = splits.plan(config, DATE).test, core.numeric_inputs(config)
    rows = core.features(events, config, frames.backend("cpu"))
    train, test = splits.rows_of(rows, fold.train), test_rows(rows, fold, config.protocol)
    model = xgboost.XGBClassifier(**config.task.candidates["xgboost"].parameters)
    model.fit(train[inputs], train["label"].astype(int))
    return test["label"].to_numpy(int), model.predict_proba(test[inputs])[:, 1]


def compare(seed: int) -> figures.Row:
    """Return a row of the table: both in a world, and their difference over resamples of the test rows."""
    measured = []
    for features in ({}, {"features": [{"preset": "payments"}]}):
        config = parse(configs.load("fraud") | {"simulator": {"seed": seed}} | features)
        assert isinstance(config, TabularConfig)
        measured.append(score(config, simulate(config)))
    (labels, declared), (_, preset) = measured
    gains = bootstrap.average_precision(labels, declared) - bootstrap.average_precision(labels, preset)
    low, gain, high = np.quantile(gains, [TAILS[0], 0.5, TAILS[1]])
    before, after = (average_precision_score(labels, scores) for scores in (preset, declared))
    interval = f"{gain:+.3f} [{low:+.3f}, {high:+.3f}]"
    return {"world": f"seed {seed}", "preset": f"{before:.3f}", "declared": f"{after:.3f}", "gain": interval}


if __name__ == "__main__":
    figures.publish(
        "declared", [*map(compare, SEEDS)], "Average precision on the test days; gain with its 95 % interval."
    )
