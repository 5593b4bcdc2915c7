"""What a day costs when many days lie behind it: ingestion and features of new days, in a short and in a long lake."""

import argparse
import json
import statistics
import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path

from benchmarks import figures
from benchmarks.steps import run_steps
from components.features import __main__ as features
from components.ingestion import __main__ as ingestion
from nightshift.runtime.context import StepContext
from pipelines import configs
from pipelines.environments import local

STEPS = ("ingestion", "features")
HISTORIES = (30, 180)  # days that have run before
LAST = date(2024, 9, 30)  # the last of these days
REPEATS = 5
RATIO = 1.15  # at most


def fill(workspace: Path, days: int) -> None:
    """Run the two steps for so many days in a row, all in this process."""
    config, state = json.dumps(configs.load("fraud")), json.dumps(local(workspace).dump())
    for age in reversed(range(days)):
        day = str(LAST - timedelta(days=age))
        events, table = (str(workspace / day / name) for name in STEPS)
        shared = {"config": config, "date": day, "state": state, "events": events}
        ingestion.body(StepContext(argparse.Namespace(**shared, data="simulator")))
        features.body(StepContext(argparse.Namespace(**shared, features=table, device="cpu")))


def seconds(workspace: Path, day: date) -> float:
    """Return what the two steps of the next day take, each in its process as in a run."""
    folder = run_steps(STEPS, "fraud", "simulator", str(day), workspace)
    steps = json.loads((folder / "run.json").read_text())["steps"]
    return float(sum(step["seconds"] for step in steps.values()))


def run() -> dict[str, float]:
    """Print the seconds of a new day after each history, taken in turn, and return them."""
    with tempfile.TemporaryDirectory() as root:
        workspaces = {days: Path(root, str(days)) for days in HISTORIES}
        for days, workspace in workspaces.items():
            print(f"filling a lake with {days} days")
            fill(workspace, days)
        seconds_by_history: dict[int, list[float]] = {days: [] for days in HISTORIES}
        for repeat in range(REPEATS):
            for days, workspace in workspaces.items():
                seconds_by_history[days].append(seconds(workspace, LAST + timedelta(days=repeat + 1)))
    medians = {days: statistics.median(values) for days, values in seconds_by_history.items()}
    short, long = (medians[days] for days in HISTORIES)
    rows = [{"days in the lake": days, "seconds of a new day": median} for days, median in medians.items()]
    note = f"Ingestion and features, medians of {REPEATS}; ratio {long / short:.3f} (at most {RATIO})."
    figures.publish("history", rows, note)
    return {"short": short, "long": long, "ratio": long / short}


if __name__ == "__main__":
    sys.exit(run()["ratio"] > RATIO)
