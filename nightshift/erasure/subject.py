"""The entity that is erased: its id, and the ids of its events."""

import re
from dataclasses import dataclass

LONG_NUMBER = 12  # digits from which a number is nobody's count
SHORTEST = 6  # characters of a text that stands for an entity wherever it is written
EVENT_ID, ITEM_ID = "event_id", "item_id"


@dataclass(frozen=True)
class DataSubject:
    """The entity that is erased.

    Attributes:
        role: of the column that holds its id.
        column: the user's name of that column.
        value: its id, in canonical text.
        event_column: the user's name of the column of event ids.
        events: ids of its events, in canonical text.
    """

    role: str
    column: str
    value: str
    event_column: str
    events: frozenset[str] = frozenset()

    @property
    def entity_names(self) -> tuple[str, ...]:
        """What a column of its ids is called."""
        return self.role, self.column

    @property
    def event_names(self) -> tuple[str, ...]:
        """What a column of its events' ids is called."""
        return EVENT_ID, self.event_column, ITEM_ID


def is_distinctive(value: str) -> bool:
    """Return whether a word stands for an entity wherever it is written, even where no column's name says so."""
    if re.fullmatch(r"-?[0-9]+", value):
        return len(value) >= LONG_NUMBER
    letters = sum(character.isalpha() for character in value)
    return len(value) >= SHORTEST and 0 < letters < len(value)
