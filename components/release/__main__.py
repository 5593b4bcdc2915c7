"""Flags in, files out: see `components/release/__init__.py`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, date, datetime

from components.release import component, core, experiment, ledger, section, verdicts
from components.release.core import Moment
from components.release.losses import compare_day
from components.release.targets import BadVersionError, ReleaseTarget, VersionShare, factory, rollout
from components.release.verdicts import RequestFigures
from nightshift import registry, storage
from nightshift.config.policy import Rollout
from nightshift.contracts.deployment import DeploymentOutcome
from nightshift.contracts.release_record import Action, Entry, Release, ReleasedVersion, Stage
from nightshift.contracts.section import write_section
from nightshift.contracts.state import DeploymentTarget as Kind
from nightshift.contracts.state import State
from nightshift.contracts.verdict import Verdict
from nightshift.data.splits import Days
from nightshift.registry import Version, approvals, release_record
from nightshift.registry.approvals import ApprovalReason
from nightshift.registry.audit_log import log_action
from nightshift.registry.promotion import Move, PromotionDecision
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.stats.sequential import LossSums


@dataclass(frozen=True)
class ReleaseSetup:
    """Inputs of the step.

    Attributes:
        context: of the step.
        day: the logical date.
        target: where versions answer; None where nothing is served.
        at: the time, and who asks.
    """

    context: StepContext
    day: date
    target: ReleaseTarget | None
    at: Moment

    @property
    def ref(self) -> ReleaseRef:
        """Where the versions and the release record are."""
        return ReleaseRef.from_state(self.context.state, self.context.config.name)

    @property
    def rollout(self) -> Rollout:
        """How versions take over; where only one can answer, without shares."""
        usual, splits = self.context.config.release, self.target is not None and self.target.splits
        return usual if splits else usual.model_copy(update={"shares": []})


@dataclass(frozen=True)
class SettledRelease:
    """What a run has made of a release.

    Attributes:
        record: as it is then.
        waits: why the challenger waits for a person, one sentence each; empty where it does not.
    """

    record: Release
    waits: list[str]


def body(context: StepContext) -> dict[str, float | str]:
    """Take the release further now, on the target of the state."""
    return advance(context, datetime.now(UTC), factory.find_target)


def advance(
    context: StepContext, now: datetime, find_target: Callable[[State, str], ReleaseTarget | None]
) -> dict[str, float | str]:
    """Judge, have the target serve what follows, change the record; a run for a past day changes nothing.

    Args:
        context: of the step.
        now: with its zone.
        find_target: state and name of the use case -> where its versions answer.
    """
    args, config, state = context.args, context.config, context.state
    target = None if state.target is Kind.RECORD_ONLY else find_target(state, config.name)
    setup = ReleaseSetup(context, context.day, target, Moment(now, registry.user(), args.run))
    before = release_record.read(setup.ref)
    current = _approve(setup, before) if args.approve else before
    if current is None:
        raise UserError(
            f"registry {state.registry} has no champion of {config.name!r} to release against; "
            "run training first: nightshift run"
        )
    reached = _verdicts(setup, current) if current.challenger else []
    settled = SettledRelease(current, []) if state.target is Kind.RECORD_ONLY else _advance_record(setup, reached)
    record = settled.record
    step.log.info("%s: %s", config.name, " ".join([section.headline(record), *settled.waits[:1]]))
    write_section(args.release, section.build(record, reached, record != before, settled.waits))
    record.write(args.release)
    return _metadata(record, record != before)


def _approve(setup: ReleaseSetup, record: Release | None) -> Release:
    """Approve a version for a person, and have the target serve what goes live by that."""
    args, state = setup.context.args, setup.context.state
    if state.target is Kind.RECORD_ONLY or not args.approve.isdecimal():
        raise UserError(
            f"approve is {args.approve!r} with the target {state.target}; give the number of a version that waits, "
            "and no target record-only, which changes nothing"
        )
    by, before = args.by or registry.user(), _parts(setup, record) if record else []

    def serve(version: Version) -> None:
        if setup.target:
            rollout(setup.target, [factory.build_share(state.lake, version, 1.0)], before)

    subject = f"version {args.approve}"
    with log_action(state, "approve", setup.ref.name, subject, args.reason or "", by), registry.lock(state.registry):
        return approvals.approve(setup.ref, int(args.approve), ApprovalReason(args.reason or "", by), serve)


def _metadata(record: Release, changed: bool) -> dict[str, float | str]:
    """Return the step's metadata; a promotion is said as the deployment step says it."""
    live, promoted = record.live, changed and record.action is Action.PROMOTED
    decision = DeploymentOutcome.PROMOTED if promoted else DeploymentOutcome.KEPT
    return {
        "stage": record.stage.value,
        "traffic": record.challenger.traffic if record.challenger else 0.0,
        "model": record.use_case,
        "version": live.version,
        "sha256": live.sha256,
        "decision": decision.value,
    }


def _verdicts(setup: ReleaseSetup, record: Release) -> list[Verdict]:
    days, rollout = list(_losses(setup, record)), setup.rollout
    periods = list(_requests(setup, record))
    guards = [*verdicts.guard_slices(days, rollout), *verdicts.guard_requests(periods, rollout)]
    comparison = verdicts.compare([day[verdicts.ALL] for day in days], record, rollout)
    tests = [comparison, *verdicts.check_guards(guards, record, rollout), *_objectives(setup, record)]
    return [*tests, *_budget(setup, record, sum(day[verdicts.ALL].count for day in days))]


