"""Which simulated releases are promoted, how much traffic the harmful ones get, and how long they take.

    RECORD=1 python -m benchmarks.releases [RELEASES]

A language model's challenger is judged once a day by the machine's own functions, with the config's defaults but for
`min_gain` and `slices`. Answers are judged right or wrong the day after; times to the first token and tokens are read
from histograms with the buckets that vLLM has. Better versions would be promoted, were it not for a slice, latency or
cost.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
from scipy.stats import lognorm

from benchmarks import figures
from components.release import core, verdicts
from components.release.core import Moment
from components.release.experiment import MEDIAN, Power
from components.release.verdicts import RequestFigures
from nightshift.config.policy import Rollout
from nightshift.contracts.release_record import Action, Release, ReleasedVersion
from nightshift.contracts.verdict import Verdict
from nightshift.stats.sequential import LossSums, Tally

RELEASES = 1000  # releases of a kind
ROLLOUT = Rollout(slices=["task"], min_gain=0.03)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
CHAMPION, CHALLENGER = (ReleasedVersion(version=number, sha256=str(number) * 64) for number in (1, 2))
JUDGED, DELAY_DAYS = 3000, 1  # answers a day, and days until they are judged
SLICES = {"chat": 0.4, "code": 0.3, "translation": 0.2, "summary": 0.1}  # their shares
DIFFER, BOTH_WRONG = 0.04, 0.08  # shares of the answers in which one version is wrong, and both are
REQUESTS, WEEK = 100_000, (1.0, 1.05, 1.05, 1.0, 0.95, 0.6, 0.55)  # a day, times that of its weekday
SPREAD = 0.6  # standard deviation of the logarithm of a request's costs
MEDIANS = {"time to first token": 0.2, "tokens": 200.0}  # seconds, tokens
EDGES = {
    "time to first token": (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0),
    "tokens": (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0),
}
PLANS, PILOT_DAYS = 100, 7  # weeks of labels by which `nightshift experiment plan` plans
FALSE_PROMOTIONS, HARM, DURATION = 0.01, 0.02, 0.6  # at most


@dataclass(frozen=True)
class SimulatedChallenger:
    """A challenger of a kind.

    Attributes:
        wins: chance that it is the right one where one version is wrong.
        slice_wins: the same in the smallest slice.
        slower: its time to the first token, as a multiple of the champion's.
        dearer: its tokens, as a multiple of the champion's.
    """

    wins: float = 0.6
    slice_wins: float = 0.6
    slower: float = 1.0
    dearer: float = 1.0


KINDS = {
    "better": SimulatedChallenger(),
    "barely better": SimulatedChallenger(0.538, 0.538),  # by `min_gain`
    "equal": SimulatedChallenger(0.5, 0.5),
    "worse": SimulatedChallenger(0.45, 0.45),
    "worse for a slice": SimulatedChallenger(slice_wins=0.2),
    "slower": SimulatedChallenger(slower=1.3),
    "dearer": SimulatedChallenger(dearer=1.3),
}
GOOD, HARMFUL = tuple(KINDS)[:2], tuple(KINDS)[3:]


class Traffic:
    """Judged answers and requests of a challenger of a kind, day by day."""

    def __init__(self, kind: SimulatedChallenger, days: int, random: np.random.Generator) -> None:
        self._kind, self._random = kind, random
        self.days = [self._judge() for _ in range(days)]
        self._periods: list[tuple[float, RequestFigures, RequestFigures]] = []

    def verdicts(self, record: Release, day: int) -> list[Verdict]:
        """Return what is known of the challenger on a day of its release."""
        assert record.challenger
        if share := record.challenger.traffic:
            self._serve(share, round(REQUESTS * WEEK[day % len(WEEK)]))
        days = self.days[: max(day - DELAY_DAYS, 0)]
        requests = [period[1:] for period in self._periods]
        guards = [*verdicts.guard_slices(days, ROLLOUT), *verdicts.guard_requests(requests, ROLLOUT)]
        comparison = verdicts.compare([answers[verdicts.ALL] for answers in days], record, ROLLOUT)
        return [comparison, *verdicts.check_guards(guards, record, ROLLOUT)]

    def _judge(self) -> dict[str, LossSums]:
        chances = [self._kind.wins] * (len(SLICES) - 1) + [self._kind.slice_wins]
        sums = [self._judge_slice(share, chance) for share, chance in zip(SLICES.values(), chances, strict=True)]
        whole = LossSums(*np.sum([astuple(part) for part in sums], axis=0))
        return {verdicts.ALL: whole} | dict(zip(SLICES, sums, strict=True))

    def _judge_slice(self, share: float, chance: float) -> LossSums:
        count = round(JUDGED * share)
        differ, both = self._random.binomial(count, DIFFER), self._random.binomial(count, BOTH_WRONG)
        won = self._random.binomial(differ, chance)
        champion, challenger = both + won, both + differ - won
        return LossSums(count, champion, challenger, champion, challenger, both)

    def _serve(self, share: float, requests: int) -> None:
        """Add a day's requests to those of the stage."""
        count = self._random.binomial(requests, share)
        fresh = self._measure(requests - count, 1.0, 1.0), self._measure(count, self._kind.slower, self._kind.dearer)
        if self._periods and self._periods[-1][0] == share:
            fresh = tuple(map(_add, self._periods.pop()[1:], fresh))
        self._periods.append((share, *fresh))

    def _measure(self, requests: int, slower: float, dearer: float) -> RequestFigures:
        costs = {
            name: Tally.from_histogram(
                EDGES[name], self._random.multinomial(requests, _chances(name, factor)), EDGES[name][-1]
            )
            for name, factor in zip(MEDIANS, (slower, dearer), strict=True)
        }
        return RequestFigures(requests, 0, None, costs)


