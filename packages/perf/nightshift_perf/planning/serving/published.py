"""The planner's throughput beside that of servers that others have measured, from `published.csv`.

`accuracy.yaml` has the errors at sources that a fit has left out; `python -m benchmarks.serving_plans --left-out`
writes it.
"""

import csv
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightshift.runtime import strict_yaml
from nightshift_perf.hardware import gpu
from nightshift_perf.planning.serving.batching import RequestLength, operate
from nightshift_perf.planning.serving.replica import ServingReplica
from nightshift_perf.planning.serving.shapes import read_shape

TABLE, SOURCES, ACCURACY = (
    Path(__file__).with_name(name) for name in ("published.csv", "published.yaml", "accuracy.yaml")
)
MAX_BATCH = 2048  # requests in flight at most, TensorRT-LLM's default


@dataclass(frozen=True)
class PublishedThroughput:
    """A server at full load.

    Attributes:
        publisher: who measured it.
        replica: model, GPU, precision and GPUs.
        request: length of a request.
        tokens_per_gpu: output tokens per second of a GPU.
    """

    publisher: str
    replica: ServingReplica
    request: RequestLength
    tokens_per_gpu: float

    @property
    def error(self) -> float:
        """How far the planner is off, relative to the published figure."""
        room = self.replica.cache_tokens // (self.request.prompt + self.request.output)
        rate = operate(self.replica, self.request, min(room, MAX_BATCH)).rate
        return rate * self.request.output / self.replica.tensor / self.tokens_per_gpu - 1


@dataclass(frozen=True)
class ServingAccuracy:
    """Errors in tokens per second per GPU at points of publishers that the fit had not seen, as shares.

    Attributes:
        points: number of points.
        median: of the absolute errors.
        tail: their 90th percentile.
    """

    points: int
    median: float
    tail: float


def read_points() -> list[PublishedThroughput]:
    """Return the table."""
    sources = strict_yaml.load_document(SOURCES.read_text())
    with TABLE.open(newline="") as file:
        return [_parse(row, sources[row["source"]]["publisher"]) for row in csv.DictReader(file)]


@functools.cache
def read_accuracy() -> dict[str, ServingAccuracy]:
    """Return the errors by the publisher that was left out, and those of all such points as `all`."""
    table: dict[str, Any] = strict_yaml.load_document(ACCURACY.read_text())
    return {name: ServingAccuracy(**row) for name, row in table.items()}


def _parse(row: dict[str, str], publisher: str) -> PublishedThroughput:
    return PublishedThroughput(
        publisher=publisher,
        replica=ServingReplica(read_shape(row["model"]), gpu(row["gpu"]), row["precision"], int(row["tensor"])),
        request=RequestLength(int(row["prompt"]), int(row["output"])),
        tokens_per_gpu=float(row["tokens_per_gpu"]),
    )
