"""The online state at the end of a logical date, as a file of arrays: what the windows of later events need."""

from datetime import date
from typing import Literal

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part
from nightshift.contracts.preprocessing import FeatureSpec

SUFFIX = ".state"


class Events(Part):
    """What a raw event looks like."""

    columns: dict[str, str] = Field(description="role -> the user's column name; without `label`")
    integers: list[str] = Field(description="which of the roles of identifiers are whole numbers, not text")
    numeric: list[str] = Field(description="the user's further numeric columns")
    categorical: list[str] = Field(description="the user's further categorical columns")
    timezone: str = Field(description="IANA name of the zone of times that carry none")
    nullable: list[str] = Field([], description="those of the numeric columns that may be null")
    negative_amounts: bool = Field(False, description="whether amounts may be below 0")


class SnapshotLimits(Part):
    """What one event may be; more is refused."""

    largest_amount: float = Field(description="largest amount, regardless of the sign")
    longest_id: int = Field(description="characters of an id, a customer or a terminal")
    days_ahead: int = Field(description="days after now, or after the snapshot's last day, that an event may be dated")


class Array(Part):
    """An array in the file, little-endian, one after the other."""

    dtype: Literal["int64", "uint32", "int8"]
    offset: int = Field(description="its first byte in the file")
    count: int = Field(description="its values")


class SnapshotExample(Part):
    """An event of the last day as a user has it, and its features as the batch has them."""

    event: dict[str, int | float | str | None] = Field(
        description="the user's column -> value; a time in ISO 8601, UTC"
    )
    inputs: dict[str, float | str | None] = Field(description="a model's input -> value; null where it is missing")


class Snapshot(Artifact):
    """What the file beside it holds, written last: `<lake>/<use case>/online/date=<day>/<key>.state`."""

    first: date = Field(description="the first day that it covers")
    last: date = Field(description="the last day that it covers: the logical date")
    sha256: str = Field(description="hash of the file")
    size: int = Field(description="bytes of the file")
    rows: int = Field(description="events in it")
    entities: dict[str, int] = Field(description="entity -> how many different ones there are")
    features: FeatureSpec = Field(description="which it serves; a model with others needs another snapshot")
    events: Events
    limits: SnapshotLimits
    arrays: dict[str, Array] = Field(description="where each array lies in the file")
    example: SnapshotExample | None = Field(description="an event that it knows; null where the day has none")


class Replay(Part):
    """What came of replaying a day's events through the online state."""

    day: date = Field(description="the day: the logical date")
    rows: int = Field(description="events replayed")
    differing: int = Field(description="events with an input that differs from the offline one by more than 1e-9")
    largest: float = Field(description="largest difference of any input")
    worst: str | None = Field(description="the input that it is of; null where all are equal")
