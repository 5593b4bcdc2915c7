"""How far quality falls when each night's challenger is a little worse, and whether equal challengers still pass.

    RECORD=1 python -m benchmarks.ratchet [NIGHTS]

Each night's verdict is that of the gate's own function, which compares the challenger with the live version and with
the reference that the release record's own function chooses. Labels are drawn anew each night, so a metric is the true
quality plus noise; a week's test days that overlap give fewer chances to pass by luck.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property

import numpy as np

from benchmarks import figures
from nightshift.config.policy import EvaluationGate
from nightshift.contracts.verdict import Verdict
from nightshift.registry import Version, release_record
from nightshift.stats.bootstrap import RESAMPLES
from nightshift.tasks import trials
from nightshift.tasks.trials import Contender, Gate

NIGHTS = 1000
SEEDS = 5  # simulations of a kind
METRIC = "accuracy"
FIRST_QUALITY = 0.6
NOISE = 0.006  # standard deviation of the difference of two versions' metrics
LUCK = 2  # in units of the noise: a challenger beyond the tolerance by that passes once in 27,000 nights
BEGAN = date(2026, 1, 1)
LIMITS = EvaluationGate()
FRESH = 0.5  # share of the nights on which equal challengers pass, at least

# kind -> true quality of a challenger, by the live version's, the night's number and a standard normal number
KINDS: Mapping[str, Callable[[float, int, float], float]] = {
    "equal": lambda *_: FIRST_QUALITY,
    "equal but for a standard deviation of 0.003": lambda _, __, luck: FIRST_QUALITY + 0.003 * luck,
    "0.002 worse than what serves": lambda live, *_: live - 0.002,
    "0.005 worse than what serves": lambda live, *_: live - 0.005,
    "0.01 worse than what serves": lambda live, *_: live - 0.01,
    "each 0.0005 worse than the one before": lambda _, night, __: FIRST_QUALITY - 0.0005 * night,
}


@dataclass
class SimulatedNights:
    """The versions of a use case whose challengers are of a kind.

    Attributes:
        quality: version -> its true quality.
        trail: the versions that were live one after the other.
    """

    kind: str
    seed: int
    limits: EvaluationGate = LIMITS
    quality: dict[int, float] = field(default_factory=lambda: {0: FIRST_QUALITY})
    trail: list[Version] = field(default_factory=lambda: [_register(0, "0")])

    @cached_property
    def random(self) -> np.random.Generator:
        """The source of the noise."""
        return np.random.default_rng(self.seed)

    def run(self, nights: int) -> "SimulatedNights":
        """Judge a challenger a night; what passes is live from then on."""
        for night in range(1, nights + 1):
            live = self.trail[-1]
            luck = float(self.random.normal())
            self.quality[night] = KINDS[self.kind](self.quality[live.version], night, luck)
            verdict = self.judge(night, live)
            if verdict.is_pass:
                self.trail.append(_register(night, verdict.reference.sha256 if verdict.reference else str(night)))
        return self

    def judge(self, night: int, live: Version) -> Verdict:
        """Return a night's verdict."""
        since = _until(night) - timedelta(days=self.limits.reference_days)
        best = release_record.choose_reference(self.trail, since) if self.limits.reference_days else None
        challenger, champion = self.measure(night), self.measure(live.version)
        reference = self.measure(best.version) if best else None
        gate = Gate(METRIC, self.limits.tolerance, undecidable=[], refused=[], passed="", measures=[])
        return trials.judge(challenger, champion, gate, reference)

    def measure(self, version: int) -> Contender:
        """Return a version on a night's test rows."""
        deviation = NOISE / 2**0.5
        value = self.quality[version] + deviation * self.random.normal()
        resamples = {METRIC: value + deviation * self.random.normal(size=RESAMPLES)}
        until, metrics = str(_until(version)), {METRIC: value}
        return Contender(
            sha256=str(version), trained_until=until, metrics=metrics, resamples=resamples, version=version
        )

    @property
    def largest_loss(self) -> float:
        """The true quality that was lost by the worst version that was live, since the first one."""
        return FIRST_QUALITY - min(self.quality[version.version] for version in self.trail)


def _until(night: int) -> date:
    """Return the last training day of a night's challenger."""
    return BEGAN + timedelta(days=night)


def _register(night: int, held_to: str) -> Version:
    tags = {
        release_record.TRAINED_UNTIL: str(_until(night)),
        release_record.REFERENCE: held_to,
        release_record.EVALUATION: "pass",
    }
    return Version("simulated", night, "", str(night), tags)


def bound_loss(nights: int, limits: EvaluationGate = LIMITS) -> float:
    """Return how much may be lost: the tolerance, and what luck adds to it, each time a reference becomes too old."""
    return (limits.tolerance + LUCK * NOISE) * -(-nights // limits.reference_days)


def check_goals(runs: Mapping[str, list[SimulatedNights]], nights: int) -> list[str]:
    """Return the goals that were missed, each as a sentence."""
    bound = bound_loss(nights)
    losses = {kind: max(run.largest_loss for run in simulations) for kind, simulations in runs.items()}
    missed = [f"Missed: {kind}: lost {loss:.3f}, at most {bound:g}." for kind, loss in losses.items() if loss > bound]
    passed = min((len(run.trail) - 1) / nights for run in runs["equal"])
    return missed + ([f"Missed: equal: {passed:.0%} pass, at least {FRESH:.0%}."] if passed < FRESH else [])


def main() -> None:
    """Print what became of the nights; exit with 1 where a goal is missed."""
    nights = int(sys.argv[1]) if len(sys.argv) > 1 else NIGHTS
    runs = {kind: [SimulatedNights(kind, seed).run(nights) for seed in range(SEEDS)] for kind in KINDS}
    rows = [
        {
            "challengers": kind,
            "promoted, of all nights": f"{np.mean([(len(run.trail) - 1) / nights for run in simulations]):.1%}",
            "largest true loss": f"{max(run.largest_loss for run in simulations):.4f}",
        }
        for kind, simulations in runs.items()
    ]
    missed = check_goals(runs, nights)
    note = (
        f"{SEEDS} simulations of {nights:,} nights of each kind; tolerance {LIMITS.tolerance:g}, reference_days "
        f"{LIMITS.reference_days}, noise of a difference {NOISE:g}."
    )
    figures.publish("ratchet", rows, note)
    sys.exit("\n".join(missed) or 0)


if __name__ == "__main__":
    main()
