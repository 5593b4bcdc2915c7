"""Look after an experiment by hand: a release with a plan of how long it takes, what it can show, and what it may cost.

`nightshift experiment` calls these functions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime

from components.release import core, experiment, ledger, manage, verdicts
from components.release.core import DAY, Moment
from components.release.experiment import LIKELY, MEDIAN, Power
from components.release.ledger import ExperimentStates
from components.release.losses import compare_day
from nightshift import registry
from nightshift.config import Config, parse
from nightshift.contracts.artifact import Window
from nightshift.contracts.experiment import ExperimentPlan, ExperimentStatus
from nightshift.contracts.release_record import Entry, Release
from nightshift.contracts.state import State
from nightshift.contracts.tables import Table, read_table
from nightshift.data import splits
from nightshift.registry import Version, release_record
from nightshift.registry.release_record import TRAINED_UNTIL, ReleaseRef
from nightshift.runtime.errors import UserError
from nightshift.stats.sequential import LossSums

# name of a use case -> logical date of its newest run with features, and their manifest's URI; None without one
FindFeatures = Callable[[str], tuple[date, str] | None]


@dataclass(frozen=True)
class ExperimentSource:
    """Where versions, releases and features are.

    Attributes:
        state: of the use case.
        name: of the use case; null for the registry's only one.
        find_features: finds the newest features.
    """

    state: State
    name: str | None
    find_features: FindFeatures


@dataclass(frozen=True)
class ExperimentSetup:
    """Two versions, and the features of days that both can score.

    Attributes:
        config: of the challenger's registration.
        record: of the use case's releases.
        champion: the live version.
        challenger: the version to release.
        features: of the newest run that has some.
        due: last day whose labels were due in that run.
    """

    config: Config
    record: Release
    champion: Version
    challenger: Version
    features: Table
    due: date

    @property
    def trained_until(self) -> date:
        """Last day on which one of the versions was trained."""
        return max(date.fromisoformat(version.tags[TRAINED_UNTIL]) for version in (self.champion, self.challenger))

    def compare_days(self) -> dict[date, dict[str, LossSums]]:
        """Return what the labels of the days say on which neither version was trained.

        Raises:
            UserError: when there are none.
        """
        uris = [self.champion.uri, self.challenger.uri]
        days = (date.fromisoformat(part.date) for part in self.features.partitions if part.rows)
        compared = {
            day: compare_day(self.config, self.features, day, uris)
            for day in days
            if self.trained_until < day <= self.due
        }
        labeled = {day: sums for day, sums in compared.items() if sums[verdicts.ALL].count}
        if not labeled:
            raise UserError(
                f"no labeled day is known on which neither version was trained: they were until {self.trained_until}, "
                f"and labels are due until {self.due}; run `nightshift run monitoring` of a later --date first, or "
                "start without a plan: nightshift release start"
            )
        return labeled


def stamp() -> Moment:
    """Return this moment, and who asks."""
    return Moment(datetime.now(UTC), registry.user())


def make_plan(source: ExperimentSource, number: int, budget: float | None, at: Moment) -> ExperimentPlan:
    """Return what is to be expected of a version's experiment.

    Args:
        source: of versions and features.
        number: of the version.
        budget: US dollars; null for no limit.
        at: when it would start, and who asks.

    Raises:
        UserError: when it cannot start, nothing is known to plan by, or costs have no prices and there is a budget.
    """
    setup = read_setup(source, number)
    served = release_record.describe(setup.challenger)
    core.start(setup.record, served, at)  # refuses what cannot be released
    days = setup.compare_days()
    power = Power.from_days([*days.values()], setup.config.release)
    median, likely = power.plan(MEDIAN), power.plan(LIKELY)
    plan = ExperimentPlan(
        use_case=setup.record.use_case,
        champion=setup.record.live,
        challenger=served,
        planned_at=at.now,
        planned_by=at.by,
        pilot=Window(first=min(days), last=max(days), rows=sum(sums[verdicts.ALL].count for sums in days.values())),
        measured_gain=power.gain,
        median_days=median.days,
        likely_days=likely.days,
        slowest_test=median.slowest,
        detectable_gain=power.detectable_gain,
        harm=experiment.HARM,
        harm_days=power.harm_days,
        budget_usd=budget,
        rollout=setup.config.release.model_dump(mode="json"),
    )
    if budget is not None:
        _require_prices(source.state, setup, plan)
    return plan


def start(state: State, plan: ExperimentPlan) -> None:
    """Write a plan, and begin to release its version.

    Raises:
        UserError: when another release has begun, or another version is the champion since.
    """
    moment = Moment(plan.planned_at, plan.planned_by)
    uri = ledger.name_plan(state, plan.use_case, plan.planned_at, plan.challenger.version)
    plan.write(uri)  # first: a release whose plan is missing would have no budget

    def decide(record: Release | None) -> Entry:
        assert record
        if record.live.sha256 != plan.champion.sha256:
            raise UserError(f"version {record.live.version} is the champion by now; plan the experiment again")
        return core.start(record, plan.challenger, moment)

    with registry.lock(state.registry):
        release_record.change(ReleaseRef.from_state(state, plan.use_case), decide)


def read_status(state: State, name: str | None, at: Moment) -> ExperimentStatus:
    """Return how far the newest experiment is.

    Raises:
        UserError: when there was none.
    """
    record = manage.read(state, name)
    plan = ledger.read_newest_plan(state, record.use_case)
    states = ExperimentStates.find(plan, record) if plan else None
    if plan is None or states is None or not states.running:
        raise UserError(
            f"{record.use_case!r} has no experiment yet; start one: nightshift experiment start VERSION, of "
            "`nightshift models`"
        )
    config = _read_config(registry.find(state.registry, plan.use_case, plan.challenger.version))
    begun = record.model_copy(update=dict(states.running[-1]) | {"history": states.running[:-1]})
    days = [*ledger.read_days(state, begun).values()]
    observations = sum(day.count for day in days)
    costs = experiment.price(ledger.read_use(state, plan, record, observations, at.now), config.costs)
    newest, until = states.running[-1], states.end.since if states.end else at.now
    comparison = verdicts.compare(days, begun, config.release)
    return ExperimentStatus(
        plan=plan,
        stage=(states.end.action if states.end else newest.stage).value,
        is_over=states.end is not None,
        days=round((until - plan.planned_at) / DAY, 3),
        traffic=newest.challenger.traffic if newest.challenger and not states.end else 0.0,
        observations=observations,
        reasons=states.end.reasons if states.end else comparison.reasons,
        costs=costs,
        usd=experiment.add_costs(costs),
    )


def read_setup(source: ExperimentSource, number: int) -> ExperimentSetup:
    """Return two versions of a use case, the champion and another one, and its newest features.

    Raises:
        UserError: when one of them is missing.
    """
    state, record = source.state, manage.read(source.state, source.name)
    challenger = registry.find(state.registry, record.use_case, number)
    champion = registry.find(state.registry, record.use_case, record.live.version)
    config, newest = _read_config(challenger), source.find_features(record.use_case)
    if newest is None:
        raise UserError(f"no run of {record.use_case!r} in {state.runs} has left features; run one: nightshift run")
    day, uri = newest
    return ExperimentSetup(config, record, champion, challenger, read_table(uri), splits.plan(config, day).labels_due)


def _read_config(version: Version) -> Config:
    if "config" not in version.tags:
        raise UserError(f"version {version.version} was registered without its config, so nothing can be planned")
    return parse(version.tags["config"])


def _require_prices(state: State, setup: ExperimentSetup, plan: ExperimentPlan) -> None:
    """Refuse a budget that nothing could be held to."""
    use = ledger.read_use(state, plan, setup.record, 0, plan.planned_at)
    if any(cost.usd is None for cost in experiment.price(use, setup.config.costs)[:1]):
        raise UserError(
            "--budget: nothing says what the run cost that trained the version; give costs.machine, and its dollars "
            "an hour in costs.prices, in the config, or leave the budget out"
        )
