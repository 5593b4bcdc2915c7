"""A release with a plan: pure functions from days that both versions have scored, and from what was used, to figures.

The plan is made with the functions and limits that judge the release later. It knows the tests of labels: the
comparison, and the guards of slices. What guards requests has no past to plan by.
"""

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from components.release import core, verdicts
from nightshift.config.policy import Costs, Rollout
from nightshift.contracts.experiment import ExperimentCost
from nightshift.contracts.release_record import Entry
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.stats.power import PilotDays, PlannedTest
from nightshift.stats.sequential import LossSums

MEDIAN, LIKELY = 0.5, 0.8  # powers that a plan names
HARM = 0.1  # of a version that loses so much more than the champion
MONTH = 30.0  # days


@dataclass(frozen=True)
class PlannedDuration:
    """How long an experiment takes.

    Attributes:
        days: within which it is decided; None: not within the horizon.
        slowest: name of the test that decides last; empty without a decision.
    """

    days: int | None
    slowest: str = ""


@dataclass(frozen=True)
class Power:
    """What an experiment can show, by days that both versions have scored.

    Attributes:
        pilots: name of a test -> days of its observations, `loss` first.
        rollout: of the config.
    """

    pilots: Mapping[str, PilotDays]
    rollout: Rollout

    @classmethod
    def from_days(cls, days: Sequence[Mapping[str, LossSums]], rollout: Rollout) -> "Power":
        """Sum up what each day's labels say, as `verdicts.sum_losses` returns it."""
        guards = verdicts.guard_slices(days, rollout)
        sums = {"loss": [day[verdicts.ALL] for day in days]} | {guard.name: guard.sums for guard in guards}
        return cls({name: PilotDays(_add(parts), len(days)) for name, parts in sums.items()}, rollout)

    @property
    def gain(self) -> float:
        """By how much less the challenger lost, as a share of the champion's loss."""
        return self.pilots["loss"].gain

    @property
    def detectable_gain(self) -> float | None:
        """The smallest gain that the comparison shows within the horizon, None where it shows none."""
        return self.pilots["loss"].find_detectable_gain(self._plan_test("loss", LIKELY))

    @property
    def harm_days(self) -> int | None:
        """Days within which a version that does `HARM` is rolled back, None where that may take the horizon."""
        test = PlannedTest(
            1 - self.rollout.min_gain, self.rollout.alpha, LIKELY, self.rollout.horizon_days, is_against=True
        )
        return self.pilots["loss"].count_days(test, -HARM)

    def plan(self, power: float) -> PlannedDuration:
        """Return how long it takes with a probability, if the gain is the measured one, alike in every slice."""
        rollout, tests = self.rollout, {}
        for name, pilot in self.pilots.items():
            days = pilot.count_days(self._plan_test(name, power), self.gain)
            if days is None:
                return PlannedDuration(None)
            tests[name] = days
        slowest = max(tests, key=lambda name: tests[name])
        stages = rollout.stage_days * (1 + len(rollout.shares))
        days = max(tests[slowest], stages)
        return PlannedDuration(days, slowest) if days <= rollout.horizon_days else PlannedDuration(None)

    def _plan_test(self, name: str, power: float) -> PlannedTest:
        ratio = 1.0 if name == "loss" else 1 + self.rollout.slice_tolerance
        return PlannedTest(ratio, self.rollout.alpha, power, self.rollout.horizon_days)


@dataclass(frozen=True)
class ExperimentUse:
    """What an experiment has used so far.

    Attributes:
        training: run that made the version -> its US dollars, None without a price; empty where it is not known.
        judging: runs that have judged it, the same way.
        serving_hours: in which it answered requests.
        gigabyte_days: its files, times the days since it was registered.
        labels: that have arrived.
    """

    training: Mapping[str, float | None]
    judging: Mapping[str, float | None]
    serving_hours: float
    gigabyte_days: float
    labels: int


def price(use: ExperimentUse, costs: Costs) -> list[ExperimentCost]:
    """Return what an experiment has cost, an item each, to the cent."""
    storage = use.gigabyte_days / MONTH
    return [
        _price_runs("training", use.training),
        _price_runs("judging", use.judging),
        _price("serving", use.serving_hours, "hours", costs.serving_usd_hour),
        _price("storage", storage, "GB months", costs.storage_usd_gb_month),
        _price("labels", use.labels, "labels", costs.label_usd),
    ]


def add_costs(costs: Sequence[ExperimentCost]) -> float:
    """Return the sum of the known costs, US dollars, to the cent."""
    return round(sum(cost.usd for cost in costs if cost.usd is not None), 2)


def check_budget(budget: float, costs: Sequence[ExperimentCost], record: Entry) -> Verdict:
    """Return whether an experiment has money left: it fails once its budget is spent, and passes until then."""
    spent = add_costs(costs)
    decision = Decision.FAIL if spent >= budget else Decision.PASS
    state = "is spent" if decision is Decision.FAIL else "is not spent"
    return Verdict(
        gate="budget",
        decision=decision,
        reasons=[f"The experiment's budget of {budget:,.2f} USD {state}: {spent:,.2f} USD so far."],
        measures=[Measure(name="usd", value=spent, limit=budget, higher_is_better=False)],
        subject=core.require_challenger(record).sha256,
    )


def _add(days: Sequence[LossSums]) -> LossSums:
    count, *sums = np.sum([astuple(day) for day in days], axis=0).tolist()
    return LossSums(round(count), *sums)


def _price_runs(item: str, runs: Mapping[str, float | None]) -> ExperimentCost:
    known = [usd for usd in runs.values() if usd is not None]
    usd = round(sum(known), 2) if len(known) == len(runs) else None
    return ExperimentCost(item=item, quantity=len(runs), unit="runs", usd=usd, runs=list(runs))


def _price(item: str, quantity: float, unit: str, usd: float | None) -> ExperimentCost:
    total = round(quantity * usd, 2) if usd is not None else None if quantity else 0.0
    return ExperimentCost(item=item, quantity=round(quantity, 6), unit=unit, usd=total)
