"""Who was erased, without naming anybody: the list that ingestion consults, and the record of each decision."""

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part


class ErasedEntity(Part):
    """An entity whose rows no run may bring back."""

    role: str = Field(description="role of the column that holds the id: `customer`, `group` ...")
    digest: str = Field(description="keyed hash of the id, HMAC-SHA256 by the list's salt")
    decision: str = Field(description="id of the decision record")
    erased_at: datetime = Field(description="when the erasure began, UTC")
    complete: bool = Field(description="false: it was cut short; the same command completes it")


class ErasureList(Artifact):
    """`<lake>/<use case>/erasures.json`."""

    salt: str = Field(description="random, so that digests of two use cases cannot be compared")
    erased: list[ErasedEntity] = Field(description="in order of decisions")
    renamed: dict[str, str] = Field(
        description="tombstones: <day>/<key> of a partition of events that is gone -> key under which a run finds the "
        "day, or makes it from the source without the erased rows"
    )


class ErasureAction(StrEnum):
    """What is done to a file."""

    REWRITTEN = "rewritten"  # without the rows
    REDACTED = "redacted"  # without the words
    REMOVED = "removed"  # as a whole


class ErasedStore(Part):
    """What is done in one store."""

    store: str = Field(description="`events`, `predictions`, `runs` ...")
    action: ErasureAction
    files: int = Field(description="files, or keys of a Redis")
    rows: int = Field(description="rows, events or mentions that go")
    size_bytes: int = Field(description="of these files before; 0 of a Redis")


class KeptData(Part):
    """What is made of the entity's data and stays."""

    what: str = Field(description="e.g. weights of models")
    names: list[str] = Field(description="such as versions")
    reason: str = Field(description="why it stays, a sentence")


class AbsenceProof(Part):
    """The search after an erasure."""

    files: int = Field(description="files that were read, all of the use case")
    size_bytes: int = Field(description="bytes that were read")
    hits: dict[str, int] = Field(description="file -> occurrences of an id; empty: there are none")


class ErasureDecision(Artifact):
    """`<audit>/erasures/<decision>.json`, and `nightshift erase --json`."""

    decision: str | None = Field(description="id of the decision; null of a dry run")
    use_case: str = Field(description="name in the config")
    role: str = Field(description="role of the column that holds the id")
    digest: str | None = Field(description="keyed hash of the id; null of a dry run")
    by: str = Field(description="who has decided")
    reason: str = Field(description="why")
    erased_at: datetime = Field(description="when, UTC")
    stores: list[ErasedStore]
    kept: list[KeptData]
    proof: AbsenceProof | None = Field(description="null of a dry run, and until the search has ended")