@cache
def _chances(name: str, factor: float) -> npt.NDArray[np.float64]:
    """Return the chances of the buckets."""
    edges = [0, *EDGES[name][:-1], np.inf]
    return np.diff(lognorm.cdf(edges, SPREAD, scale=MEDIANS[name] * factor))


def _add(first: RequestFigures, second: RequestFigures) -> RequestFigures:
    pairs = {name: (first.costs[name], second.costs[name]) for name in first.costs}
    costs = {name: Tally(*np.sum([astuple(tally) for tally in pair], axis=0)) for name, pair in pairs.items()}
    return RequestFigures(first.requests + second.requests, 0, None, costs)


def simulate(kind: str, number: int) -> Release:
    """Return the record of one release of a kind of challenger, when it is over."""
    random = np.random.default_rng([list(KINDS).index(kind), number])
    traffic = Traffic(KINDS[kind], ROLLOUT.horizon_days, random)
    record = Release(use_case="chat", versions=[CHAMPION], action=Action.PROMOTED, since=BEGAN, by="simulation")
    record = record.followed_by(core.start(record, CHALLENGER, _moment(0)))
    for day in range(1, ROLLOUT.horizon_days + 1):
        entry = core.advance(record, traffic.verdicts(record, day), ROLLOUT, _moment(day))
        record = record.followed_by(entry) if entry else record
        if record.challenger is None:
            break
    return record


def plan_days(kind: str, number: int) -> int | None:
    """Return the days in which half of a kind's releases should be decided, by a week of labels before the release."""
    random = np.random.default_rng([len(KINDS), list(KINDS).index(kind), number])
    days = Traffic(KINDS[kind], PILOT_DAYS, random).days
    planned = Power.from_days(days, ROLLOUT).plan(MEDIAN).days
    return None if planned is None else planned + DELAY_DAYS


def describe_plans(kind: str) -> str:
    """Return the median plan of some weeks, and how many of them see no decision within the horizon."""
    plans = [plan_days(kind, number) for number in range(PLANS)]
    known = [days for days in plans if days is not None]
    median = f"{np.median(known):g}" if len(known) > PLANS / 2 else "none"
    return f"{median} ({len(known)} of {PLANS})"


