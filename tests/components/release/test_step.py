"""The step on a real registry, real models and real features."""

import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.release import core, manage
from components.release.__main__ import advance
from components.release.core import Moment
from components.release.targets import TOLERANCE, BadVersionError, ReleaseTarget, VersionShare, factory
from components.release.targets.local import Local
from components.release.targets.sagemaker import SageMaker
from components.release.verdicts import RequestFigures
from nightshift import registry
from nightshift.contracts import tables
from nightshift.contracts.release_record import Release, ReleasedVersion
from nightshift.contracts.section import read_section
from nightshift.contracts.state import State
from nightshift.local import endpoint
from nightshift.registry import approvals, audit_log, release_record
from nightshift.registry.release_record import ReleaseRef as Kept
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.stats.sequential import Tally
from tests.components import samples
from tests.components.release import use_cases
from tests.components.release.targets import aws
from tests.components.release.targets.aws import Aws
from tests.components.release.targets.platform import Killed
from tests.components.release.targets.versions import FEATURES, Fleet
from tests.components.release.use_cases import UseCase
from tests.components.states import state
from tests.nightshift.serving.conftest import serving

FindTarget = Callable[[State, str], ReleaseTarget | None]
BEGAN = datetime(2024, 3, 16, 2, tzinfo=UTC)  # start of tabular models' releases


@pytest.fixture(scope="session")
def build_use_case(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], UseCase]:
    """A use case by the name of its function in `use_cases`."""
    return cache(lambda kind: getattr(use_cases, kind)(tmp_path_factory.mktemp(kind)))


@pytest.fixture
def use_case(request: pytest.FixtureRequest, build_use_case: Callable[[str], UseCase], stocked: str) -> UseCase:
    """The tabular use case, or another one that a test is given; its versions 1, 2, 3 are in `stocked`."""
    built = build_use_case(getattr(request, "param", "tabular"))
    use_cases.register(stocked, built)
    return built


def flags(use_case: UseCase, stocked: str, day: str, **changed: Any) -> Namespace:
    folder = Path(stocked).parent
    return samples.flags(
        config=json.dumps(use_case.config),
        date=day,
        state=state(folder, registry=stocked, lake=str(use_case.folder / "lake"), **changed),
        run=f"release-{day}",
        features=str(use_case.folder / "features.json"),
        release=str(folder / day / "release.json"),
        approve="",
        reason="",
        by="",
    )


def begin(stocked: str, champion: int, challenger: int, at: datetime = BEGAN, name: str = "fraud") -> None:
    reference = Kept(stocked, name)
    release_record.promote(reference, champion)
    version = registry.find(stocked, name, challenger)
    served = ReleasedVersion(version=challenger, sha256=version.sha256)
    release_record.change(reference, lambda record: core.start(record, served, Moment(at, "test")))


def step(
    args: Namespace, days: float = 3, find_target: FindTarget = factory.find_target, began: datetime = BEGAN
) -> Release:
    advance(StepContext(args), began + timedelta(days=days), find_target)
    return Release.read(args.release)


@pytest.mark.parametrize("use_case", ["tabular", "images", "texts"], indirect=True)
@pytest.mark.parametrize(("champion", "challenger", "live"), [(1, 3, 3), (3, 1, 3)])
def test_the_labels_that_arrive_decide_which_version_is_live(
    tmp_path: Path, use_case: UseCase, stocked: str, champion: int, challenger: int, live: int
) -> None:
    name, began = use_case.name, use_case.began
    begin(stocked, champion, challenger, began, name)

    # labels that were known when the release began do not count
    record = step(flags(use_case, stocked, use_case.first), 0.5, began=began)
    assert (record.stage, _tallies(tmp_path)) == ("shadow", [])
    record = step(flags(use_case, stocked, use_case.last), began=began)
    assert _tallies(tmp_path) == [f"{day}.json" for day in use_case.labeled]
    assert (record.stage, record.live.version, record.run) == ("live", live, f"release-{use_case.last}")
    assert record.reasons[0].endswith(f"after {use_case.observations:,} observations.")
    assert record == release_record.read(Kept(stocked, name))
    assert registry.alias(stocked, name) == live
    assert (challenger in record.rolled_back) == (live == champion)

    section = read_section(str(tmp_path / use_case.last / "release.json"))
    assert section.outcome.headline == f"Version {live} answers all requests"
    assert section.outcome.reasons == record.reasons


