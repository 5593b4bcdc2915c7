"""The step on real partitions, real ONNX models and a real registry."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from components.scoring.__main__ import body
from nightshift import registry
from nightshift.contracts import package, tables
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.section import Bars, read_section
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UserError
from nightshift.serving.prediction_log import PredictionLog, _LoggedRequest
from nightshift.tabular.online.event import Event
from nightshift_testkit import packages
from tests.components import samples
from tests.components.states import state


@pytest.fixture
def features(tmp_path: Path) -> str:
    samples.write_model(tmp_path / "model", {"only": [1.0, 0.0]})
    return samples.write_features(tmp_path, samples.features())


def scores(folder: Path) -> tables.Table:
    return tables.read_table(str(folder / "scores" / "scores.json"))


def by_champion(folder: Path, features: str) -> tables.Table:
    body(samples.context(features=features, model="", state=state(folder), scores=str(folder / "scores")))
    return scores(folder)


def register(folder: Path, promote: bool, **tags: str) -> None:
    version = registry.register(str(folder / "registry"), "tiny", str(folder / "model"), tags)
    if promote:
        release_record.promote(ReleaseRef(str(folder / "registry"), "tiny"), version.version)


def test_the_newest_days_and_those_whose_labels_are_due_are_scored(tmp_path: Path, features: str) -> None:
    samples.score(tmp_path, features)

    # the model was trained until the 16th; labels are due until the 19th, and two days are looked at
    assert [part.date for part in scores(tmp_path).partitions] == ["2024-03-18", "2024-03-19", "2024-03-20"]
    details = scores(tmp_path).details
    (flood,) = details.pop("signals")
    assert (flood["name"], flood["raised"]) == ("flagged", False)
    assert details == {
        "model": str(tmp_path / "model"),
        "model_sha256": package.load(str(tmp_path / "model")).sha256,
        "version": "unregistered",
        "trained_until": "2024-03-16",
        "promised": None,
        "flagged": int((samples.features().tail(40)["amount"] >= 0.5).sum()),
    }


@pytest.mark.usefixtures("stocked")
def test_a_flood_and_late_labels_are_in_the_headline_of_the_scoring(tmp_path: Path) -> None:
    samples.write_model(tmp_path / "model", {"only": [1.0, 0.0]})
    register(tmp_path, promote=True)
    frame = samples.features(rows_a_day=400)
    frame["amount"] = np.where(frame.index % 20 == 0, 0.9, 0.1)
    frame.loc[frame["event_time"] >= samples.DATE, "amount"] = 0.9
    by_champion(tmp_path, samples.write_features(tmp_path, frame, unlabeled={"2024-03-18": 400}))
    section = read_section(str(tmp_path / "scores"))
    assert section
    assert section.outcome
    assert section.outcome.headline.endswith("; 20 times the usual share is flagged; labels of 2024-03-18 are late")
    assert section.outcome.tone == "bad"
    assert section.outcome.reasons[1].startswith("400 rows of 2024-03-18 have no label although it is due;")


@pytest.mark.usefixtures("stocked")
def test_the_section_says_who_scored_how_much_and_that_monitoring_follows_the_champion(
    tmp_path: Path, features: str
) -> None:
    register(tmp_path, promote=True)
    first = samples.features().tail(40).iloc[0]
    answered = Event(int(first["event_id"]), first["event_time"].value // 1000)
    log = PredictionLog(str(tmp_path / "lake/tiny/predictions"))
    log._write(
        [_LoggedRequest(answered.time * 1000, "one", 1, 0.5, np.array([first["amount"]], np.float32), [answered], [])]
    )
    details = by_champion(tmp_path, features).details
    section = read_section(str(tmp_path / "scores"))
    assert section
    assert section.outcome
    assert section.outcome.headline == f"40 events of 2024-03-20 scored by version {details['version']}"
    assert section.outcome.next == "monitoring"
    assert section.outcome.reasons[1:] == [
        "The endpoint has answered 1 of 40, 1 by this version.",
        "Each of these had the same score when it was answered.",
    ]
    (days,) = [block for block in section.blocks if isinstance(block, Bars)]
    assert (days.labels[-1], days.heights[-1]) == ("2024-03-20", 40.0)


def test_a_days_scores_are_in_the_order_of_its_events(tmp_path: Path, features: str) -> None:
    samples.score(tmp_path, features)

    frame = pd.read_parquet(scores(tmp_path).partitions[-1].uri)
    events = samples.features().tail(40)
    assert frame["event_id"].tolist() == events["event_id"].tolist()
    assert frame["event_time"].tolist() == events["event_time"].tolist()
    assert frame["score"].to_numpy() == pytest.approx(events["amount"].to_numpy())
    assert frame.dtypes.astype(str).to_dict() == {
        "event_id": "int64", "event_time": "datetime64[us]", "score": "float32", "flagged": "bool",
        "model_version": "str",
    }  # fmt: skip


def test_a_day_is_scored_once_by_a_model(tmp_path: Path, features: str) -> None:
    samples.score(tmp_path, features)
    paths = {path: path.stat().st_mtime_ns for path in (tmp_path / "lake/tiny/scores").rglob("*.parquet")}
    samples.score(tmp_path, features)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "lake/tiny/scores").rglob("*.parquet")} == paths

    samples.write_model(tmp_path / "model", {"only": [0.0, 1.0]})
    samples.score(tmp_path, features)

    assert {part.uri for part in scores(tmp_path).partitions}.isdisjoint(map(str, paths))
    assert len(paths) == 3


def test_a_day_that_was_delivered_again_is_scored_again(tmp_path: Path, features: str) -> None:
    samples.score(tmp_path, features)
    before = scores(tmp_path)
    frame = samples.features()
    frame.loc[frame["event_time"] >= samples.DATE, "amount"] += 1

    samples.score(tmp_path, samples.write_features(tmp_path, frame))

    same = [old.uri == new.uri for old, new in zip(before.partitions, scores(tmp_path).partitions, strict=True)]
    assert same == [True, True, False]


@pytest.mark.usefixtures("stocked")
def test_the_champion_scores_and_promises_what_it_was_registered_with(tmp_path: Path, features: str) -> None:
    register(tmp_path, promote=True, average_precision="0.75")
    samples.write_model(tmp_path / "model", {"only": [0.0, 1.0]})
    register(tmp_path, promote=False)

    table = by_champion(tmp_path, features)

    assert table.details["version"] == "1"
    assert table.details["promised"] == {
        "metric": "average_precision",
        "value": 0.75,
        "measured": "when it was evaluated",
    }
    assert set(pd.read_parquet(table.partitions[-1].uri)["model_version"]) == {"1"}


@pytest.mark.usefixtures("stocked")
def test_a_model_without_an_evaluation_promises_its_validation(tmp_path: Path, features: str) -> None:
    uri = str(tmp_path / "model" / "model.json")
    validated = packages.candidate("only", validation={"average_precision": 0.6})
    ModelPackage.read(uri).model_copy(update={"candidates": {"only": validated}}).write(uri)
    register(tmp_path, promote=True)

    promised: Any = by_champion(tmp_path, features).details["promised"]

    assert promised == {"metric": "average_precision", "value": 0.6, "measured": "on its validation days"}


def test_the_drift_step_finds_the_models_sample_beside_the_scores(tmp_path: Path, features: str) -> None:
    reference = pd.DataFrame({"amount": [0.5], "risk": [0.5], "label": [0], "score": [0.5]})
    model = samples.write_model(tmp_path / "model", {"only": [1.0, 0.0]}, reference)

    folder = samples.score(tmp_path, features)

    assert package.load(folder) == model
    assert package.read_reference(folder).equals(reference)


def test_without_a_champion_the_way_to_one_is_told(tmp_path: Path, features: str) -> None:
    with pytest.raises(UserError, match="has no champion of 'tiny'; run training first"):
        by_champion(tmp_path, features)


@pytest.mark.usefixtures("stocked")
def test_a_champion_that_was_trained_on_later_days_scores_them_and_says_so(
    tmp_path: Path, features: str, caplog: pytest.LogCaptureFixture
) -> None:
    samples.write_model(tmp_path / "model", {"only": [1.0, 0.0]}, trained_until="2024-03-19")
    register(tmp_path, promote=True)

    with caplog.at_level(logging.WARNING, "nightshift"):
        table = by_champion(tmp_path, features)

    assert "trained until 2024-03-19: its scores of 2024-03-19 .. 2024-03-20 say nothing" in caplog.text
    assert (table.details["trained_until"], len(table.partitions)) == ("2024-03-19", 2)


def test_a_day_without_events_has_no_scores(tmp_path: Path, features: str) -> None:
    samples.empty(features, samples.DATE)

    samples.score(tmp_path, features)

    assert [part.rows for part in scores(tmp_path).partitions] == [40, 40, 0]
    assert scores(tmp_path).details["flagged"] == 0


def test_a_day_that_the_features_lack_is_named(tmp_path: Path, features: str) -> None:
    frame = samples.features()
    short = samples.write_features(tmp_path, frame[frame["event_time"] < samples.DATE])

    with pytest.raises(UserError, match=r"has no 2024-03-20, it holds 2024-03-15 \.\. 2024-03-19"):
        samples.score(tmp_path, short)


@pytest.mark.slow
def test_the_step_runs_as_a_process_with_a_model_or_else_with_the_champion(tmp_path: Path, features: str) -> None:
    model = {"model": str(tmp_path / "model")}
    flags = {"features": features, "state": state(tmp_path), "scores": str(tmp_path / "scores")}

    done = samples.run("scoring", **flags, **model)

    assert done.returncode == 0, done.stderr
    assert "2024-03-20: 40 rows" in done.stderr
    register(tmp_path, promote=True)
    assert samples.run("scoring", **flags).returncode == 0
    assert scores(tmp_path).details["version"] == "1"
