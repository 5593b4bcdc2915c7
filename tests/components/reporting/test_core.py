"""What is put together of what the steps left, without a folder."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.reporting import component, core
from components.reporting.core import RunArtifacts, RunHeader
from components.reporting.summary import Step, Summary
from nightshift.config import parse
from nightshift.runtime.flags import StepInput

CONFIG = yaml.safe_load((Path(__file__).parents[3] / "pipelines" / "configs" / "handbook.yaml").read_text())
PRICES = {"here": 1.8, "there": 3.6}


def summarized(
    record: dict[str, Any] | None = None,
    measured: dict[str, Any] | None = None,
    /,
    files: tuple[str, ...] = (),
    **costs: Any,
) -> Summary:
    """Summarize a run of ingestion and features, of which the engine and the steps say the same."""
    parsed = parse(CONFIG | {"costs": {"prices": PRICES} | costs})
    head = RunHeader("r", date(2018, 8, 14), "cpu", "simulator", parsed, "0.3.0", datetime.now(UTC))
    artifacts = {name: f"s3://runs/today/r/{step}/{name}" for name, step in (("events", "a"), ("features", "b"))}
    steps = dict.fromkeys(("a", "b"), record) if record is not None else {}
    measures = dict.fromkeys(artifacts, measured) if measured is not None else {}
    collected = RunArtifacts(artifacts, {name: {} for name in files}, measures=measures, record={"steps": steps})
    return core.summarize(head, collected)


def test_the_report_reads_every_artifact_that_the_step_takes_and_names_each_file_once() -> None:
    inputs = [field.name for field in component.reporting.fields if isinstance(field, StepInput)]
    assert list(core.ARTIFACTS) == inputs
    names = [name for artifact in core.ARTIFACTS.values() for name in (*artifact.files, *artifact.pages)]
    assert len(names) == len(set(names))
    steps = [artifact.step for artifact in core.ARTIFACTS.values()]
    assert len(steps) == len(set(steps))
    assert all((Path(core.__file__).parents[1] / name / "__main__.py").exists() for name in steps)


def step(*args: Any, **changes: Any) -> Step:
    return summarized(*args, **changes).steps["ingestion"]


@pytest.mark.parametrize(
    ("record", "measured", "machine", "usd"),
    [
        ({"seconds": 1000.0}, {"seconds": 600.0}, "here", 0.5),  # every try is paid for
        ({}, {"seconds": 600.0}, "here", 0.3),
        ({}, {"seconds": 600.0, "machine": "there"}, "there", 0.6),  # the step knows where it ran
        (None, None, "here", None),
    ],
)
def test_a_step_costs_what_its_machine_costs_for_as_long_as_all_of_its_tries(record, measured, machine, usd):
    summary = step(record, measured, machine="here")
    assert (summary.machine, summary.usd) == (machine, usd and pytest.approx(usd))
    assert summary.seconds == (measured or {}).get("seconds")


def test_without_a_machine_nothing_is_said_of_costs():
    assert (step({}, {"seconds": 600.0}).machine, step({}, {"seconds": 600.0}).usd) == (None, None)


def test_a_run_costs_the_sum_of_the_steps_that_ran():
    assert summarized({}, {"seconds": 600.0}, machine="here").usd == pytest.approx(0.6)
    assert summarized({}, {"seconds": 600.0}).usd is None
    assert summarized(None, None, machine="here").usd is None
    assert summarized({}, {"seconds": 0.0}, machine="here").usd == 0


@pytest.mark.parametrize(
    ("recorded", "files", "state", "status"),
    [
        ("done", ("events", "features"), "done", "succeeded"),
        ("reused", ("events", "features"), "reused", "succeeded"),
        ("failed", (), "failed", "failed"),
        ("done", (), "skipped", "failed"),
        ("failed", ("features",), "failed", "failed"),
    ],
)
def test_a_run_has_succeeded_when_every_step_left_its_result(recorded, files, state, status):
    summary = summarized({"state": recorded, "error": "no disk"}, files=files)
    assert (summary.steps["ingestion"].state, summary.status) == (state, status)
    assert summary.steps["ingestion"].error == "no disk"


def test_a_run_without_steps_has_not_succeeded():
    parsed = parse(CONFIG)
    head = RunHeader("r", date(2018, 8, 14), "cpu", "simulator", parsed, "0.3.0", datetime.now(UTC))
    summary = core.summarize(head, RunArtifacts())
    assert (summary.status, summary.steps, summary.usd, summary.repeat) == ("failed", {}, None, None)
    assert (summary.verdicts.evaluation, summary.verdicts.drift, summary.verdicts.deployment) == (None, None, None)


@pytest.mark.parametrize("name", ["drift", "drift_verdict"])
def test_drift_is_told_when_both_of_its_files_are_there(name):
    head = RunHeader("r", date(2018, 8, 14), "cpu", "simulator", parse(CONFIG), "0.3.0", datetime.now(UTC))
    assert core.summarize(head, RunArtifacts(files={name: {"drifted_share": 0.5}})).verdicts.drift is None


def test_libraries_are_named_once_and_in_order():
    measures = {"events": {"libraries": "pandas 3.0, numpy 2.3"}, "features": {"libraries": "numpy 2.3"}, "model": {}}
    assert RunArtifacts(measures=measures).libraries == ["numpy 2.3", "pandas 3.0"]
