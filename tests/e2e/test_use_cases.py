"""Every shipped use case for other people's data, through the command line, on small data of its kind.

All of them run at once in one workspace; one has no shared file system, as on the smallest cluster: all that outlives
its steps is in a bucket.
"""

import json
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest
import yaml

from nightshift import storage
from nightshift.config import parse
from nightshift.contracts import package
from nightshift.contracts.state import ROOTS
from nightshift.contracts.tables import read_table
from nightshift.data.splits import plan
from nightshift.tabular.inputs import FrameScorer
from nightshift_testkit import s3
from pipelines import arguments, configs
from pipelines.environments import AWS_TRY, GCP_TRY, Site
from tests.e2e.command import nightshift
from tests.e2e.other_data import MAKE

# in one group, so that one worker makes the runs that all of it looks at
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("use-cases")]

DATE = date(2025, 6, 30)
BUCKETED = [root for root in ROOTS if root not in ("registry", "runs")]  # a server's, and those of this machine
SAYS = {
    "payments": [
        "Precision at 20 is the share of positives among the 20 values of Account with the highest scores",
        "Country: ",
        "are not among the model&#39;s 3 categories",
    ],
    "machine-failure": [
        "Precision at 5 is the share of positives among the 5 values of machine_id with the highest scores",
        "nothing was learned from: pressure_bar",
        "temperature_c: missing in ",
    ],
    "leads": [
        "Precision at 10 is the share of positives among the 10 events with the highest scores",
        "2 of 14 test days hold no positive, the first is 2025-06-08",
    ],
}
# shipped configs of simulated data -> sections for a small world
SMALL: dict[str, dict[str, Any]] = {
    "demand": {"simulator": {"shops": 10, "products": 5}, "protocol": {"train_days": 28, "test_days": 14}},
    "tickets": {"simulator": {"items": 150, "customers": 200}, "protocol": {"train_days": 14, "test_days": 7}},
}
# what only card fraud has, apart from the names of the pipeline, of metrics and of settings
WORDS = ("defrauded", "suspicious", "transaction", " card ", " cards", "Card precision", "compromised customers")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A workspace after a run of each use case, all of them started at once."""
    workspace = tmp_path_factory.mktemp("workspace")
    with s3.bucket() as url, s3.reached_at(url), ThreadPoolExecutor(len(MAKE)) as pool:
        simulated = [pool.submit(run_simulated, workspace, name) for name in SMALL]
        list(pool.map(partial(run, workspace), MAKE))
        for running in simulated:
            running.result()
        yield workspace
        nightshift(workspace, "stop")


def run(workspace: Path, name: str) -> None:
    raw = workspace / "raw" / name
    raw.mkdir(parents=True)
    days = plan(parse(configs.load(name)), DATE).events
    MAKE[name](raw, days, np.random.default_rng(zlib.crc32(name.encode())))
    state = [word for root in BUCKETED for word in ("--set", f"state.{root}=s3://lake/state/{root}")]
    words = state if name == "leads" else []
    nightshift(workspace, "run", "--config", name, "--data", str(raw), "--date", str(DATE), *words)


def run_simulated(workspace: Path, name: str) -> None:
    """Run a shipped config on a small world of its simulator."""
    file = workspace / f"{name}.yaml"
    file.write_text(yaml.safe_dump(configs.load(name) | SMALL[name]))
    nightshift(workspace, "run", "--config", str(file), "--date", str(DATE))


def read_run(workspace: Path, name: str) -> tuple[Path, dict[str, Any]]:
    """The folder of a use case's only run, and its summary."""
    (folder,) = (workspace / "runs").glob(f"{name}-training-*")
    return folder, json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize("name", MAKE)
def test_the_run_succeeds_and_finds_the_signal(name: str, workspace: Path) -> None:
    _, summary = read_run(workspace, name)
    best = summary["models"][summary["selected"]]
    chance = summary["rows"]["test_positives"] / summary["rows"]["test"]
    assert summary["status"] == "succeeded"
    assert summary["verdicts"]["deployment"]["decision"] == "promoted"
    assert best["auc_roc"] > 0.7
    assert best["average_precision"] > 2 * chance


def test_a_model_is_trained_and_promoted_without_a_shared_file_system(workspace: Path) -> None:
    assert {root for root in BUCKETED if storage.names(f"s3://lake/state/{root}")} >= {"lake"}
    assert not [path for root in BUCKETED for path in workspace.glob(f"{root}/leads")]


@pytest.mark.parametrize("site", [AWS_TRY, GCP_TRY], ids=lambda site: site.name)
def test_no_step_of_the_smallest_cluster_mounts_a_volume_and_its_state_is_in_one_bucket(site: Site) -> None:
    state = arguments.load_compiled("training", site.name).parameters["state"].default
    roots = {state[name].removesuffix(f"/{name}") for name in ROOTS if name != "registry"}

    assert [placement.volumes for placement in site.placements.values()] == [()] * len(site.placements)
    assert len(roots) == 1 and roots.pop().startswith(("s3://", "gs://"))


