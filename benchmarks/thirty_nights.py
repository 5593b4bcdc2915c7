"""Thirty nights of three use cases: what a person is told each night, and what they are woken for.

`.venv/bin/python -m benchmarks.thirty_nights`: each use case has 300 rows a day with a weekly pattern, and a champion
that `nightshift run` has trained. Each night the steps of the pipeline `monitoring` run in this process. On some nights
one thing breaks, on the next it is repaired, and all other nights are drawn alike.
"""

import json
import logging
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from benchmarks import figures
from components.reporting.core import ARTIFACTS
from nightshift import storage
from nightshift.contracts.drift import DriftReport
from nightshift.contracts.section import PAGE, Page
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from tests.e2e.command import nightshift

DELAY, NIGHTS = 7, 30
TRAINED = date(2025, 5, 11)
FIRST = TRAINED - timedelta(days=90)  # what the windows, folds and delays of the config take
WEEK = (1.0, 0.95, 1.0, 1.05, 1.2, 0.9, 0.6)  # Monday first: the share of a usual day's rows
STEPS = {  # step of the pipeline `monitoring` -> steps whose outputs it reads
    "ingestion": [],
    "features": ["events"],
    "scoring": ["features"],
    "drift": ["features", "scores"],
    "monitoring": ["drift"],
}
OUTPUTS = {
    "ingestion": "events",
    "features": "features",
    "scoring": "scores",
    "drift": "drift",
    "monitoring": "request",
}


@dataclass
class DailyEvents:
    """Days of a use case, each drawn by its own seed.

    Attributes:
        name: of the use case.
        shops: entities; 0: rows stand alone.
        rows: a day, on average.
        columns: of the config.
    """

    name: str
    shops: int
    rows: int
    columns: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """The use case's config: the defaults but for what so few rows need."""
        return {
            "name": self.name,
            "label_delay_days": DELAY,
            "source": {"files": "{date}.parquet", "corrections": True},
            "columns": {"event_id": "id", "event_time": "time", "label": "bad", **self.columns},
            "protocol": {"train_days": 28, "test_days": 14, "drop_compromised": False},
            "evaluation": {"top_k": 10, "min_average_precision": 0.05},
            "features": [{"preset": "payments", "windows": ["1d", "7d"]}],
            "task": {
                "kind": "tabular",
                "candidates": {"logistic_regression": {"kind": "logistic_regression"}},
            },
        }

    def find_break(self, night: int) -> tuple[str, str]:
        """Return what breaks in a night and the signal that says so, empty where nothing does."""
        name, signal, _ = BREAKS.get(night, ("", "", None))
        if signal != "ids":
            return name, signal
        return (name, "customers" if "customer" in self.columns else "terminals") if self.shops else ("", "")

    def draw(self, day: date) -> pd.DataFrame:
        """Return a day's rows with their labels; about 4 % are positives."""
        rng = np.random.default_rng([sum(self.name.encode()), day.toordinal()])
        rows = rng.poisson(self.rows * WEEK[day.weekday()])
        minutes = np.sort(rng.integers(0, 1440, rows))
        amount, age = rng.lognormal(3, 1, rows).round(2), rng.normal(40, 12, rows).round(1)
        risk = 1 / (1 + np.exp(-(-4.2 + 1.3 * (np.log(amount + 0.01) - 3) + 0.05 * (age - 40))))
        bad = (rng.random(rows) < risk).astype("int8")
        frame = pd.DataFrame(
            {
                "id": day.toordinal() * 100_000 + np.arange(rows),
                "time": pd.Timestamp(day) + pd.to_timedelta(minutes, unit="min"),
                "amount": amount,
                "age": age,
                "channel": rng.choice(["shop", "web", "phone"], rows, p=[0.6, 0.3, 0.1]),
                "bad": pd.array(bad, dtype="Int8"),
            }
        )
        frame = frame.assign(shop=rng.integers(0, self.shops, rows)) if self.shops else frame
        # what happens to nearly all positives, and to few others, once they are known as such
        return frame.assign(blocked=np.where(bad == 1, rng.random(rows) < 0.97, rng.random(rows) < 0.003).astype(float))


NOTE = (
    "A cell names the signals raised, the same night, on 300 rows a day; the night after, what broke is repaired. "
    "The other nights are drawn alike, with a weekly pattern."
)
LEAK = 27  # the night in which a model is trained with such a column
Change = Callable[[pd.DataFrame], pd.DataFrame]


