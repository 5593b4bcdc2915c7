"""What metrics are called: which there are of a task, once for its gate, report, card, dashboards and JSON."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar

from nightshift.contracts.section import Format


class Direction(StrEnum):
    """Which values of a metric are better."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True)
class Metric:
    """A metric of a task.

    Attributes:
        name: in manifests, verdicts, JSON and dashboards.
        title: for people; `{top_k}` and the like are fields of the config's `evaluation`.
        direction: which values are better.
        format: of its values, as in `nightshift.contracts.section`.
        resample: whether the gate draws it again on resamples of the test rows, which gives it an interval.
        is_headline: whether people are shown it of a training.
        summary: its name in the run's summary, with fields as in `title`; that of the metric where empty.
        bound: the metric that says how much of it is possible; empty where that is 1.
    """

    name: str
    title: str
    direction: Direction = Direction.HIGHER
    format: Format = "score"
    resample: bool = False
    is_headline: bool = False
    summary: str = ""
    bound: str = ""

    @property
    def is_lower_better(self) -> bool:
        """Whether less of it is better."""
        return self.direction is Direction.LOWER


class MetricsTask(ABC):
    """The metrics of a task, which any step may ask for: nothing heavy is imported."""

    # in the order of tables
    metrics: ClassVar[Sequence[Metric]]
    # the metric by which a model is held to what was measured of it
    promise: ClassVar[str]
    # files of an evaluation that hold verdicts of further gates, which a deployment heeds
    gates: ClassVar[Sequence[str]] = ()

    def list_metrics(self, config: Any) -> list[Metric]:
        """Return the metrics with the titles that they have in a use case."""
        return fill_titles(self.metrics, config)

    def list_headline_metrics(self, config: Any) -> list[Metric]:
        """Return those that people are shown of a training."""
        return [metric for metric in self.list_metrics(config) if metric.is_headline]

    def is_lower_better(self, name: str) -> bool:
        """Return whether less of a metric is better."""
        return name in list_lower_better(self.metrics)


def fill_titles(metrics: Sequence[Metric], config: Any) -> list[Metric]:
    """Return metrics with the config's `evaluation` in their titles and names of the summary."""
    limits = config.evaluation.model_dump()
    return [
        replace(metric, title=metric.title.format(**limits), summary=(metric.summary or metric.name).format(**limits))
        for metric in metrics
    ]


def list_lower_better(metrics: Sequence[Metric]) -> tuple[str, ...]:
    """Return the names of the metrics of which less is better."""
    return tuple(metric.name for metric in metrics if metric.is_lower_better)