def test_use_cases_that_ran_at_once_have_models_and_endpoints_of_their_own(workspace: Path) -> None:
    urls = set()
    for name in MAKE:
        deployment = json.loads((read_run(workspace, name)[0] / "deployment/deployment").read_text())
        assert (deployment["model"], deployment["version"]) == (name, 1)
        urls.add(deployment["endpoint"])
    assert len(urls) == len(MAKE)


@pytest.mark.parametrize("name", MAKE)
def test_the_last_day_replayed_online_has_the_features_of_the_batch(name: str, workspace: Path) -> None:
    replay = read_table(str(read_run(workspace, name)[0] / "features/features")).details["replay"]

    assert replay["rows"] > 0
    assert replay["differing"] == 0


def test_readings_without_a_temperature_are_served_as_they_were_trained_on(workspace: Path) -> None:
    folder, _ = read_run(workspace, "machine-failure")
    rows = read_table(str(folder / "features/features")).read([DATE])
    silent = rows[rows["temperature_c"].isna()].set_index("event_id")
    deployment = json.loads((folder / "deployment/deployment").read_text())
    raw = pd.read_parquet(workspace / f"raw/machine-failure/{DATE}.parquet").set_index("reading_id", drop=False)
    events = raw.loc[silent.index].drop(columns="fails_within_three_days")
    events = events.assign(measured_at=events["measured_at"].map(pd.Timestamp.isoformat), temperature_c=None)

    answer = httpx.post(f"{deployment['endpoint']}/score", json={"events": events.to_dict("records")})

    assert 0.02 < len(silent) / len(rows) < 0.1
    uri = str(workspace / "registry/models/machine-failure/1/model")
    expected = FrameScorer(uri, package.load(uri)).score(silent)
    served = [prediction["score"] for prediction in answer.json()["predictions"]]
    assert served == pytest.approx(expected.tolist(), abs=1e-6)


@pytest.mark.parametrize("name", MAKE)
def test_the_report_and_the_card_say_what_is_to_be_known_in_words_that_fit(name: str, workspace: Path) -> None:
    folder, summary = read_run(workspace, name)
    report = (folder / "report.html").read_text()
    card = storage.read_bytes(summary["links"]["model_card"]).decode()
    for text in SAYS[name]:
        assert text in report
    for word in WORDS:
        assert word not in report + card, word


def test_a_number_is_served_with_its_prediction_interval(workspace: Path) -> None:
    folder, summary = read_run(workspace, "demand")
    deployment = json.loads((folder / "deployment/deployment").read_text())
    line = json.loads(summary["curl"].partition("-d '")[2].removesuffix("'"))

    (prediction,) = httpx.post(f"{deployment['endpoint']}/score", json=line).json()["predictions"]

    assert deployment["model"] == "demand"
    assert prediction["low"] < prediction["score"] < prediction["high"]


def test_the_report_of_numbers_has_naive_forecasts_and_residuals_by_day_and_slice(workspace: Path) -> None:
    folder, summary = read_run(workspace, "demand")
    report = (folder / "report.html").read_text()

    assert summary["verdicts"]["deployment"]["decision"] == "promoted"
    for text in ("Naive forecasts on the test days", "Residuals by test day", "location=mall", "90% promised"):
        assert text in report


def test_a_class_is_served_with_the_probability_of_each_after_its_events_windows(workspace: Path) -> None:
    folder, summary = read_run(workspace, "tickets")
    deployment = json.loads((folder / "deployment/deployment").read_text())
    line = json.loads(summary["curl"].partition("-d '")[2].removesuffix("'"))

    (prediction,) = httpx.post(f"{deployment['endpoint']}/score", json=line).json()["predictions"]
    label = {key: line["events"][0][key] for key in ("ticket_id", "opened_at")} | {"label": "billing"}
    refused = httpx.post(f"{deployment['endpoint']}/labels", json={"labels": [label]})

    assert {*prediction} == {"label", "score", "scores", "version"}
    assert prediction["label"] == max(prediction["scores"], key=prediction["scores"].__getitem__)
    assert sum(prediction["scores"].values()) == pytest.approx(1, abs=1e-5)
    assert refused.status_code == 400 and "classes are read from the source of the events" in refused.text


def test_the_report_of_classes_has_each_class_confusions_and_the_surest_mistakes(workspace: Path) -> None:
    folder, summary = read_run(workspace, "tickets")
    report = (folder / "report.html").read_text()

    assert summary["verdicts"]["deployment"]["decision"] == "promoted"
    for text in ("Classes, the weakest first", "What is taken for what", "channel=email", "The surest mistakes"):
        assert text in report
