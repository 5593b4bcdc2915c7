"""What the days of a run add up to; plain Python, so that a run that finds every day in the lake is quick."""

from collections import Counter
from collections.abc import Iterable, Mapping

from components.common.contracts.tables import Partition


def totals(partitions: Iterable[Partition]) -> tuple[int, Counter[str]]:
    """Return the rows read, and how many of them each rule rejected."""
    read, quarantined = 0, Counter[str]()
    for part in partitions:
        read += part.details["read"]
        quarantined.update(part.details["quarantined"])
    return read, quarantined


def excess(read: int, quarantined: Mapping[str, int], max_share: float) -> str | None:
    """Return the rule that rejected most rows when that is more than a share of those read, or None."""
    worst = max(quarantined, key=lambda rule: quarantined[rule], default=None)
    return worst if worst is not None and quarantined[worst] > max_share * read else None


def mixed_ids(partitions: Iterable[Partition]) -> list[str]:
    """Return the identifiers that are numbers on some days and text on others: 7 and '7' would be two customers."""
    kinds: dict[str, set[str]] = {}
    for part in partitions:
        for role, kind in part.details["id_types"].items():
            kinds.setdefault(role, set()).add(kind)
    return sorted(role for role, seen in kinds.items() if len(seen) > 1)
