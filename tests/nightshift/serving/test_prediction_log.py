"""The prediction log: every answer is in it once, by day, whatever the disk does."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from nightshift.contracts.package import load as manifest
from nightshift.serving import prediction_log
from nightshift.serving.answers import ScoredRows
from nightshift.serving.batching import ServerLimits
from nightshift.serving.files import DeploymentPointer
from nightshift.serving.prediction_log import PredictionLog
from nightshift.serving.versions import Model, load
from nightshift.tabular.online.event import Event


@pytest.fixture
def model(package: str) -> Model:
    return load("fraud", DeploymentPointer(7, package, manifest(package).sha256, "2018-08-01"), ServerLimits())


def scored(model: Model, *scores: float, events: tuple[Event, ...] = ()) -> ScoredRows:
    return ScoredRows(model, np.array(scores, np.float32), events)


def log(folder: Path, *answers: tuple[str, ScoredRows]) -> None:
    """Write answers as a server does that ends at once."""

    async def add() -> PredictionLog:
        predictions = PredictionLog(str(folder))
        for request_id, answer in answers:
            predictions.add(request_id, answer)
        return predictions

    asyncio.run(add()).close()


def read(folder: Path) -> pd.DataFrame:
    return pd.concat(pd.read_parquet(path) for path in sorted(folder.glob("date=*/*.parquet")))


def test_every_row_of_an_answer_is_logged_with_its_event_its_request_and_its_version(model, tmp_path) -> None:
    events = (Event(12, 1_700_000_000_000_001), Event("b", 1_700_000_000_000_002))
    low, high = model.package.decision.threshold / 2, model.package.decision.threshold

    log(tmp_path, ("first", scored(model, low, high, events=events)), ("second", scored(model, high)))

    logged = read(tmp_path)
    today = datetime.now(UTC)
    assert {path.name for path in tmp_path.iterdir()} == {f"date={moment:%Y-%m-%d}" for moment in logged.scored_at}
    assert logged.event_id.fillna("none").tolist() == ["12", "b", "none"]
    times = [event.time for event in events]
    assert [time.value // 1000 for time in logged.event_time.dropna()] == times
    assert logged.request_id.tolist() == ["first", "first", "second"]
    assert (set(logged.version), logged.score.dtype, logged.flagged.tolist()) == ({7}, "float32", [False, True, True])
    assert abs((logged.scored_at - today).dt.total_seconds()).max() < 3600


def test_what_cannot_be_written_is_kept_and_written_with_what_comes_next(model, tmp_path, caplog) -> None:
    folder = tmp_path / "log"
    folder.write_text("in the way")

    async def add() -> PredictionLog:
        predictions = PredictionLog(str(folder))
        predictions.add("first", scored(model, 0.1))
        predictions._flush()
        predictions._thread.submit(lambda: None).result()
        folder.unlink()
        predictions.add("second", scored(model, 0.2))
        return predictions

    asyncio.run(add()).close()

    assert read(folder).request_id.tolist() == ["first", "second"]
    assert "1 requests are not in the prediction log, 0 never will be" in caplog.text


@pytest.mark.parametrize("position", range(3))
def test_a_request_that_no_file_can_hold_is_left_out_and_takes_no_other_with_it(
    model, tmp_path, caplog, position
) -> None:
    answers = [(str(number), scored(model, 0.1)) for number in range(2)]
    answers.insert(position, ("wrong", scored(model, 0.1, events=(Event(1, 2**80),))))
    log(tmp_path / "log", *answers)
    assert sorted(read(tmp_path / "log").request_id) == ["0", "1"]
    assert "request wrong will never be in the prediction log" in caplog.text


def test_what_is_kept_has_an_end(model, tmp_path, caplog, monkeypatch) -> None:
    monkeypatch.setattr(prediction_log, "MAX_REQUESTS", 2)
    (tmp_path / "log").write_text("in the way")
    log(tmp_path / "log", *((str(number), scored(model, 0.1)) for number in range(5)))
    assert "5 requests are not in the prediction log, 3 never will be" in caplog.text


def test_requests_of_every_protocol_are_in_the_log(serve, package, tmp_path) -> None:
    predictions = PredictionLog(str(tmp_path / "log"))
    running = serve(predictions=predictions)
    instance: dict[str, Any] = {"amount": 1.0, "customer_count_1d": 2.0, "channel": "shop"}
    url = running.url
    httpx.post(f"{url}/score", json={"instances": [instance] * 3}, headers={"X-Request-Id": "named"})
    config = httpx.get(f"{url}/v2/models/fraud").json()["inputs"][0]
    tensor = {"name": config["name"], "datatype": "FP32", "shape": [2, 4], "data": [0.0] * 8}
    httpx.post(f"{url}/v2/models/fraud/infer", content=json.dumps({"inputs": [tensor]}), headers={"X-Request-Id": "v2"})
    httpx.post(f"{url}/score", json={"instances": []}, headers={"X-Request-Id": "refused"})
    predictions.close()
    assert read(tmp_path / "log").request_id.tolist() == ["named"] * 3 + ["v2"] * 2