def _double(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([rows, rows.assign(id=rows["id"] + 50_000)])


def _flood(rows: pd.DataFrame) -> pd.DataFrame:
    risky = np.random.default_rng(0).random(len(rows)) < 0.45
    return rows.assign(amount=rows["amount"].where(~risky, rows["amount"].quantile(0.99) * 3))


def _more_positives(rows: pd.DataFrame) -> pd.DataFrame:
    extra = rows.index[rows["bad"] == 0][: int(rows["bad"].sum())]
    return rows.assign(bad=rows["bad"].mask(rows.index.isin(extra), 1))


def _rename(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(shop="S" + rows["shop"].astype(str).str.zfill(5)) if "shop" in rows else rows


def _new_category(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(channel=rows["channel"].mask(rows.index % 20 == 0, "kiosk"))


# night -> what breaks, the signal that says so, and how the newest day is then; labels and corrections are of past days
BREAKS: dict[int, tuple[str, str, Change | None]] = {
    3: ("labels are late", "unlabeled_days", None),
    6: ("a day is missing", "run failed", None),
    9: ("a day is doubled", "volume", _double),
    12: ("a corrected day has twice the positives", "corrections", None),
    15: ("a new category", "categories", _new_category),
    18: ("amounts in cents", "units", lambda rows: rows.assign(amount=rows["amount"] * 100)),
    21: ("a flood of flags", "flagged", _flood),
    24: ("ids in another form", "ids", _rename),
    LEAK: ("a column that is filled after the outcome", "not promoted", None),
}


@dataclass
class Delivery:
    """What has come by a night, in a folder of files."""

    world: DailyEvents
    folder: Path
    late: set[date] = field(default_factory=set)

    def write(self, day: date, is_labeled: bool, change: Change | None = None) -> None:
        """Write a day's file, its labels null until they have come."""
        rows = self.world.draw(day)
        rows = change(rows) if change else rows
        unknown = {"bad": pd.array([None] * len(rows), dtype="Int8"), "blocked": 0.0}
        rows = rows if is_labeled else rows.assign(**unknown)
        rows.to_parquet(self.folder / f"{day}.parquet")

    def deliver(self, night: int, day: date) -> None:
        """Write what comes before a night's run: the day, labels that are due, and repairs of the night before."""
        broken = BREAKS.get(night - 1, ("", "", None))
        if broken[0] == "a day is missing" or broken[2]:
            self.write(day - timedelta(days=1), is_labeled=False)
        if broken[0] == "a corrected day has twice the positives":
            self.write(day - timedelta(days=12), is_labeled=True)
        name, _, change = BREAKS.get(night, ("", "", None))
        if name != "a day is missing":
            self.write(day, is_labeled=False, change=change)
        if name != "labels are late":
            due = day - timedelta(days=DELAY)
            for past in (due - timedelta(days=1), due):
                self.write(past, is_labeled=True)
        if name == "a corrected day has twice the positives":
            self.write(day - timedelta(days=11), is_labeled=True, change=_more_positives)


@dataclass(frozen=True)
class NightlyResult:
    """What a night's run has said.

    Attributes:
        headline: of its report, or the error.
        raised: signals beyond their limits.
        failed: whether the run has stopped.
    """

    headline: str
    raised: list[str]
    failed: bool = False


@dataclass(frozen=True)
class NightlySteps:
    """The steps of the pipeline `monitoring`, in this process.

    Attributes:
        workspace: of `nightshift run`.
        config: the use case.
        data: folder of its files.
    """

    workspace: Path
    config: dict[str, Any]
    data: Path

    @property
    def state(self) -> str:
        """Where the trained champion is, as the pipeline's parameter."""
        record = next((self.workspace / "runs").glob("*-training-*"))
        command = json.loads((record / "ingestion" / "outcome.json").read_text())["command"]
        return str(command[command.index("--state") + 1])

    def run(self, day: date) -> NightlyResult:
        """Run a night's steps."""
        folder = self.workspace / "nights" / str(day)
        folder.mkdir(parents=True)
        flags = {"config": json.dumps(self.config), "date": str(day), "data": str(self.data), "state": self.state}
        uris = {artifact: str(folder / step / artifact) for step, artifact in OUTPUTS.items()}
        try:
            for step in STEPS:
                body = import_module(f"components.{step}.__main__").body
                body(StepContext(Namespace(**flags, **uris, device="cpu", model=None)))
        except UserError as error:
            return NightlyResult(str(error), ["run failed"], failed=True)
        page = self._report(flags, uris, day)
        report = DriftReport.read(storage.join(uris["drift"], "drift.json"))
        return NightlyResult(page.headline.headline, [signal.name for signal in report.signals if signal.raised])

    def _report(self, flags: dict[str, str], uris: dict[str, str], day: date) -> Page:
        from components.reporting.__main__ import body

        present = {name: uri for name, uri in uris.items() if name in ARTIFACTS}
        inputs = {"artifacts": {name: {"artifacts": [{"uri": uri}]} for name, uri in present.items()}}
        run, root = f"{self.config['name']}-monitoring-{day}", self.workspace / "reports"
        outputs = {name: str(root / run / name) for name in ("summary", "report", "overview")}
        state = json.loads(flags["state"]) | {"runs": str(root)}
        values = flags | {"state": json.dumps(state), "run": run, "device": "cpu"} | outputs
        body(StepContext(Namespace(**values, executor_input={"inputs": inputs})))
        return Page.read(storage.join(str(root), run, PAGE))


def train(folder: Path, config: Path, data: Path, day: date) -> NightlyResult:
    """Run the pipeline `training` of a day, and return the headline of its report."""
    nightshift(folder, "run", "training", "--date", str(day), "--config", str(config), "--data", str(data))
    run = Path(folder, "runs", "latest").resolve()
    decision = json.loads((run / "summary.json").read_text())["verdicts"]["deployment"]["decision"]
    return NightlyResult(
        Page.read(str(run / PAGE)).headline.headline, [] if decision == "promoted" else ["not promoted"]
    )


def train_on_leak(world: DailyEvents, folder: Path, data: Path, day: date) -> NightlyResult:
    """Train with the column that is filled after the outcome among the inputs."""
    numeric, config = [*world.columns["numeric"], "blocked"], folder / "leak.yaml"
    columns = world.config["columns"] | {"numeric": numeric}
    config.write_text(yaml.safe_dump(world.config | {"columns": columns}))
    return train(folder, config, data, day)


def watch(world: DailyEvents, folder: Path) -> Iterator[figures.Row]:
    """Train a champion, then run thirty nights; yield what each has said."""
    data, config = folder / "data", folder / f"{world.name}.yaml"
    data.mkdir()
    config.write_text(yaml.safe_dump(world.config))
    delivery = Delivery(world, data)
    day = FIRST - timedelta(days=1)
    while day < TRAINED:
        day += timedelta(days=1)
        delivery.write(day, is_labeled=day <= TRAINED - timedelta(days=DELAY))
    train(folder, config, data, TRAINED)
    nights = NightlySteps(folder, world.config, data)
    for night in range(NIGHTS):
        day = TRAINED + timedelta(days=night + 1)
        delivery.deliver(night, day)
        result = train_on_leak(world, folder, data, day) if night == LEAK else nights.run(day)
        name, signal = world.find_break(night)
        yield {
            "use case": world.name,
            "night": night + 1,
            "weekday": f"{day:%a}",
            "breaks": name,
            "said": result.headline[:120],
            "woken for": ", ".join(result.raised),
            "right": (signal in result.raised) if name else not result.raised,
        }


WORLDS = (
    DailyEvents(
        "shops", 24, 300, {"terminal": "shop", "amount": "amount", "numeric": ["age"], "categorical": ["channel"]}
    ),
    DailyEvents(
        "cards", 500, 300, {"customer": "shop", "amount": "amount", "numeric": ["age"], "categorical": ["channel"]}
    ),
    DailyEvents("claims", 0, 300, {"amount": "amount", "numeric": ["age"], "categorical": ["channel"]}),
)


def summarize(rows: list[figures.Row]) -> Iterator[figures.Row]:
    """Yield for each break what wakes a person in each use case, then how many other nights did."""
    cases = list(dict.fromkeys(str(row["use case"]) for row in rows))
    for name in dict.fromkeys(str(row["breaks"]) for row in rows if row["breaks"]):
        nights = {row["use case"]: row for row in rows if row["breaks"] == name}
        yield {"breaks": name} | {case: str(nights[case]["woken for"]) if case in nights else "" for case in cases}
    quiet = {case: [row["right"] for row in rows if row["use case"] == case and not row["breaks"]] for case in cases}
    yield {"breaks": "nothing: false alarms"} | {
        case: f"{nights.count(False)} of {len(nights)} nights" for case, nights in quiet.items()
    }


def run() -> list[figures.Row]:
    """Run all nights, print what each has said, then the table, and return the nights."""
    logging.disable(logging.WARNING)
    started = time.perf_counter()
    rows = []
    for world in WORLDS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                for row in watch(world, Path(folder)):
                    print(" | ".join(map(str, row.values())), flush=True)
                    rows.append(row)
            finally:
                nightshift(Path(folder), "stop")  # the endpoint that the training has started
    figures.publish("thirty-nights", list(summarize(rows)), NOTE)
    print(f"{time.perf_counter() - started:.0f} s")
    return rows


if __name__ == "__main__":
    sys.exit(not all(row["right"] for row in run()))
