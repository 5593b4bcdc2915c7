"""What labels and requests say of a challenger: pure functions from sums of losses to verdicts.

The comparison asks whether the challenger is better. Guards ask whether it stays within a multiple of what the champion
loses in a slice, takes until an answer, or costs. Each is a test that may be looked at at any time: it passes at
evidence 1 for, and fails at evidence 1 against. All have to pass, so each has the whole of `alpha` to promote by
mistake; any of the guards may fail, so they share the `alpha` to roll back by mistake.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from components.release.core import require_challenger
from nightshift.config.policy import Rollout
from nightshift.contracts.release_record import Entry
from nightshift.contracts.verdict import Decision, Measure, Opponent, Verdict
from nightshift.registry.promotion import EVIDENCE
from nightshift.runtime.errors import UserError
from nightshift.stats import sequential
from nightshift.stats.sequential import Floats, LossSums, Tally

if TYPE_CHECKING:
    import pandas as pd

ALL = ""  # the slice of every event
MAX_SLICES = 50  # slices of a column


@dataclass(frozen=True)
class SequentialTest:
    """A test of a challenger.

    Attributes:
        better: observations whose mean is above 0 where it is good enough, in the order in which they came.
        worse: observations whose mean is below 0 where it is not.
        alphas: probability of a mistake either way, however often one looks.
    """

    better: Sequence[Tally]
    worse: Sequence[Tally]
    alphas: tuple[float, float]

    @cached_property
    def evidence(self) -> tuple[float, float]:
        """How much of the evidence there is, for and against; 1 decides."""
        if not self.better:
            return 0.0, 0.0
        paths = self.better, [tally.opposite for tally in self.worse]
        better, worse = (sequential.path(path, alpha)[-1] for path, alpha in zip(paths, self.alphas, strict=True))
        return float(better), float(worse)

    @property
    def decision(self) -> Decision:
        """What follows."""
        better, worse = self.evidence
        return Decision.FAIL if worse >= 1 else Decision.PASS if better >= 1 else Decision.UNDECIDED

    @property
    def count(self) -> int:
        """How many observations there are."""
        return sum(tally.count for tally in self.better)


@dataclass(frozen=True)
class Guard:
    """What must not become much worse.

    Attributes:
        name: as it stands in a sentence, e.g. `time to first token`.
        unit: of what is counted.
        limit: how many times the champion's it may be.
        sums: by day or period, in the order in which they came.
    """

    name: str
    unit: str
    limit: float
    sums: Sequence[LossSums]

    @property
    def tallies(self) -> list[Tally]:
        """By how much the challenger stays below the limit."""
        return [part.tally(self.limit) for part in self.sums]

    @property
    def relative(self) -> float | None:
        """The challenger's as a share of the champion's, None where that has none."""
        champion = sum(part.champion for part in self.sums)
        return sum(part.challenger for part in self.sums) / champion if champion else None


@dataclass(frozen=True)
class RequestFigures:
    """Figures of the requests that a version answered.

    Attributes:
        requests: how many.
        errors: how many of them failed.
        p99_ms: 99th percentile of their latency, milliseconds; None without any.
        costs: by what is guarded, e.g. `time to first token`, their sums as shares of the worst.
    """

    requests: int
    errors: int
    p99_ms: float | None
    costs: Mapping[str, Tally] = field(default_factory=dict)


def sum_losses(champion: Floats, challenger: Floats, slices: "pd.DataFrame | None") -> dict[str, LossSums]:
    """Return what a day's labels say, of all events and of each slice.

    Args:
        champion: the loss of each event as a share of the worst, float of shape (n,).
        challenger: the same of the challenger.
        slices: n rows; each value of a column that is not null is a slice.

    Raises:
        UserError: when a column has more than `MAX_SLICES` values.
    """
    sums = {ALL: LossSums.from_losses(champion, challenger)}
    for column, values in slices.items() if slices is not None else ():
        names = sorted(values.dropna().unique(), key=str)
        if len(names) > MAX_SLICES:
            raise UserError(
                f"release.slices names {column!r}, which has {len(names):,} values on one day; "
                f"name columns of at most {MAX_SLICES}"
            )
        for name in names:
            events = values.eq(name).fillna(False).to_numpy(dtype=bool)
            sums[f"{column} is {name}"] = LossSums.from_losses(champion[events], challenger[events])
    return sums


def guard_slices(days: Sequence[Mapping[str, LossSums]], rollout: Rollout) -> list[Guard]:
    """Return a guard for every slice of the labeled events.

    Args:
        days: what each day's labels say, as `sum_losses` returns it, in the order in which they arrived.
        rollout: of the config.
    """
    limit = 1 + rollout.slice_tolerance
    names = sorted({name for day in days for name in day} - {ALL})
    sums = {name: [day[name] for day in days if name in day] for name in names}
    return [Guard(f"loss where {name}", "observations", limit, parts) for name, parts in sums.items()]


def guard_requests(periods: Sequence[tuple[RequestFigures, RequestFigures]], rollout: Rollout) -> list[Guard]:
    """Return a guard for everything that both versions' requests were measured by.

    Args:
        periods: the champion's figures and the challenger's, in order.
        rollout: of the config.
    """
    sums: dict[str, list[LossSums]] = {}
    for champion, challenger in periods:
        for name in champion.costs.keys() & challenger.costs.keys():
            before, after = champion.costs[name], challenger.costs[name]
            if before.count and after.count:  # by the share that it got, whatever it was meant to get
                share = after.count / (before.count + after.count)
                sums.setdefault(name, []).append(LossSums.from_requests(before, after, share))
    return [Guard(name, "requests", 1 + rollout.request_tolerance, sums[name]) for name in sorted(sums)]


def compare(days: Sequence[LossSums], record: Entry, rollout: Rollout) -> Verdict:
    """Return what the labels so far say of a challenger against the champion.

    Args:
        days: what each day's labels say, in the order in which they arrived, from the start of the release.
        record: the release.
        rollout: of the config.
    """
    loss, gain = Guard("loss", "observations", 1, days), rollout.min_gain
    test = SequentialTest(loss.tallies, [day.tally(1 - gain) for day in days], (rollout.alpha, rollout.alpha))
    relation = {
        Decision.FAIL: f"not {gain:.0%} better than" if gain else "worse than",
        Decision.PASS: "better than",
        Decision.UNDECIDED: "not distinguishable yet from",
    }[test.decision]
    versions = f"Version {require_challenger(record).version} is {relation} version {record.live.version}"
    measure = Measure(name="relative_loss", value=loss.relative, limit=1, higher_is_better=False)
    return _verdict("comparison", record, test, f"{versions} after {test.count:,} observations.", measure)


def check_guards(guards: Sequence[Guard], record: Entry, rollout: Rollout) -> list[Verdict]:
    """Return whether a challenger stays within the limits, a verdict a guard.

    Args:
        guards: all that there are.
        record: the release.
        rollout: of the config.
    """
    versions, verdicts = (require_challenger(record).version, record.live.version), []
    for guard in guards:
        test = SequentialTest(guard.tallies, guard.tallies, (rollout.alpha, rollout.alpha / len(guards)))
        measure = Measure(name="relative", value=guard.relative, limit=guard.limit, higher_is_better=False)
        verdicts.append(_verdict(guard.name, record, test, _explain(guard, test, versions), measure))
    return verdicts


def objectives(figures: RequestFigures, record: Entry, rollout: Rollout) -> Verdict:
    """Return whether a challenger answers its requests as fast and as surely as the config wants.

    Args:
        figures: of the challenger.
        record: the release.
        rollout: of the config.
    """
    number, enough = require_challenger(record).version, figures.requests >= rollout.min_requests
    share = figures.errors / figures.requests if figures.requests else None
    kept = [("error_rate", share, rollout.max_error_rate), ("latency_p99_ms", figures.p99_ms, rollout.max_p99_ms)]
    broken = [
        f"{name} {value:g}, limit {limit:g}" for name, value, limit in kept if value is not None and value > limit
    ]
    decision = Decision.UNDECIDED if not enough else Decision.FAIL if broken else Decision.PASS
    if decision is Decision.PASS and figures.p99_ms is None:  # what nobody has measured is not kept
        decision = Decision.UNDECIDED
    violations = f": {'; '.join(broken)}" if decision is Decision.FAIL else ""
    return Verdict(
        gate="objectives",
        decision=decision,
        reasons=[f"Version {number} answered {figures.requests:,} requests{violations}."],
        measures=[Measure(name=name, value=value, limit=limit, higher_is_better=False) for name, value, limit in kept],
        subject=require_challenger(record).sha256,
    )


def _explain(guard: Guard, test: SequentialTest, versions: tuple[int, int]) -> str:
    relation = {
        Decision.FAIL: "exceeds",
        Decision.PASS: "stays within",
        Decision.UNDECIDED: "is not distinguishable yet from",
    }[test.decision]
    ours, other = versions
    return (
        f"The {guard.name} of version {ours} {relation} {guard.limit:.0%} of version {other}'s "
        f"after {test.count:,} {guard.unit}."
    )


def _verdict(gate: str, record: Entry, test: SequentialTest, reason: str, measure: Measure) -> Verdict:
    better, worse = test.evidence
    return Verdict(
        gate=gate,
        decision=test.decision,
        reasons=[reason],
        measures=[
            measure,
            Measure(name=EVIDENCE, value=better, limit=1),
            Measure(name="evidence_against", value=worse, limit=1, higher_is_better=False),
        ],
        subject=require_challenger(record).sha256,
        compared_with=Opponent(version=record.live.version, sha256=record.live.sha256),
    )
