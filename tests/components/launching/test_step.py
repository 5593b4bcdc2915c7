"""The step against a server that speaks Kubeflow Pipelines' API."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from components.launching.__main__ import body
from nightshift.cluster.kubeflow import KubeflowApi, KubeflowTarget
from nightshift.contracts.request import RetrainingRequest
from nightshift.contracts.section import read_section
from nightshift.data.splits import last_complete_day
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift_testkit.kubeflow import Failure, Kubeflow
from pipelines import arguments
from pipelines.engines.kubeflow import submission as command_line
from tests.components import samples
from tests.components.states import state

NAME = f"tiny-training-{samples.DATE}"


def context(server: Kubeflow, folder: Path, retrain: bool | None = True, **changed: Any) -> StepContext:
    """The context of the step; `retrain` is what monitoring asks for, None is the step that the clock starts."""
    settings = {"endpoint": server.url, "experiment": "fraud", "namespace": "", "service_account": "runner"}
    flags = {"pipeline": "training", "data": "simulator", "device": "cpu", "launch": str(folder / "launch.json")}
    flags |= {"state": state("s3://bucket", kubeflow=settings), "request": None}
    if retrain is not None:
        RetrainingRequest(retrain=retrain, reason="Inputs moved.", key="tiny/x").write(str(folder / "request"))
        flags["request"] = str(folder / "request")
    return samples.context(**flags | changed)


def server_of(kubeflow: Kubeflow) -> KubeflowApi:
    return KubeflowApi(KubeflowTarget(kubeflow.url, "fraud"), pause=0)


def uploaded(kubeflow: Kubeflow, name: str) -> None:
    command_line.upload(server_of(kubeflow), name, arguments.load_compiled(name, "aws").yaml)


def outcome(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "launch.json").read_text())
    return content


def test_a_request_starts_the_newest_training_with_the_parameters_of_the_monitoring(
    kubeflow: Kubeflow, tmp_path: Path
) -> None:
    command_line.upload(server_of(kubeflow), "training", arguments.load_compiled("training", "gcp").yaml)
    uploaded(kubeflow, "training")
    assert body(context(kubeflow, tmp_path)) == {"started": 1.0}

    (posted,), (run,) = kubeflow.bodies("/runs"), kubeflow.runs
    assert posted["service_account"] == "runner"
    assert posted["pipeline_version_reference"] == {
        "pipeline_id": kubeflow.pipelines[0].pipeline_id,
        "pipeline_version_id": kubeflow.versions[-1].pipeline_version_id,
    }
    assert posted["runtime_config"]["parameters"] == {
        "config": samples.CONFIG,
        "date": samples.DATE,
        "data": "simulator",
        "device": "cpu",
        "state": json.loads(context(kubeflow, tmp_path).args.state) | {"serving": {}, "dask": ""},
    }
    assert kubeflow.experiments[0].display_name == "fraud"
    text, links = read_section(str(tmp_path / "launch.json")).blocks
    assert text.sentences[0].startswith(f"Outcome: {NAME}")
    assert links.links[0].uri == outcome(tmp_path)["url"]
    assert outcome(tmp_path) == {
        "schema": 1,
        "new": True,
        "run": NAME,
        "run_id": run.run_id,
        "url": f"{kubeflow.url}/#/runs/details/{run.run_id}",
        "outcome": f"{NAME} is started: {kubeflow.url}/#/runs/details/{run.run_id}",
        "reason": "Inputs moved.",
    }


@pytest.mark.parametrize("state", ["RUNNING", "SUCCEEDED", "FAILED"])
def test_the_step_again_finds_the_run_that_is_there_and_starts_none(
    state: str, kubeflow: Kubeflow, tmp_path: Path
) -> None:
    uploaded(kubeflow, "training")
    body(context(kubeflow, tmp_path))
    kubeflow.runs[0].state = state

    assert body(context(kubeflow, tmp_path)) == {"started": 0.0}
    assert len(kubeflow.runs) == 1
    assert outcome(tmp_path)["outcome"].startswith(f"{NAME} is there already")


def test_an_answer_that_got_lost_starts_no_second_run(kubeflow: Kubeflow, tmp_path: Path) -> None:
    uploaded(kubeflow, "training")
    kubeflow.failures.append(Failure("POST", "/runs", 504, done=True))
    body(context(kubeflow, tmp_path))
    assert len(kubeflow.runs) == 1


def test_another_day_and_another_use_case_are_runs_of_their_own(kubeflow: Kubeflow, tmp_path: Path) -> None:
    uploaded(kubeflow, "training")
    for use_case, day in (("tiny", "2024-03-20"), ("tiny", "2024-03-21"), ("other", "2024-03-20")):
        config = samples.CONFIG | {"name": use_case}
        assert body(context(kubeflow, tmp_path, date=day, config=json.dumps(config))) == {"started": 1.0}
    started = [(run.display_name, run.runtime_config.parameters["config"]["name"]) for run in kubeflow.runs]
    assert started == [
        ("tiny-training-2024-03-20", "tiny"),
        ("tiny-training-2024-03-21", "tiny"),
        ("other-training-2024-03-20", "other"),
    ]


def test_without_a_request_that_asks_nothing_is_sent(kubeflow: Kubeflow, tmp_path: Path) -> None:
    assert body(context(kubeflow, tmp_path, retrain=False)) == {"started": 0.0}
    launched = outcome(tmp_path)
    assert (launched["new"], launched["outcome"], launched["reason"]) == (False, "nothing is started", "Inputs moved.")
    assert not kubeflow.requests


def test_the_clock_starts_a_pipeline_for_the_last_complete_day_with_what_it_declares(
    kubeflow: Kubeflow, tmp_path: Path
) -> None:
    uploaded(kubeflow, "monitoring")
    before = last_complete_day(datetime.now(UTC))
    body(context(kubeflow, tmp_path, retrain=None, pipeline="monitoring", date=None))

    (run,) = kubeflow.runs
    parameters = run.runtime_config.parameters
    assert parameters["date"] in (str(before), str(last_complete_day(datetime.now(UTC))))
    assert run.display_name == f"tiny-monitoring-{parameters['date']}"
    assert set(parameters) == set(arguments.load_compiled("monitoring").parameters)
    assert parameters["state"]["kubeflow"] == {
        "endpoint": kubeflow.url,
        "experiment": "fraud",
        "namespace": "",
        "service_account": "runner",
    }


def test_a_pipeline_with_a_step_that_needs_an_account_runs_under_that(kubeflow: Kubeflow, tmp_path: Path) -> None:
    uploaded(kubeflow, "release")
    body(context(kubeflow, tmp_path, retrain=None, pipeline="release"))

    (posted,) = kubeflow.bodies("/runs")
    assert posted["service_account"] == "nightshift-release"


def test_a_pipeline_that_was_never_uploaded_is_named(kubeflow: Kubeflow, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no pipeline 'training'; upload it with: nightshift schedule"):
        body(context(kubeflow, tmp_path))


def test_a_pipeline_with_a_parameter_that_is_not_known_here_is_named(kubeflow: Kubeflow, tmp_path: Path) -> None:
    uploaded(kubeflow, "nightly")
    message = r"^pipeline 'nightly' takes 'pipeline', and known here are data(, \w+)+; use nightshift submit$"
    with pytest.raises(UserError, match=message):
        body(context(kubeflow, tmp_path, pipeline="nightly"))
    assert not kubeflow.runs


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"endpoint": "http://x"}, "experiment is empty"),
        ({"endpont": "http://x"}, "did you mean 'endpoint'"),
    ],
)
def test_a_wrong_place_is_named(settings: dict[str, str], message: str, kubeflow: Kubeflow, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        body(context(kubeflow, tmp_path, state=state(tmp_path, kubeflow=settings)))


@pytest.mark.slow
def test_without_kubeflow_the_step_says_how_to_carry_the_request_out(kubeflow: Kubeflow, tmp_path: Path) -> None:
    done = samples.run("launching", **vars(context(kubeflow, tmp_path, state=state(tmp_path)).args))
    assert done.returncode == 0, done.stderr
    command = f"nightshift run training --config tiny --date {samples.DATE}"
    assert done.stderr == f"no Kubeflow here; run: {command}: Inputs moved.\n"
    assert not outcome(tmp_path)["new"]


@pytest.mark.slow
def test_in_a_pod_the_mounted_token_is_sent(kubeflow: Kubeflow, tmp_path: Path) -> None:
    uploaded(kubeflow, "training")
    kubeflow.token = "mounted"
    (tmp_path / "token").write_text("mounted")
    environment = os.environ | {"KF_PIPELINES_SA_TOKEN_PATH": str(tmp_path / "token")}
    flags = vars(context(kubeflow, tmp_path).args)
    assert samples.run("launching", **flags).returncode == 2
    assert samples.run("launching", environment, **flags).returncode == 0
    assert len(kubeflow.runs) == 1


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_one_line_and_an_exit_code_that_is_retried(
    kubeflow: Kubeflow, tmp_path: Path
) -> None:
    settings = {"endpoint": "http://127.0.0.1:9/", "experiment": "fraud"}
    done = samples.run("launching", **vars(context(kubeflow, tmp_path, state=state(tmp_path, kubeflow=settings)).args))
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith("launching: http://127.0.0.1:9 does not answer")
