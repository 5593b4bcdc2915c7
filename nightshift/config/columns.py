"""What the user's columns are called, and what each of them holds."""

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from nightshift.config.section import ConfigSection


class Holds(StrEnum):
    """What a column holds, which decides how ingestion reads and judges it."""

    IDENTIFIER = "identifier"
    TIME = "time"
    AMOUNT = "amount"
    FILE = "file"
    TEXT = "text"
    LABEL = "label"
    NUMBER = "number"
    CATEGORY = "category"


# fields of a section of columns: one column, if any, or several that keep their names
Identifier = Annotated[str | None, Holds.IDENTIFIER]
Amount = Annotated[str | None, Holds.AMOUNT]
Numbers = Annotated[list[str], Holds.NUMBER]
Categories = Annotated[list[str], Holds.CATEGORY]


@dataclass(frozen=True)
class Column:
    """A column that is read.

    Attributes:
        field: of the section, which names it.
        name: the user's.
        holds: what it holds.
        is_further: whether its field names several columns, which keep their names inside the pipeline.
    """

    field: str
    name: str
    holds: Holds
    is_further: bool

    @property
    def role(self) -> str:
        """Its name inside the pipeline."""
        return self.name if self.is_further else self.field


class Columns(ConfigSection):
    """The user's column name for each role; a task adds roles of its own."""

    # names of columns that the features step and the scoring add
    RESERVED: ClassVar[re.Pattern[str]] = re.compile("score")

    event_id: Annotated[str, Holds.IDENTIFIER] = Field(description="id of an event, which no other has on whatever day")
    event_time: Annotated[str, Holds.TIME] = Field(description="when it happened: timestamps, or ISO 8601 text")

    @model_validator(mode="after")
    def _no_column_twice(self) -> Self:
        twice = sorted(name for name, count in Counter(self.names).items() if count > 1)
        if twice:
            raise ValueError(f"column {twice[0]!r} is given more than one role; give each column one")
        further = [column.name for column in self.read if column.is_further]
        if reserved := list(filter(self.is_reserved, further)):
            raise ValueError(
                f"further column {reserved[0]!r} has a name that is used inside the pipeline; give it another in "
                f"source.columns: {{input_{reserved[0]}: {{column: {reserved[0]}}}}}"
            )
        return self

    @classmethod
    def is_reserved(cls, name: str) -> bool:
        """Return whether a further column may not have a name, since the pipeline uses it."""
        return name in cls.model_fields or cls.RESERVED.fullmatch(name) is not None

    @cached_property
    def read(self) -> list[Column]:
        """All columns that are read, in the order of an events partition: roles, the label, further columns."""
        columns = [column for field in type(self).model_fields for column in self._named_by(field)]
        return sorted(columns, key=lambda column: (column.is_further, column.holds is Holds.LABEL))

    @property
    def roles(self) -> dict[str, str]:
        """Role -> the user's column name, of the roles that are named; without further columns."""
        return {column.role: column.name for column in self.read if not column.is_further}

    @property
    def names(self) -> list[str]:
        """The user's names of all columns that are read."""
        return [column.name for column in self.read]

    def holding(self, *kinds: Holds) -> dict[str, str]:
        """Return name inside the pipeline -> the user's, of the columns that hold one of some kinds of values."""
        return {column.role: column.name for column in self.read if column.holds in kinds}

    def _named_by(self, field: str) -> list[Column]:
        metadata, value = type(self).model_fields[field].metadata, getattr(self, field)
        holds = next(item for item in metadata if isinstance(item, Holds))
        names = value if isinstance(value, list) else [] if value is None else [value]
        return [Column(field, name, holds, is_further=isinstance(value, list)) for name in names]


class LabeledColumns(Columns):
    """The columns of a task whose rows have labels."""

    label: Annotated[str, Holds.LABEL] = Field(
        description="what is to be predicted: 0, 1, true or false; a class, where task has classes, or with "
        "task.label_separator any number of them"
    )