def _budget(setup: ReleaseSetup, record: Release, labels: int) -> Iterator[Verdict]:
    """Yield whether the experiment that the release is has money left, where it has a budget."""
    state, now = setup.context.state, setup.at.now
    plan = ledger.read_plan(state, record)
    if plan and plan.budget_usd is not None:
        use = ledger.read_use(state, plan, record, labels, now)
        yield experiment.check_budget(plan.budget_usd, experiment.price(use, setup.context.config.costs), record)


def _objectives(setup: ReleaseSetup, record: Release) -> Iterator[Verdict]:
    if record.stage is Stage.CANARY and setup.target:
        since = max(core.stage_start(record), setup.at.now - core.DAY)
        figures = setup.target.measure(_parts(setup, record)[-1], since, setup.at.now)
        if figures:
            yield verdicts.objectives(figures, record, setup.rollout)


def _requests(setup: ReleaseSetup, record: Release) -> Iterator[tuple[RequestFigures, RequestFigures]]:
    """Yield the champion's figures and the challenger's for each time with another share; none in shadow."""
    parts = _parts(setup, record) if record.stage is Stage.CANARY and setup.target else []
    for share, since, until in core.canary_periods(record, setup.at.now) if parts else ():
        assert setup.target
        served = (replace(part, traffic=traffic) for part, traffic in zip(parts, (1 - share, share), strict=True))
        champion, challenger = (setup.target.measure(part, since, until) for part in served)
        if champion and challenger:
            yield champion, challenger


def _losses(setup: ReleaseSetup, record: Release) -> Iterator[dict[str, LossSums]]:
    """Yield what the labels that have arrived since the release began say, a day at a time; new days are kept."""
    folder = ledger.losses_folder(setup.context.state, record)
    table, known = setup.context.features, set(storage.names(folder))
    uris = [_version(setup, served).uri for served in record.versions]
    for day in _labeled_days(setup, record):
        uri = storage.join(folder, f"{day}.json")
        if f"{day}.json" in known:
            yield {name: LossSums(**sums) for name, sums in storage.read_json(uri).items()}
        elif any(part.date == str(day) for part in table.partitions):
            losses = compare_day(setup.context.config, table, day, uris)
            storage.write_json(uri, {name: asdict(sums) for name, sums in losses.items()})
            yield losses


def _labeled_days(setup: ReleaseSetup, record: Release) -> Days:
    """Return the days whose labels were not known when the release began and are now.

    Those before decided that the version is released; to judge by them again would count them twice.
    """
    due = setup.context.plan.labels_due
    return Days(core.start_time(record).astimezone(UTC).date() - (setup.day - due), due)


def _advance_record(setup: ReleaseSetup, reached: Sequence[Verdict]) -> SettledRelease:
    waits: list[str] = []

    def decide(record: Release | None) -> Entry | None:
        assert record
        decision = _judge(setup, record, reached)
        waits[:] = decision.reasons if decision and decision.move is Move.WAIT else []
        return _serve(setup, record, core.follow(record, decision, setup.rollout, setup.at) if decision else None)

    with registry.lock(setup.context.state.registry):
        record = release_record.change(setup.ref, decide)
        assert record
        if record.challenger and setup.rollout.needs_approval:
            waiting = approvals.describe(record.challenger, record.live.sha256, setup.at.run, waits) if waits else None
            approvals.note(setup.ref, record.challenger.version, waiting)
    return SettledRelease(record, waits)


def _judge(setup: ReleaseSetup, record: Release, reached: Sequence[Verdict]) -> PromotionDecision | None:
    challenger = record.challenger
    if challenger is None:
        return None
    needs_approval = setup.rollout.needs_approval and not approvals.is_approved(
        setup.ref, challenger.sha256, record.live.sha256
    )
    return core.judge(record, reached, setup.rollout, setup.at, needs_approval)


def _serve(setup: ReleaseSetup, record: Release, entry: Entry | None) -> Entry | None:
    """Have the target serve a state before the record says so; a challenger that is wrong ends its release."""
    if setup.target is None:
        return entry
    wanted = entry or record
    try:
        rollout(setup.target, _parts(setup, wanted), _parts(setup, record))
    except BadVersionError as error:
        if not _tries(record, wanted):
            raise
        entry = core.withdraw(record, setup.at, [str(error)])
        champion = _parts(setup, entry)
        rollout(setup.target, champion, champion)  # if that does not answer either, the challenger is not to blame
    return entry


def _tries(record: Release, wanted: Entry) -> bool:
    """Return whether the challenger of a release answers requests in a state."""
    challenger = record.challenger
    return bool(
        challenger and any(served.version == challenger.version and served.traffic for served in wanted.versions)
    )


def _parts(setup: ReleaseSetup, entry: Entry) -> list[VersionShare]:
    """Return the versions that answer requests in a state of a release."""
    serving = [served for served in entry.versions if served.traffic]
    return [
        factory.build_share(setup.context.state.lake, _version(setup, served), served.traffic) for served in serving
    ]


def _version(setup: ReleaseSetup, served: ReleasedVersion) -> Version:
    return registry.find(setup.context.state.registry, setup.context.config.name, served.version)


if __name__ == "__main__":
    step.run(component.release.parser(), body)