def _tallies(folder: Path) -> list[str]:
    return sorted(file.name for file in (folder / "audit").rglob("*.json"))


def test_a_day_is_counted_once_and_by_what_was_known_first(tmp_path: Path, use_case: UseCase, stocked: str) -> None:
    begin(stocked, 1, 2)
    args = flags(use_case, stocked, "2024-03-17")
    first = step(args, 0.5)
    kept = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in (tmp_path / "audit").rglob("*.json")}
    table = tables.read_table(args.features)
    args.features = str(tmp_path / "fewer.json")
    tables.write_table(args.features, tables.Table("features", table.partitions[-2:], {}))

    assert step(args, 0.6) == first
    assert {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in (tmp_path / "audit").rglob("*.json")} == kept
    measures = read_section(args.release).blocks[0]
    assert measures.rows[0].cells[:2] == ["comparison", "relative loss"]
    assert [row.cells[3] for row in measures.rows] == ["at most 1", "at least 1", "at most 1"]


def test_a_run_for_a_past_day_changes_nothing(use_case: UseCase, stocked: str) -> None:
    begin(stocked, 1, 3)
    before = release_record.read(Kept(stocked, "fraud"))
    assert step(flags(use_case, stocked, "2024-03-18", target="record-only")) == before
    assert release_record.read(Kept(stocked, "fraud")) == before


@pytest.mark.slow
@pytest.mark.parametrize("use_case", ["tabular", "images"], indirect=True)
def test_on_this_machine_the_endpoint_moves_on_with_the_record_and_a_version_that_fails_ends_its_release(
    use_case: UseCase, stocked: str
) -> None:
    name, began = use_case.name, use_case.began
    first, last = (flags(use_case, stocked, day, target="local") for day in (use_case.first, use_case.last))
    endpoint_of = Local(State.parse(first.state), name)
    begin(stocked, 1, 3, began, name)
    try:
        step(first, 0.5, began=began)
        assert endpoint_of.serving() == {1: 1}
        for days, share in ((3, 0.05), (4, 0.25), (5, 0.5)):
            step(last, days, began=began)
            assert endpoint_of.serving() == {1: 1 - share, 3: share}
        step(last, 6, began=began)
        assert endpoint_of.serving() == {3: 1}

        begin(stocked, 3, 1, began, name)
        record = step(last, began=began)  # it is worse, and gets no requests
        assert (record.live.version, record.rolled_back) == (3, {1})
        assert endpoint_of.serving() == {3: 1}

        begin(stocked, 2, 3, began, name)
        step(first, 0.5, began=began)
        assert endpoint_of.serving() == {2: 1}
        step(last, 0.5, began=began)  # the tallies are there; it is too early
        uri = registry.find(stocked, name, 3).uri
        Path(uri, "model.json").write_text("{}")
        record = step(last, began=began)
        assert (record.live.version, record.rolled_back) == (2, {1, 3})
        assert "is no ModelPackage" in record.reasons[0]
        assert endpoint_of.serving() == {2: 1}
    finally:
        endpoint.stop(stocked)


class One:
    """A target that has one version answer."""

    splits, tolerance = False, TOLERANCE

    def __init__(self) -> None:
        self.served: list[int] = []
        self._shares: dict[int, float] = {}

    def apply(self, split: Sequence[VersionShare]) -> None:
        self._shares = {share.version.version: share.traffic for share in split}
        self.served += self._shares

    def serving(self) -> dict[int, float]:
        return self._shares

    def ask(self, share: VersionShare) -> Any:
        return {"predictions": [{"score": share.score}]}

    def measure(self, *_: object) -> None:
        pass

    def clean(self, split: Sequence[VersionShare]) -> None:
        pass


