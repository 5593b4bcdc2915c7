"""Small labeled rows a model can learn from, and a config that trains on them."""

import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nightshift.config import Config, parse
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.tasks.base.training import TrainingSetup
from tests.components import samples

# validation: train 12 .. 13, test 15 .. 16; test fold: train 15 .. 16, test 18 .. 19
DATE = "2024-03-20"
NUMERIC = ["amount", "is_night", "risk"]
MODELS: dict[str, Any] = {
    "boosted": {"kind": "xgboost", "parameters": {"n_estimators": 8, "max_depth": 3, "base_score": 0.5}},
    "net": {"kind": "mlp", "parameters": {"hidden": 8, "epochs": 5, "batch_size": 32, "learning_rate": 0.02}},
    "line": {"kind": "logistic_regression", "parameters": {}},
    "forest": {"kind": "random_forest", "parameters": {"n_estimators": 8, "max_depth": 6}},
}


def settings(models: dict[str, Any] | None = None) -> dict[str, Any]:
    """A config as it is written."""
    roles = ("event_id", "event_time", "customer", "terminal", "amount", "label")
    return {
        "name": "tiny",
        "label_delay_days": 1,
        "source": {"files": "{date}.parquet"},
        "columns": {role: role for role in roles},
        "protocol": {"train_days": 2, "test_days": 2},
        "task": {"kind": "tabular", "candidates": models or MODELS},
        "evaluation": {"top_k": 5},
    }


def config(models: dict[str, Any] | None = None) -> Config:
    return parse(settings(models))


def plan(models: dict[str, Any] | None = None) -> splits.Plan:
    return splits.plan(config(models), date.fromisoformat(DATE))


def setup(config: Config, numeric: Sequence[str] = NUMERIC, categorical: Sequence[str] = ("channel",)) -> TrainingSetup:
    """A training on the CPU whose rows are not read from the table."""
    details = {"numeric": [*numeric], "categorical": [*categorical], "events_sha256": "e"}
    return TrainingSetup(config, plan(), Table("features", [], details), "cpu")


def features(rows_a_day: int = 150, seed: int = 0) -> pd.DataFrame:
    """Rows of 2024-03-12 .. 16; large amounts, risky terminals and one channel are more often fraud."""
    rng = np.random.default_rng(seed)
    days = pd.date_range("2024-03-12", "2024-03-16")
    rows = rows_a_day * len(days)
    frame = pd.DataFrame({"event_time": np.repeat(days.to_numpy(dtype="datetime64[us]"), rows_a_day)})
    frame["customer"] = np.arange(rows)
    frame["terminal"] = np.arange(rows) % 50
    frame["amount"] = rng.gamma(2, 50, rows).round(2)
    frame["is_night"] = rng.integers(0, 2, rows).astype(float)
    frame["risk"] = rng.random(rows) ** 3
    frame["channel"] = rng.choice(["shop", "web"], rows)
    logit = frame["amount"] / 40 + 4 * frame["risk"] + (frame["channel"] == "web") - 7
    frame["label"] = pd.array((rng.random(rows) < 1 / (1 + np.exp(-logit))).astype(int), dtype="Int8")
    return frame


def matrix(rows: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The numeric inputs, float32, and labels, int8."""
    frame = features(rows // 5, seed)
    return frame[NUMERIC].to_numpy(dtype=np.float32), frame["label"].to_numpy(dtype=np.int8)


def write_features(folder: Path, frame: pd.DataFrame) -> str:
    """Write a partition a day and the manifest, whose URI is returned."""
    details = {"numeric": NUMERIC, "categorical": ["channel"], "events_sha256": "e" * 64}
    return samples.write_features(folder, frame, **details)


def flags(models: dict[str, Any] | None = None, **values: str) -> list[str]:
    """The flags of a step."""
    defaults = {"config": json.dumps(settings(models)), "date": DATE} | values
    return [part for name, value in defaults.items() for part in (f"--{name}", value)]


def run(component: str, flags: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a step as its own process, warnings as errors."""
    command = [sys.executable, "-W", "error", "-m", f"components.{component}", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
