"""What the days of a run add up to; plain Python, so that a run that finds every day in the lake is quick."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nightshift.config.policy import Quarantine
from nightshift.contracts.tables import Partition

CORRECTED = "replaced_on_later_day"  # reason of a row that is not lost: its corrected event is there
MIN_ROWS = 5  # left-out rows of a label: fewer are chance where 1 % of all may be (once in 300 times of 100 positives)


@dataclass(frozen=True)
class Excess:
    """Rows left out beyond a limit.

    Attributes:
        rule: that rejected most of them.
        label: what all of them are counted as; None: anything.
        limit: key of `quarantine` in the config.
        sentence: how many they are, and how many may be.
    """

    rule: str
    label: str | None
    limit: str
    sentence: str


@dataclass(frozen=True)
class Totals:
    """Rows of some days.

    Attributes:
        labels: label -> rows read; "" for rows without a label that can be read.
        quarantined: rule -> label -> rows that it rejected.
    """

    labels: Counter[str]
    quarantined: dict[str, Counter[str]]

    @classmethod
    def from_partitions(cls, partitions: Iterable[Partition]) -> "Totals":
        """Sum the days up."""
        totals = cls(Counter(), {})
        for part in partitions:
            totals.add(part.details["labels"], part.details["quarantined_labels"])
        return totals

    def add(self, labels: Mapping[str, int], quarantined: Mapping[str, Mapping[str, int]]) -> None:
        """Add a day's rows by label, and those that each rule rejected."""
        self.labels.update(labels)
        for rule, counts in quarantined.items():
            self.quarantined.setdefault(rule, Counter()).update(counts)

    @property
    def read(self) -> int:
        """Rows read."""
        return self.labels.total()

    @property
    def has_labels(self) -> bool:
        """Whether any row has a label."""
        return any(self.labels)

    @property
    def by_rule(self) -> dict[str, int]:
        """Rule -> rows that it rejected, most first."""
        counts = {rule: labels.total() for rule, labels in self.quarantined.items()}
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    @property
    def by_label(self) -> Counter[str]:
        """Label -> rows rejected by any rule."""
        return sum(self.quarantined.values(), Counter[str]())

    @property
    def left_out(self) -> Counter[str]:
        """Label -> rows rejected by any rule, but for those that were corrected."""
        return self.by_label - self.quarantined.get(CORRECTED, Counter())

    @property
    def bad(self) -> int:
        """Rows rejected."""
        return self.by_label.total()

    def find_excess(self, limits: Quarantine) -> Excess | None:
        """Return what exceeds a limit: of the rows that one rule rejected, or of a label's that all rules rejected."""
        if rule := self._excess(limits.max_share):
            bad = self.by_rule[rule]
            sentence = (
                f"rule {rule!r} rejected {bad:,} of {self.read:,} rows ({bad / self.read:.2%}), "
                f"quarantine.max_share allows {limits.max_share:.2%}"
            )
            return Excess(rule, None, "max_share", sentence)
        if label := self.label_excess(limits.max_label_share):
            rule, bad, rows = self.worst_rule(label), self.left_out[label], self.labels[label]
            sentence = (
                f"{bad:,} of {rows:,} {rows_of(label)} ({bad / rows:.2%}) are quarantined, "
                f"{self.quarantined[rule][label]:,} of them by rule {rule!r}; "
                f"quarantine.max_label_share allows {limits.max_label_share:.2%}"
            )
            return Excess(rule, label, "max_label_share", sentence)
        return None

    def _excess(self, max_share: float) -> str | None:
        """Return the rule that rejected most rows when that is more than a share of those read, or None."""
        counts = {rule: count for rule, count in self.by_rule.items() if rule != CORRECTED}
        worst, count = next(iter(counts.items()), (None, 0))
        return worst if count > max_share * self.read else None

    def label_excess(self, max_share: float) -> str | None:
        """Return the label of which most is left out when that is more than a share of its rows, or None."""
        rows = {label: rows for label, rows in self.left_out.items() if label and rows >= MIN_ROWS}
        shares = {label: count / self.labels[label] for label, count in rows.items()}
        worst = max(shares, key=lambda label: shares[label], default=None)
        return worst if worst is not None and shares[worst] > max_share else None

    def worst_rule(self, label: str) -> str:
        """Return the rule by which most rows of a label are left out."""
        rules = [rule for rule in self.quarantined if rule != CORRECTED]
        return max(rules, key=lambda rule: self.quarantined[rule][label])


def count_unlabeled(partitions: Iterable[Partition]) -> dict[str, int]:
    """Return the days whose labels are late -> rows that have none although it is due."""
    return {part.date: part.details["unlabeled"] for part in partitions if part.details["unlabeled"]}


def rows_of(label: str) -> str:
    """Name the rows of a label."""
    names = {"": "rows without a label", "positive": "positives", "negative": "negatives"}
    return names.get(label, f"rows of class {label!r}")


def mixed_ids(partitions: Iterable[Partition]) -> list[str]:
    """Return the identifiers that are numbers on some days and text on others: 7 and '7' would be two customers."""
    kinds: dict[str, set[str]] = {}
    for part in partitions:
        for role, kind in part.details["id_types"].items():
            kinds.setdefault(role, set()).add(kind)
    return sorted(role for role, seen in kinds.items() if len(seen) > 1)