def test_on_a_target_without_shares_it_goes_from_shadow_to_live(use_case: UseCase, stocked: str) -> None:
    begin(stocked, 1, 3)
    one = One()
    step(flags(use_case, stocked, "2024-03-15"), 0.5, lambda *_: one)
    record = step(flags(use_case, stocked, "2024-03-18"), 3, lambda *_: one)
    assert (record.stage, one.served) == ("live", [1, 3])


class Metered(One):
    """A target of which the requests' costs are known, those of version 3 as a multiple of the others'."""

    splits = True

    def __init__(self, factor: float) -> None:
        super().__init__()
        self._factor = factor

    def measure(self, share: VersionShare, since: datetime, until: datetime) -> RequestFigures:
        requests = round(100_000 * share.traffic * ((until - since) / timedelta(days=1)))
        cost = 0.1 * (self._factor if share.version.version == 3 else 1)
        return RequestFigures(requests, 0, 5.0, {"cost": Tally(requests, requests * cost, requests * cost**2)})


@pytest.mark.parametrize(("factor", "traffic"), [(1.0, [0.05, 0.25, 0.5, 1]), (1.5, [0.05, 0])])
def test_a_version_whose_requests_cost_more_is_taken_back_though_it_is_better_in_every_slice(
    use_case: UseCase, stocked: str, factor: float, traffic: list[float]
) -> None:
    begin(stocked, 1, 3)
    target, shares, reasons = Metered(factor), list[float](), list[str]()
    step(flags(use_case, stocked, "2024-03-15"), 0.5, lambda *_: target)
    for days in range(3, 3 + len(traffic)):
        args = flags(use_case, stocked, "2024-03-18")
        args.config = json.dumps(use_case.config | {"release": {"gradual": True, "slices": ["channel"]}})
        record = step(args, days, lambda *_: target)
        shares.append(target.serving().get(3, 0))
        reasons = record.reasons
    assert shares == traffic
    if factor > 1:
        assert reasons == ["The cost of version 3 exceeds 110% of version 1's after 100,000 requests."]
    else:
        assert "The loss where channel is shop of version 3 stays within 110% of version 1's" in " ".join(reasons)


def test_a_column_that_the_features_do_not_have_is_named(use_case: UseCase, stocked: str) -> None:
    begin(stocked, 1, 3)
    args = flags(use_case, stocked, "2024-03-18")
    args.config = json.dumps(use_case.config | {"release": {"gradual": True, "slices": ["chanel"]}})
    with pytest.raises(UserError, match=r"release\.slices\.chanel: unknown; .*; did you mean 'channel'"):
        step(args)


