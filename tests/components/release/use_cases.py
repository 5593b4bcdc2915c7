"""Use cases in which versions are released: three versions, of which the third is right, and days of labels."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.linear_model import LogisticRegression

from nightshift import registry
from nightshift.contracts import tables
from nightshift.items import shards
from tests.components import pictures, samples, topics

ROWS = 2000
GRADUAL = {"release": {"gradual": True}}


@dataclass(frozen=True)
class UseCase:
    """A use case and its features.

    Attributes:
        config: of a use case with three versions.
        folder: of its lake and of `features.json`.
        began: when a release begins; what is labeled two days later and was not then is `labeled`.
        observations: on these days.
    """

    config: dict[str, Any]
    folder: Path
    began: datetime
    observations: int

    @property
    def labeled(self) -> list[date]:
        """The days whose labels arrive during the release."""
        first = self.began.date() - timedelta(days=self.config["label_delay_days"])
        return [first + timedelta(days=number) for number in range(3)]

    @property
    def name(self) -> str:
        return str(self.config["name"])

    @property
    def first(self) -> str:
        """The logical date when a release begins."""
        return str(self.began.date() - timedelta(days=1))

    @property
    def last(self) -> str:
        """The logical date by which all labels have arrived."""
        return str(self.began.date() + timedelta(days=2))


def tabular(folder: Path) -> UseCase:
    """Days from 2024-03-14 on; of `stocked`, version 3 has it right: `sigmoid(0.3 amount + 0.1 count + 0.2)`."""
    random, parts = np.random.default_rng(0), []
    for day in (date(2024, 3, 14) + timedelta(days=number) for number in range(8)):
        rows = pd.DataFrame({"event_id": np.arange(ROWS), "event_time": pd.Timestamp(day), "channel": "shop"})
        rows["amount"], rows["customer_count_1d"] = random.normal(0, 10, ROWS), 0.0
        chance = 1 / (1 + np.exp(-(0.3 * rows["amount"] + 0.2)))
        rows["label"] = pd.array((random.random(ROWS) < chance).astype(int), dtype="Int8")
        uri = tables.partition_uri(str(folder / "lake"), "fraud", "features", day, "0" * 16)
        parts.append(tables.write_partition(uri, day, rows, {}))
    tables.write_table(str(folder / "features.json"), tables.Table("features", parts, {}))
    config = samples.CONFIG | GRADUAL | {"name": "fraud"}
    return UseCase(config, folder, datetime(2024, 3, 16, 2, tzinfo=UTC), 3 * ROWS)


def images(folder: Path) -> UseCase:
    return _simulated(folder, pictures.CONFIG, pictures.model, lambda pixels: pixels.reshape(len(pixels), -1), 255)


def texts(folder: Path) -> UseCase:
    def counted(tokens: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.stack([np.bincount(row, minlength=topics.CONFIG["task"]["vocabulary"]) for row in tokens])

    return _simulated(folder, topics.CONFIG, topics.model, counted, 1)


def _simulated(
    folder: Path,
    config: dict[str, Any],
    model: Callable[..., str],
    weighed: Callable[[npt.NDArray[Any]], npt.NDArray[Any]],
    largest: int,
) -> UseCase:
    """Ingest simulated days and make their shards; the third model was fitted on all of them, the others on nothing."""
    pictures.ingest(folder, config)
    table, _ = pictures.feature(folder, config)
    rows = table.read(date.fromisoformat(part.date) for part in table.partitions)
    seen = np.concatenate([shards.map_shard(part) for part in table.partitions])
    fit = LogisticRegression(fit_intercept=False, max_iter=200)
    line = fit.fit(weighed(seen) / largest, shards.labels(rows, config["task"]["classes"]))
    for number, weights in ((1, None), (2, None), (3, line.coef_.T / largest)):
        model(folder / f"model-{number}", number, weights)
    return UseCase(config | GRADUAL, folder, datetime(2024, 3, 8, 2, tzinfo=UTC), 3 * config["simulator"]["items"])


def register(stocked: str, use_case: UseCase) -> None:
    """Have its versions, where the registry has not."""
    if use_case.name not in registry.require_names(stocked):
        for number in (1, 2, 3):
            registry.register(stocked, use_case.name, str(use_case.folder / f"model-{number}"), {}, {})
