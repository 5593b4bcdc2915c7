"""Days that come again: a day whose labels were complete, beside what it is now; plain Python."""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from nightshift import storage
from nightshift.contracts.drift import Signal
from nightshift.contracts.tables import Partition

CORRECTIONS = "corrections"
FEWEST = 5  # rows by which a label's count changes; fewer are no news


def find_replaced(uri: str, source_sha256: str, as_of: date) -> dict[str, Any] | None:
    """Return what the newest earlier version of a day had, as `describe` gives it.

    Args:
        uri: of the day's partition, in whose folder the earlier versions lie.
        source_sha256: hash of its raw rows.
        as_of: logical date on which the day is ingested; versions of the same date are other readings of it.

    Returns:
        None without a version to compare with, and where the same rows were there before, which are only read anew.
    """
    folder = uri.rpartition("/")[0]
    sidecars = [storage.join(folder, name) for name in storage.names(folder) if name.endswith(".parquet.json")]
    details = [storage.read_json(sidecar)["details"] for sidecar in sidecars]
    earlier = [known for known in details if known["version"]["as_of"] < str(as_of)]
    if any(known["source_sha256"] == source_sha256 for known in earlier):
        return None
    return max((known["version"] for known in earlier), key=lambda version: str(version["as_of"]), default=None)


def describe(as_of: date, is_complete: bool, labels: Mapping[str, int]) -> dict[str, Any]:
    """Return what is kept of a day's version: when it was ingested, whether all labels were there, rows by label."""
    return {"as_of": str(as_of), "is_complete": is_complete, "labels": dict(labels)}


def compare(partitions: Iterable[Partition], as_of: date, limit: float) -> Signal:
    """Compare the days that have come again on a logical date with what they were.

    Args:
        partitions: the days.
        as_of: the logical date.
        limit: relative change of a label's rows.
    """
    again = [part for part in partitions if part.details["replaced"] and part.details["version"]["as_of"] == str(as_of)]
    changes = [change for part in again for change in _changes(part)]
    largest, sentence = max(changes, default=(0.0, f"No day that was complete has come again by {as_of}."))
    raised = largest > limit
    allowed = f" drift.corrections allows {limit:.0%}. Check the correction before a model learns it." if raised else ""
    return Signal(
        name=CORRECTIONS,
        value=largest,
        limit=limit,
        unit="relative change",
        raised=raised,
        reason=sentence + allowed,
    )


def _changes(part: Partition) -> Iterable[tuple[float, str]]:
    """Yield by how much each label's rows have changed, and a sentence."""
    before, now = part.details["replaced"], part.details["version"]
    if not (before["is_complete"] and now["is_complete"]):
        return
    for label in sorted({*before["labels"], *now["labels"]} - {""}):
        old, new = before["labels"].get(label, 0), now["labels"].get(label, 0)
        if abs(new - old) >= FEWEST:
            change = max(old, new) / max(1, min(old, new)) - 1
            yield change, f"{part.date} has come again with {new:,} rows of label {label!r}, {old:,} before."
