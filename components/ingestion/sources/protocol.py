"""What every kind of source offers: a day's rows, and what identifies them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from nightshift.contracts.access_log import OpenedFile

if TYPE_CHECKING:
    import pandas as pd

FAULT = "source.fault"  # column of a source's own: the rule by which it rejects a row, null where it does not


@dataclass(frozen=True)
class DayAccount:
    """What a source says of a day's rows beside them.

    Attributes:
        counts: what it has counted -> how often; the page of the run shows the sums.
        opened: persons' files it has opened, for the access log.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    opened: Sequence[OpenedFile] = ()


@dataclass(frozen=True)
class RawRows:
    """A day's rows, not parsed yet.

    Attributes:
        sha256: identity of what the rows are made from.
        load: parses them into a frame under the user's column names; raises UserError on a bad file.
        account: says what the source knows of the rows once they are loaded.
    """

    sha256: str
    load: "Callable[[], pd.DataFrame]"
    account: Callable[[], DayAccount] = DayAccount


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