class Bad(One):
    """A target that fails when the challenger is to answer."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def apply(self, split: Sequence[VersionShare]) -> None:
        if split[0].version.version == 3:
            raise self._error
        super().apply(split)


@pytest.mark.parametrize(
    "error", [UserError("Kubernetes refuses to replace it: Forbidden"), UnavailableError("it does not answer")]
)
def test_what_is_no_fault_of_the_version_leaves_the_record_as_it_is(
    use_case: UseCase, stocked: str, error: Exception
) -> None:
    begin(stocked, 1, 3)
    step(flags(use_case, stocked, "2024-03-15"), 0.5, lambda *_: One())
    before = release_record.read(Kept(stocked, "fraud"))
    with pytest.raises(type(error), match=str(error)):
        step(flags(use_case, stocked, "2024-03-18"), 3, lambda *_: Bad(error))
    assert release_record.read(Kept(stocked, "fraud")) == before


def test_a_version_that_is_wrong_is_rolled_back_unless_the_champion_does_not_answer_either(
    use_case: UseCase, stocked: str
) -> None:
    class Mute(Bad):
        def ask(self, share: VersionShare) -> Any:
            raise BadVersionError("it does not answer")

        def clean(self, split: Sequence[VersionShare]) -> None:
            assert split  # or the endpoint would be gone

    begin(stocked, 1, 3)
    step(flags(use_case, stocked, "2024-03-15"), 0.5, lambda *_: One())
    before = release_record.read(Kept(stocked, "fraud"))
    bad = BadVersionError("it does not start")
    with pytest.raises(BadVersionError, match="it does not answer"):
        step(flags(use_case, stocked, "2024-03-18"), 3, lambda *_: Mute(bad))
    assert release_record.read(Kept(stocked, "fraud")) == before
    record = step(flags(use_case, stocked, "2024-03-18"), 3, lambda *_: Bad(bad))
    assert (record.live.version, record.rolled_back, record.reasons) == (1, {3}, ["it does not start"])


def test_a_challenger_in_shadow_is_not_to_blame_for_a_champion_that_does_not_answer(
    use_case: UseCase, stocked: str
) -> None:
    class Brief(One):
        answers = iter([BadVersionError("it does not answer")])

        def ask(self, share: VersionShare) -> Any:
            for error in self.answers:
                raise error
            return super().ask(share)

    begin(stocked, 1, 3)
    with pytest.raises(BadVersionError, match="it does not answer"):
        step(flags(use_case, stocked, "2024-03-15"), 0.5, lambda *_: Brief())
    record = release_record.read(Kept(stocked, "fraud"))
    assert record and record.challenger and record.challenger.version == 3


@pytest.mark.slow
@pytest.mark.parametrize("p99", [5000.0, 80000.0])
def test_on_a_target_with_shares_it_goes_through_them_and_back_at_once_when_it_is_slow(
    tmp_path: Path, use_case: UseCase, stocked: str, p99: float
) -> None:
    begin(stocked, 1, 3)
    fleet, cloudwatch = Fleet(), SimpleNamespace(get_metric_statistics=lambda **query: _figures(p99, query))

    with ExitStack() as stack:
        for number in (1, 3):
            version = registry.find(stocked, "fraud", number)
            server = serving(version.uri, tmp_path / str(number) / "current.json")
            fleet.add(FEATURES, factory.build_share("", version, 1.0), stack.enter_context(server).url)
        account = stack.enter_context(aws.platform(fleet, tmp_path))

        def sagemaker(_: State, name: str) -> SageMaker:
            return SageMaker(name, aws.SETTINGS, replace(account.clients, cloudwatch=cloudwatch), lambda _: None)

        shares = []
        for days in (0.5, 3, 3.5, 4, 5, 6):
            args = flags(use_case, stocked, "2024-03-15" if days < 1 else "2024-03-18")
            account.counted.calls.clear()
            account.counted.before = 8
            with suppress(Killed):  # somewhere between two calls, the record being as it was
                step(args, days, sagemaker)
            account.counted.before = None
            record = step(args, days, sagemaker)
            shares.append(record.challenger.traffic if record.challenger else float(record.live.version == 3))
            assert sagemaker(None, "fraud").serving() == {
                served.version: served.traffic for served in record.versions if served.traffic
            }
        assert shares == ([0, 0.05, 0.05, 0.25, 0.5, 1] if p99 < 50000 else [0, 0.05, 0, 0, 0, 0])
        _check_only_one_is_left(account)


def _figures(p99: float, query: dict[str, Any]) -> dict[str, Any]:
    counts = {"Invocations": 1000.0, "Invocation5XXErrors": 0.0}
    if query["MetricName"] in counts:
        return {"Datapoints": [{"Sum": counts[query["MetricName"]]}]}
    return {"Datapoints": [{"ExtendedStatistics": {"p99": p99}}]}


def _check_only_one_is_left(account: Aws) -> None:
    assert [len(kind) for kind in account.state().values()] == [1, 1, 1]


def test_without_a_champion_there_is_nothing_to_release_against(use_case: UseCase, stocked: str) -> None:
    with pytest.raises(UserError, match="has no champion of 'fraud' to release against"):
        step(flags(use_case, stocked, "2024-03-18"))


def test_by_hand_a_release_is_started_paused_resumed_and_ended(tmp_path: Path, use_case: UseCase, stocked: str) -> None:
    kept = State.parse(state(tmp_path, registry=stocked))
    with pytest.raises(UserError, match="'fraud' has no champion"):
        manage.status(kept, "fraud")
    release_record.promote(Kept(stocked, "fraud"), 1)
    assert manage.start(kept, "fraud", 2).startswith(
        "fraud: Version 2 is compared with version 1, which answers all requests\n"
    )
    assert ", paused\n" in manage.pause(kept, "fraud")
    assert ", paused" not in manage.resume(kept, "fraud").splitlines()[0]
    lines = manage.abort(kept, "fraud").splitlines()
    assert lines[0] == (
        "fraud: Version 1 answers all requests in the record; no endpoint is running here: one that starts serves "
        "version 1; another target (state.serving) does after the next `nightshift run release`"
    )
    assert lines[1].endswith(": version 1 100%. It was ended by hand.")
    assert [line.split("  ")[1].split(" by ")[0] for line in lines[1:]] == [
        "rolled back", "resumed", "paused", "started", "promoted",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_step_runs_as_a_process(use_case: UseCase, stocked: str) -> None:
    begin(stocked, 1, 3, datetime.now(UTC))
    done = samples.run("release", **vars(flags(use_case, stocked, "2024-03-18")))
    assert done.returncode == 0, done.stderr
    assert "fraud: Version 3 is compared with version 1, which answers all requests" in done.stderr


def test_a_version_that_a_person_has_to_approve_waits_with_all_its_evidence_until_its_run_says_who_and_why(
    tmp_path: Path, use_case: UseCase, stocked: str
) -> None:
    begin(stocked, 1, 3)
    args = flags(use_case, stocked, use_case.last)
    args.config = json.dumps(use_case.config | {"release": {"gradual": True, "approval": "required"}})

    assert step(args).stage == "shadow"
    outcome = read_section(args.release).outcome
    assert (outcome.label, outcome.reasons[0]) == (
        "waiting",
        "Version 3 waits for an approval; `nightshift approve 3 --reason ...` gives it.",
    )
    assert [waiting.version for waiting in approvals.read(Kept(stocked, "fraud")).waiting] == [3]
    args.approve, args.reason, args.by = "3", "checked by risk", "ada"
    record = step(args)
    assert (record.live.version, record.action) == (3, "promoted")
    assert record.reasons[0].endswith(f"after {use_case.observations:,} observations.")
    (approval,) = approvals.read(Kept(stocked, "fraud")).approvals
    assert (approval.version, approval.reason, approval.by) == (3, "checked by risk", "ada")
    (action,) = audit_log.read_actions(State.parse(args.state), "fraud")
    assert (action.subject, action.by, action.outcome) == ("version 3", "ada", "done")


def test_a_version_that_waits_outside_a_release_is_live_by_a_run_with_its_approval(
    use_case: UseCase, stocked: str
) -> None:
    reference, args = Kept(stocked, "fraud"), flags(use_case, stocked, use_case.last)
    waiting = release_record.describe(registry.find(stocked, "fraud", 2))
    approvals.note(reference, 2, approvals.describe(waiting, None, "night", ["It is good."]))
    args.approve, args.reason = "2", "the first"

    record = step(args)

    assert (record.live.version, record.reasons) == (2, [f"Approved by {registry.user()}: the first"])
    args.approve = "2.0"
    with pytest.raises(UserError, match="with the target register-only"):
        step(args)