def _moment(day: int) -> Moment:
    return Moment(BEGAN + timedelta(days=day), "simulation")


@dataclass(frozen=True)
class Outcomes:
    """What became of the releases of a kind.

    Attributes:
        promoted: share of them.
        days: until each was decided, (n,).
        traffic: the challenger's share of all requests until then, (n,).
    """

    promoted: float
    days: npt.NDArray[np.float64]
    traffic: npt.NDArray[np.float64]

    @classmethod
    def from_records(cls, records: Sequence[Release]) -> "Outcomes":
        """Sum up records of releases that are over."""
        days = np.array([(record.since - BEGAN) / core.DAY for record in records])
        number = CHALLENGER.version
        exposure = np.array([core.exposure(record, number, ROLLOUT) for record in records])
        promoted = float(np.mean([record.live.version == number for record in records]))
        return cls(promoted, days, exposure * ROLLOUT.horizon_days / days)


def run_kind(kind: str, releases: int, pool: ProcessPoolExecutor) -> Outcomes:
    """Simulate so many releases of a kind."""
    return Outcomes.from_records(list(pool.map(partial(simulate, kind), range(releases), chunksize=25)))


def check_goals(outcomes: dict[str, Outcomes]) -> list[str]:
    """Return the goals that were missed, each as a sentence; how long a version takes that is barely better is none."""
    goals = [(f"{kind}: promoted", outcomes[kind].promoted, FALSE_PROMOTIONS) for kind in KINDS if kind not in GOOD]
    goals += [(f"{kind}: traffic", float(outcomes[kind].traffic.max()), HARM) for kind in HARMFUL]
    medians = {kind: float(np.median(outcomes[kind].days)) for kind in KINDS if kind != "barely better"}
    goals += [(f"{kind}: median / horizon", days / ROLLOUT.horizon_days, DURATION) for kind, days in medians.items()]
    return [f"Missed: {name} {value:.1%}, at most {limit:.0%}." for name, value, limit in goals if value > limit]


def fixed_days(gain: float, power: float) -> float:
    """Return the day on which a one-sided z-test of the same alpha, which looks once, has a power to find a gain."""
    champion = BOTH_WRONG + DIFFER / 2
    quantiles = NormalDist().inv_cdf(1 - ROLLOUT.alpha) + NormalDist().inv_cdf(power)
    return quantiles**2 * DIFFER / (gain * champion) ** 2 / JUDGED + DELAY_DAYS


def describe(outcomes: dict[str, Outcomes], releases: int) -> str:
    """Return what the rows do not hold."""
    power = min(outcomes["barely better"].promoted, 1 - 1 / releases)
    tests = ", ".join(f"{fixed_days(ROLLOUT.min_gain, goal):.1f} ({goal:.0%})" for goal in (power, 0.99))
    return (
        f"{releases:,} releases of each kind; horizon {ROLLOUT.horizon_days} days. A z-test that looks once finds a "
        f"gain of {ROLLOUT.min_gain:.0%}, the smallest that counts, on day (with a power of) {tests}."
    )


def main() -> None:
    """Print what became of the releases; exit with 1 where a goal is missed."""
    releases = int(sys.argv[1]) if len(sys.argv) > 1 else RELEASES
    with ProcessPoolExecutor() as pool:
        outcomes = {kind: run_kind(kind, releases, pool) for kind in KINDS}
    rows = [
        {
            "challenger": kind,
            "promoted": f"{outcome.promoted:.1%}",
            "days, planned (plans with an end)": describe_plans(kind),
            "days, median": float(np.median(outcome.days)),
            "days, 90th percentile": float(np.quantile(outcome.days, 0.9)),
            "median / horizon": f"{np.median(outcome.days) / ROLLOUT.horizon_days:.0%}",
            "largest share of the requests until the end": f"{outcome.traffic.max():.2%}",
        }
        for kind, outcome in outcomes.items()
    ]
    missed = check_goals(outcomes)
    figures.publish("releases", rows, " ".join([describe(outcomes, releases), *missed]))
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
