"""How good the features are that `config guess` proposes: average precision on later days, beside declarations by hand.

Two simulated worlds, card payments of customers with habits and those of the Fraud Detection Handbook, each with three
seeds. The proposal sees no label; XGBoost of `config guess` is fitted on 60 days and judged on the 28 days that begin a
label delay later.

    python -m benchmarks.feature_proposals             # three seeds of 2,000 customers
    python -m benchmarks.feature_proposals --seeds 1
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from statistics import mean

import numpy as np
import pandas as pd
import xgboost
from sklearn.metrics import average_precision_score

from benchmarks import figures
from nightshift.config import parse
from nightshift.config.tabular import TabularConfig, TabularSimulator
from nightshift.data.guessing.feature_proposal import EventTable, Line, list_lines
from nightshift.data.guessing.proposal import CANDIDATES
from nightshift.data.splits import Days, rows_of
from nightshift.tabular import frames
from nightshift.tasks.tabular.features import core
from nightshift.tasks.tabular.simulator import ROLES, SimulationTask

FIRST, PAST, TRAIN, DELAY, TEST = date(2025, 1, 1), 38, 60, 7, 28
DAYS = [FIRST + timedelta(days=number) for number in range(PAST + TRAIN + DELAY + TEST)]
LENGTHS = ["1d", "7d", "30d"]
PROPOSED = "proposed by config guess"
CUSTOMER: Line = {"entity": "customer", "functions": ["count", "mean"], "column": "amount"}
TERMINAL: Line = {"entity": "terminal", "functions": ["count", "positive_rate"], "windows": LENGTHS}
PAIR: Line = {"functions": ["count", "seconds_since_last"], "windows": ["30d"]}
RARE: list[Line] = [
    {"entity": ["customer", "terminal"]} | PAIR,
    {"entity": "customer", "functions": ["seconds_since_last", "decayed_count(1h)"], "windows": ["7d"]},
    {"entity": "customer", "functions": ["count", "sum"], "column": "amount", "windows": ["1h", "6h"]},
]
PAST_SELF: list[Line] = [
    {"entity": "customer", "functions": ["std", "ratio", "zscore", "max"], "column": "amount", "windows": ["30d"]},
    {"entity": "customer", "functions": ["distinct"], "column": "terminal", "windows": LENGTHS},
    {"entity": "customer", "functions": ["positive_rate", "positive_count"], "windows": LENGTHS},
    {"entity": "terminal", "functions": ["positive_count"], "windows": LENGTHS},
]
CATEGORY: Line = {
    "entity": ["customer", "category"],
    "functions": ["count", "mean", "zscore", "seconds_since_last"],
    "column": "amount",
    "windows": ["7d", "30d"],
}
CALENDAR: Line = {"calendar": ["hour", "day_of_week"]}
PRESET: Line = {"preset": "payments"}


@dataclass(frozen=True)
class SimulatedWorld:
    """A world of payments, and its events of all days."""

    name: str
    simulator: TabularSimulator

    @property
    def categories(self) -> list[str]:
        """The columns of categories."""
        return ["category"] if self.simulator.habits else []

    def make_events(self) -> pd.DataFrame:
        """Make the events under canonical names, in order of time."""
        frame = pd.concat([SimulationTask().day(self.simulator, day) for day in DAYS], ignore_index=True)
        return frame.rename(columns={name: role for role, name in ROLES.items()})

    def configure(self, lines: Sequence[Line]) -> TabularConfig:
        """Return a config with some features."""
        config = parse(
            {
                "name": "simulated",
                "label_delay_days": DELAY,
                "source": {"table": "t.csv"},
                "columns": {role: role for role in ROLES} | {"categorical": self.categories},
                "features": list(lines),
                "task": {"kind": "tabular", "candidates": CANDIDATES},
            }
        )
        assert isinstance(config, TabularConfig)
        return config


def list_declarations(world: SimulatedWorld, events: pd.DataFrame) -> Mapping[str, list[Line]]:
    """Return declarations by name: the default, ones by hand, the proposal."""
    category = [CATEGORY] if world.categories else []
    customer = CUSTOMER | {"windows": ["1h", "6h", *LENGTHS]}
    return {
        "payments, the default": [PRESET],
        "by hand: who, where and when anew": [PRESET, CALENDAR, *RARE, *category],
        "by hand: the past of each": [PRESET, *PAST_SELF],
        "by hand: all of it": [PRESET, CALENDAR, *RARE, *PAST_SELF, *category],
        "by hand: without the preset": [customer, TERMINAL, CALENDAR, RARE[0], RARE[1], *PAST_SELF[:1], *category],
        PROPOSED: list_lines(EventTable(events, 2, "30d"), LENGTHS),
    }


def score(world: SimulatedWorld, events: pd.DataFrame, lines: Sequence[Line]) -> float:
    """Return the average precision on the test days."""
    config = world.configure(lines)
    features = core.features(events, config, frames.backend("cpu"))
    inputs = features[core.numeric_inputs(config)].astype("float32")
    inputs = inputs.join(pd.get_dummies(features[world.categories], dtype="float32") if world.categories else [])
    first, last = DAYS[PAST], DAYS[-1]
    train = rows_of(features, Days(first, first + timedelta(days=TRAIN - 1))).index
    test = rows_of(features, Days(last - timedelta(days=TEST - 1), last)).index
    parameters = config.task.candidates["xgboost"].parameters
    labels = features["label"].to_numpy(np.int8)
    model = xgboost.XGBClassifier(**parameters, n_jobs=2, random_state=0).fit(inputs.loc[train], labels[train])
    return float(average_precision_score(labels[test], model.predict_proba(inputs.loc[test])[:, 1]))


def measure(customers: int, seeds: int) -> Iterator[figures.Row]:
    """Yield the average precision of each declaration in each world, the mean over seeds and each one's."""
    for habits in (True, False):
        scores: dict[str, list[float]] = {}
        for seed in range(seeds):
            simulator = TabularSimulator(customers=customers, terminals=2 * customers, habits=habits, seed=seed)
            world = SimulatedWorld("habits" if habits else "handbook", simulator)
            events = world.make_events()
            for name, lines in list_declarations(world, events).items():
                scores.setdefault(name, []).append(score(world, events, lines))
        for name, values in scores.items():
            row: dict[str, figures.Cell] = {"data": world.name, "features": name, "mean": round(mean(values), 3)}
            yield row | {f"seed {seed}": round(value, 3) for seed, value in enumerate(values)}


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="worlds of each kind (default: %(default)s)")
    parser.add_argument("--customers", type=int, default=2000, help="of each world (default: %(default)s)")
    args = parser.parse_args()
    figures.publish("feature-proposals", [*measure(args.customers, args.seeds)])


if __name__ == "__main__":
    main()
