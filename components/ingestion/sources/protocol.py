"""What every kind of source offers: a day's rows, and what identifies them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class RawRows:
    """A day's rows, not parsed yet.

    Attributes:
        sha256: identity of what the rows are made from.
        load: parses them into a frame under the user's column names; raises UserError on a bad file.
    """

    sha256: str
    load: "Callable[[], pd.DataFrame]"


class EventSource(Protocol):
    """What every kind of source can say."""

    has_fixed_dtypes: ClassVar[
        bool
    ]  # whether the rows of all days have the same dtypes, so that they can be read together

    @property
    def details(self) -> Mapping[str, Any]:
        """What says which state of the source is read, JSON values; nothing where only its days have one."""

    def name(self, day: date) -> str:
        """Return what to call the day's rows in a message."""

    def absence(self, day: date) -> str:
        """Return that there is nothing for a day, for a message."""

    def has(self, day: date) -> bool:
        """Return whether there is anything for a day."""

    def read(self, day: date) -> RawRows:
        """Return a day's rows."""
