"""An experiment is a release that says before how long it takes, and counts what it costs."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from components.release import experiments, manage
from components.release.__main__ import advance
from components.release.core import Moment
from components.release.experiments import ExperimentSource
from components.release.targets import factory
from nightshift import registry, storage
from nightshift.contracts.release_record import Action, Entry, Stage
from nightshift.contracts.state import State
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from pipelines.cli.__main__ import parse_command_line
from pipelines.workspace import Workspace
from tests.components import samples
from tests.components.release import use_cases
from tests.components.release.use_cases import UseCase
from tests.components.states import state

STARTED = datetime(2024, 3, 18, 2, tzinfo=UTC)
COSTS = {"label_usd": 0.001, "serving_usd_hour": 0.5, "storage_usd_gb_month": 0.02}
BETTER, CHAMPION = 3, 1  # versions of `use_cases.tabular`


@dataclass(frozen=True)
class Studio:
    """A workspace with a champion, a better version, and features of labeled days."""

    folder: Path
    use_case: UseCase
    config: dict[str, Any]

    @property
    def state(self) -> State:
        return State.parse(state(self.folder))

    @property
    def source(self) -> ExperimentSource:
        return ExperimentSource(self.state, "fraud", Workspace(self.state).find_features)

    def write_run(self, pipeline: str, day: str, started: datetime, usd: float | None) -> str:
        run = f"fraud-{pipeline}-{day}-{started:%H%M%S}"
        summary = {
            "run": run,
            "steps": {},
            "pipeline": pipeline,
            "config": {"name": "fraud"},
            "logical_date": day,
            "started": started.isoformat(),
            "status": "succeeded",
            "usd": usd,
            "links": {"features": str(self.use_case.folder / "features.json")},
        }
        storage.write_json(storage.join(self.state.runs, run, "summary.json"), summary)
        return run

    def judge(self, days: float, day: str) -> None:
        """Run the step `release`, and leave what its run has cost."""
        args = samples.flags(
            config=json.dumps(self.config),
            date=day,
            state=state(self.folder),
            run=f"release-{day}",
            approve="",
            reason="",
            features=str(self.use_case.folder / "features.json"),
            release=str(self.folder / day / "release.json"),
        )
        advance(StepContext(args), STARTED + timedelta(days=days), factory.find_target)
        self.write_run("release", day, STARTED + timedelta(days=days), 0.11)


@pytest.fixture
def build_studio(tmp_path: Path, stocked: str) -> Callable[..., Studio]:
    def build(usd: float | None = 1.25, **rollout: Any) -> Studio:
        use_case = use_cases.tabular(tmp_path / "features")
        config = use_case.config | {"costs": COSTS, "release": {"shares": [], "stage_days": 1} | rollout}
        studio = Studio(tmp_path / "workspace", use_case, config)
        parent = studio.write_run("training", "2024-03-17", STARTED - timedelta(hours=1), usd)
        tags = {"config": json.dumps(config), "train_last": "2024-03-13", "parent_run": parent}
        for number in (1, 2, 3):
            registry.register(studio.state.registry, "fraud", registry.find(stocked, "fraud", number).uri, tags, {})
        release_record.promote(ReleaseRef.from_state(studio.state, "fraud"), CHAMPION)
        return studio

    return build


def plan(studio: Studio, number: int = BETTER, budget: float | None = None) -> Any:
    return experiments.make_plan(studio.source, number, budget, Moment(STARTED, "ann"))


def status(studio: Studio, days: float) -> Any:
    return experiments.read_status(studio.state, None, Moment(STARTED + timedelta(days=days), "ann"))


def test_a_plan_says_how_long_a_better_version_takes_from_days_that_nobody_was_trained_on(build_studio):
    expected = plan(build_studio())

    # labels of the last day of the newest run, the 17th, are not due
    days = expected.pilot
    assert (str(days.first), str(days.last), days.rows) == ("2024-03-14", "2024-03-16", 6000)
    assert expected.measured_gain == pytest.approx(0.22, abs=0.03)
    assert (expected.median_days, expected.likely_days, expected.slowest_test) == (1, 1, "loss")
    assert 0 < expected.detectable_gain < 0.1
    assert 1 <= expected.harm_days < 28


def test_a_plan_changes_nothing(build_studio):
    studio = build_studio()
    before = sorted(studio.folder.rglob("*"))

    plan(studio)

    assert sorted(studio.folder.rglob("*")) == before


def test_an_experiment_is_decided_by_its_labels_and_costs_what_its_runs_have_cost(build_studio):
    studio = build_studio()
    experiments.start(studio.state, plan(studio))
    began = status(studio, 0.5)
    assert (began.stage, began.is_over, began.observations) == ("shadow", False, 0)

    studio.judge(0.5, "2024-03-18")
    studio.judge(2, "2024-03-19")

    ended = status(studio, 9)
    assert (ended.stage, ended.is_over, ended.days, ended.traffic) == ("promoted", True, 2, 0)
    assert ended.reasons[0].startswith("Version 3 is better than version 1 after")
    usd = {cost.item: cost.usd for cost in ended.costs}
    assert usd["training"] == 1.25
    # the run that ends an experiment is one of it
    assert usd["judging"] == 0.22
    assert usd["labels"] == round(0.001 * ended.observations, 2) > 0
    assert ended.usd == pytest.approx(sum(usd.values()), abs=1e-9)
    assert release_record.read(ReleaseRef.from_state(studio.state, "fraud")).live.version == BETTER


def test_an_experiment_whose_budget_is_spent_ends_and_the_champion_stays(build_studio):
    studio = build_studio()
    experiments.start(studio.state, plan(studio, budget=3.3))

    studio.judge(0.5, "2024-03-18")
    assert not status(studio, 0.6).is_over
    studio.judge(0.7, "2024-03-18")

    ended = status(studio, 1)
    assert (ended.stage, ended.is_over) == ("rolled_back", True)
    assert ended.reasons == ["The experiment's budget of 3.30 USD is spent: 3.36 USD so far."]
    assert release_record.read(ReleaseRef.from_state(studio.state, "fraud")).live.version == CHAMPION


def test_a_challenger_that_answers_requests_costs_its_replicas_by_the_hour(build_studio):
    studio = build_studio()
    experiments.start(studio.state, plan(studio))
    reference = ReleaseRef.from_state(studio.state, "fraud")
    champion, challenger = release_record.read(reference).versions
    versions = [champion.model_copy(update={"traffic": 0.9}), challenger.model_copy(update={"traffic": 0.1})]
    since = STARTED + timedelta(hours=6)
    canary = Entry(stage=Stage.CANARY, versions=versions, action=Action.ADVANCED, since=since, by="test")
    release_record.change(reference, lambda _: canary)

    serving = next(cost for cost in status(studio, 1).costs if cost.item == "serving")

    assert (serving.quantity, serving.unit, serving.usd) == (18, "hours", 9)


@pytest.mark.parametrize(
    ("usd", "number", "budget", "message"),
    [
        (None, BETTER, 5.0, "--budget: nothing says what the run cost that trained the version; give costs.machine"),
        (1.0, CHAMPION, None, "version 1 is the champion"),
        (1.0, 9, None, "has no version 9; existing versions: 1, 2, 3"),
    ],
)
def test_an_experiment_that_cannot_be_held_to_its_plan_is_refused(build_studio, usd, number, budget, message):
    with pytest.raises(UserError, match=message):
        plan(build_studio(usd), number, budget)


def test_a_second_experiment_waits_for_the_end_of_the_first(build_studio):
    studio = build_studio()
    experiments.start(studio.state, plan(studio))

    with pytest.raises(UserError, match="version 3 of 'fraud' is being released; wait for its end"):
        plan(studio, 2)


def test_a_plan_against_an_older_champion_does_not_start(build_studio):
    studio = build_studio()
    outdated = plan(studio)
    release_record.promote(ReleaseRef.from_state(studio.state, "fraud"), 2)

    with pytest.raises(UserError, match="version 2 is the champion by now; plan the experiment again"):
        experiments.start(studio.state, outdated)


def test_without_labeled_days_that_are_new_to_both_versions_nothing_is_promised(build_studio):
    studio = build_studio()
    setup = experiments.read_setup(studio.source, BETTER)
    trained = replace(setup, champion=replace(setup.champion, tags=setup.champion.tags | {"train_last": "2024-03-16"}))

    with pytest.raises(UserError, match="they were until 2024-03-16, and labels are due until 2024-03-16; run"):
        trained.compare_days()


def test_commands_plan_start_show_and_stop_an_experiment(build_studio, capsys):
    studio = build_studio()

    def call(*words: str) -> str:
        flags = ["--workspace", str(studio.folder), "--registry", studio.state.registry, "--audit", studio.state.audit]
        args = parse_command_line(["experiment", *words, *flags])
        assert args.command(args) == 0
        return capsys.readouterr().out

    assert "next       nightshift experiment start 3" in call("plan", "3")
    assert "next       nightshift run release" in call("start", "3")
    assert "state      shadow after 0.0 days, 0% of the requests" in call("status")
    assert "state      rolled back after 0.0 days\n           It was ended by hand." in call("stop")
    assert manage.read(studio.state, "fraud").challenger is None
