"""What the drift limits notice of simulated images, and what they leave alone.

A network learns shapes once and is watched over 60 stable days, with the default limits; then each drift sets in. No
label is asked for: a drift is seen by what images look like, what they are taken for and how sure the network is.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from components.classes import images as files
from components.classes.shards import Items, Shards
from components.common import splits
from components.common.config import Config, parse
from components.common.config.classes import Images
from components.common.splits import Days
from components.drift import classes, core
from components.ingestion import pictures
from components.scoring import core as scoring
from components.training import images

FIRST = date(2024, 1, 1)
STABLE_DAYS, WATCHED_DAYS, DELAY = 60, 7, 2
DRIFTS: dict[str, dict[str, Any]] = {
    "brightness x 1.2": {"brightness_factor": 1.2},
    "brightness x 1.5": {"brightness_factor": 1.5},
    "blur of 1 pixel": {"blur": 1.0},
    "new class, 10 % of images": {"new_class": 0.1},
    "new class, 25 % of images": {"new_class": 0.25},
    "volume x 2": {"volume_factor": 2.0},
}
LINEAGE = {"events_sha256": "", "features_sha256": "", "code_version": ""}


def config() -> Config:
    """The use case."""
    parameters = {"epochs": 8, "width": 16, "stages": "1,1", "batch_size": 64}
    return parse(
        {
            "name": "shapes",
            "label_delay_days": 0,
            "source": {"files": "{date}.parquet"},
            "columns": {"event_id": "image_id", "event_time": "time", "image": "image", "label": "label"},
            "simulator": {"items": 200},
            "task": {
                "kind": "image-classification",
                "classes": list(pictures.SHAPES),
                "side": 24,
                "candidates": {"resnet": {"kind": "resnet", "parameters": parameters}},
            },
        }
    )


@dataclass(frozen=True)
class Watch:
    """A network that is watched.

    Attributes:
        config: the use case.
        task: its task.
        graph: of the network.
        package: its manifest.
        reference: what drift is measured against.
        since: the day after the last one it has seen.
    """

    config: Config
    task: Images
    graph: bytes
    package: Any
    reference: pd.DataFrame
    since: date

    def scored(self, day: date, **drifts: Any) -> pd.DataFrame:
        """Score the images of a day."""
        rows, pixels = made(self.config.model_copy(update={"simulator": self._world(day, drifts)}), day)
        return scoring.classified(rows, pixels, self.package, "1", lambda inputs: images.scored(self.graph, inputs))

    def _world(self, day: date, drifts: dict[str, Any]) -> Any:
        return self.config.simulator.model_copy(update={**drifts, "drift_from": str(day)} if drifts else {})

    def raised(self, days: list[pd.DataFrame]) -> list[str]:
        """Return the signals that are raised on the last of some days."""
        limits, window = self.config.drift, days[-self.config.drift.window_days :]
        columns = core.compare(self.reference[classes.COLUMNS], window, classes.NUMERIC, limits)
        found = classes.Found(len(days[-1]), self.config.simulator.items, None, None)
        moved = [column.name for column in columns if column.drifted and column.name != core.SCORE]
        others = [signal.name for signal in classes.signals(columns, found, limits) if signal.raised]
        return [*moved, *(name for name in others if name != "inputs")]


def made(config: Config, day: date) -> tuple[pd.DataFrame, np.ndarray]:
    """Return a day's rows, and what a network sees of them."""
    task = config.task
    assert isinstance(task, Images)
    frame = pictures.day(config.simulator, day).rename(columns={"image_id": "event_id", "time": "event_time"})
    decoded = (files.decoded(image, task.max_pixels, task.side) for image in frame["image"])
    pixels = np.stack([files.square(image, task.side, task.channels) for image in decoded])
    return frame.drop(columns="image").assign(content=frame["event_id"].astype(str)), pixels


def trained(given: Config) -> Watch:
    """Train on the first days."""
    task = given.task
    assert isinstance(task, Images)
    span = splits.plan(given, FIRST).features
    last = FIRST + (span.last - span.first)
    plan = splits.plan(given, last)
    days = [made(given, day) for day in Days(FIRST, last)]
    rows = pd.concat([rows for rows, _ in days], ignore_index=True)
    items = Items(rows, Shards([pixels for _, pixels in days]))
    found = images.train(images.Setting(task, "cpu"), plan, items, LINEAGE)
    graph = found.graphs[found.package.selected]
    return Watch(given, task, graph, found.package, found.reference, last + timedelta(days=1))


def run() -> Iterator[tuple[str, str, str]]:
    """Yield a drift, the days until it was seen, and by what."""
    watch = trained(config())
    accuracy = watch.package.candidates[watch.package.selected].validation["accuracy"]
    yield "(validation accuracy)", "", f"{accuracy:.3f}"
    days = [watch.scored(watch.since + timedelta(days=number)) for number in range(STABLE_DAYS)]
    size = watch.config.drift.window_days
    alarms = [by for number in range(size, STABLE_DAYS + 1) if (by := watch.raised(days[:number]))]
    yield (
        f"none, {STABLE_DAYS} days",
        f"{len(alarms)} false alarms",
        ", ".join(sorted({n for by in alarms for n in by})),
    )
    for name, drifts in DRIFTS.items():
        past = days[:size]
        for number in range(WATCHED_DAYS):
            past = [*past, watch.scored(watch.since + timedelta(days=size + number), **drifts)]
            if by := watch.raised(past):
                yield name, f"day {number + 1}", ", ".join(by)
                break
        else:
            yield name, "not seen", ""


def main() -> None:
    """Print a table."""
    started = time.monotonic()
    table = Table("drift", "seen", "by")
    for row in run():
        table.add_row(*row)
    Console().print(table)
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
