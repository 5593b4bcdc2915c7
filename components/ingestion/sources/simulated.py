"""The embedded data as a source."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from components.ingestion.sources.protocol import RawRows
from nightshift import storage, tasks
from nightshift.config.source import Simulator

if TYPE_CHECKING:
    import pandas as pd

# part of a simulated day's identity: raise it when simulator.py makes other rows from the same config
SIMULATOR_VERSION = 1


@dataclass(frozen=True)
class Simulated:
    """The embedded data, which has every day."""

    has_fixed_dtypes: ClassVar = True
    details: ClassVar[Mapping[str, Any]] = {}  # each day has a hash of its own
    config: Simulator
    labels_due: date
    kind: str

    def name(self, day: date) -> str:
        """Return what to call the day's rows in a message."""
        return f"the simulator's {day}"

    def absence(self, day: date) -> str:
        """Return that there is nothing for a day, for a message."""
        return f"{self.name(day)} does not exist"

    def has(self, day: date) -> bool:  # noqa: ARG002  # it has every day
        """Return whether there is anything for a day."""
        return True

    def read(self, day: date) -> RawRows:
        """Return a day's rows; they are made only when they are loaded."""
        arrived = self.config.labels_arrived(day, self.labels_due)
        made_from = [SIMULATOR_VERSION, self.kind, self.config.model_dump(), day, arrived]
        return RawRows(storage.fingerprint(made_from), partial(self._make, day))

    def _make(self, day: date) -> "pd.DataFrame":
        return tasks.find(self.kind).simulator.day(self.config, day, self.labels_due)
