"""What the features step asks: what models take of events."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from nightshift.config import Config
from nightshift.contracts.feature_shard import FeatureShard
from nightshift.contracts.tables import Partition, Table

if TYPE_CHECKING:
    from nightshift.contracts.section import Block

U = TypeVar("U", bound=Config)  # the use case, in the class of its task


@dataclass(frozen=True)
class FeatureSetup(Generic[U]):
    """What the features of every day are made of.

    Attributes:
        config: the use case.
        lake: root of the tables.
        events: by day.
        device: `cpu` or `cuda`.
        scratch: URI where workers leave what others need.
        dask: the cluster whose workers those are; empty for this process.
    """

    config: U
    lake: str
    events: Table
    device: str
    scratch: str
    dask: str


@dataclass(frozen=True)
class FeatureDetails:
    """What is said of a features table.

    Attributes:
        details: of its manifest.
        sentences: of the report.
        blocks: of the report.
        metrics: of the step.
    """

    details: dict[str, Any]
    sentences: Sequence[str] = ()
    blocks: "Sequence[Block]" = ()
    metrics: Mapping[str, float] = field(default_factory=dict)


class DailyFeatures(ABC):
    """The features of each day, in partitions that are made once."""

    @abstractmethod
    def uri(self, day: date) -> str:
        """Return where a day's partition lies: its name is a hash of all it is made from."""

    @abstractmethod
    def write(self, missing: dict[date, str]) -> dict[date, Partition]:
        """Make and write the partitions of missing days, given by their URIs."""

    def write_shard(self, missing: dict[date, str], number: int, count: int) -> FeatureShard:
        """Make a shard's part of what `join` needs: by default the partitions of some consecutive days.

        Args:
            missing: day -> URI of its partition; may be empty.
            number: of the shard, from 0.
            count: of all shards, which may run at the same time.
        """
        days, size = sorted(missing), math.ceil(len(missing) / count)
        if own := {day: missing[day] for day in days[number * size : (number + 1) * size]}:
            self.write(own)
        return FeatureShard(missing=missing)

    def join(self, missing: dict[date, str], computed: Sequence[FeatureShard]) -> dict[date, Partition]:
        """Make and write the partitions of the days that are missing still, and remove what the shards have left."""
        return self.write(missing) if missing else {}

    @abstractmethod
    def details(self, parts: list[Partition]) -> FeatureDetails:
        """Describe the table of some days, and write what goes with it."""


class FeaturesTask(ABC):
    """What models take of events."""

    @abstractmethod
    def features(self, setup: FeatureSetup[Any]) -> DailyFeatures:
        """Return what makes features.

        Raises:
            UserError: when something that it needs is missing.
        """
