"""Reasons by request are those that a night writes, of the version that has scored, and wrong requests are refused."""

import asyncio
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import numpy as np
import pandas as pd
import pytest

from nightshift.contracts import package as contract
from nightshift.contracts.preprocessing import Inputs, TabularPreprocessing
from nightshift.http.errors import OverloadedError
from nightshift.runtime.errors import UserError
from nightshift.serving.assignment import is_answered
from nightshift.serving.batching import ServerLimits
from nightshift.serving.files import Challenger, DeploymentPointer
from nightshift.serving.reasons import ReasonLimits
from nightshift.serving.versions import load
from nightshift.tabular.reasons import Explainer
from nightshift.tasks.fitting import FitSpec, with_reasons
from nightshift.tasks.tabular import estimators
from nightshift.tasks.tabular.features import core
from nightshift.tasks.tabular.scoring import ScoringTask
from nightshift_testkit import packages
from tests.nightshift.serving.conftest import Running, point
from tests.nightshift.serving.events import CHOSEN, EVENTS, LATER, PAST, raw
from tests.nightshift.tabular.online.streams import offline, written

NAMES = core.numeric_inputs(CHOSEN)
ROWS = pd.DataFrame(offline(EVENTS, CHOSEN), columns=NAMES)
OF_LATER = ROWS.tail(len(LATER)).reset_index(drop=True)


def model(folder: Path, depth: int = 4) -> str:
    """The URI of boosted trees of the events' features."""
    matrix = ROWS.to_numpy(np.float32)
    labels = (ROWS["amount"] > 60).to_numpy(np.int8) ^ (np.arange(len(ROWS)) % 7 == 0)
    spec = FitSpec("p", {"n_estimators": 20, "max_depth": depth}, 0, 1, "cpu")
    fitted = with_reasons(estimators.fit("xgboost", spec, matrix, labels.astype(np.int8)))
    inputs = Inputs(numeric=NAMES, categorical={})
    served = TabularPreprocessing(**dict(inputs), features=CHOSEN.feature_spec)
    manifest = packages.manifest({"all": fitted.graph}, inputs, preprocessing=served)
    contract.save(str(folder), manifest, {"all": fitted.graph}, ROWS.head(2), fitted.save_files())
    return str(folder)


def of_a_night(uri: str, most: int, rows: pd.DataFrame = OF_LATER) -> list[Any]:
    """What the scoring step writes beside the scores of rows."""
    scorer = ScoringTask().explaining_scorer(uri, contract.load(uri), most)
    assert scorer.explain
    return [json.loads(text) for text in scorer.explain(rows)]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return model(tmp_path / "model")


@pytest.fixture
def running(serve, uri: str, tmp_path: Path) -> Running:
    """A server over a snapshot of the first days; a busy machine may take long for reasons."""
    past = written(EVENTS, CHOSEN, PAST, str(tmp_path / "online" / "date=2024-03-04"))
    running: Running = serve(uri, snapshot=past, limits=ServerLimits(reasons_ms=60_000))
    return running


def score(running: Running, reasons: str, content: dict[str, Any] | None = None) -> httpx.Response:
    content = content or {"events": [raw(event) for event in LATER]}
    return httpx.post(f"{running.url}/score?reasons={reasons}", json=content)


def test_reasons_of_raw_events_are_those_that_the_night_writes(running, uri) -> None:
    predictions = score(running, "3").json()["predictions"]

    assert [prediction["reasons"] for prediction in predictions] == of_a_night(uri, 3)
    sizes = [abs(reason["contribution"]) for reason in predictions[0]["reasons"]]
    assert sizes == sorted(sizes, reverse=True)
    assert any("this customer" in reason["text"] for p in predictions for reason in p["reasons"])


def test_contributions_and_the_bias_are_the_margin_of_each_score(running, uri) -> None:
    predictions = score(running, str(len(NAMES))).json()["predictions"]

    bias = Explainer.load(uri, contract.load(uri)).contributions.bias
    margins = [bias + sum(reason["contribution"] for reason in p["reasons"]) for p in predictions]
    assert 1 / (1 + np.exp(-np.array(margins))) == pytest.approx([p["score"] for p in predictions], abs=1e-6)


def test_reasons_of_features_are_the_same_and_nobody_gets_any_who_does_not_ask(running, uri) -> None:
    content = {"instances": OF_LATER.head(3).to_dict("records")}

    with_reasons = score(running, "2", content).json()["predictions"]
    without = httpx.post(f"{running.url}/score?other=1", json=content).json()["predictions"]

    assert [prediction.pop("reasons") for prediction in with_reasons] == of_a_night(uri, 2)[:3]
    assert with_reasons == without


@pytest.mark.parametrize("wrong", ["abc", "0", "-1", "3.5", "", "99", "99999999999", "%C2%B2", "2&reasons=3"])
def test_a_count_that_the_model_cannot_give_is_refused_with_what_it_can(running, wrong) -> None:
    answer = score(running, wrong)

    assert answer.status_code == 400
    assert answer.json()["field"] == "reasons"
    assert answer.json()["allowed"] == f"a whole number from 1 to {len(NAMES)}, the inputs of the model"


def test_a_version_without_reasons_names_its_candidate_and_where_to_read_on(serve, uri) -> None:
    running = serve()

    answer = score(running, "3", {"instances": [{}]})

    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "reasons: version 1 has none: its candidate 'logistic_regression' of kind logistic_regression is not "
        "explained; docs/guides/reasons.md names the kinds that are; leave reasons out",
    )


def test_tensors_have_no_reasons(running) -> None:
    tensor = {"name": "inputs", "shape": [1, len(NAMES)], "datatype": "FP32", "data": [0.0] * len(NAMES)}

    answer = httpx.post(f"{running.url}/v2/models/fraud/infer?reasons=3", json={"inputs": [tensor]})

    assert answer.status_code == 400
    assert answer.json()["error"] == "reasons: tensors have none; send instances or events to /score?reasons=3"


def test_more_rows_than_the_budget_allows_are_refused_before_their_events_are_stored(running) -> None:
    limits = running.current.model.reasons
    limits.budget_ms = 3.5 * limits.row_ms

    answer = score(running, "3")

    assert answer.status_code == 400
    assert "send at most 3 at a time, or start the server with a larger --reasons-ms" in answer.json()["error"]
    assert score(running, "3", {"events": [raw(event) for event in LATER[:3]]}).status_code == 200
    limits.budget_ms = limits.row_ms / 2
    assert "train with fewer or smaller trees, or start the server" in score(running, "3").json()["error"]


def test_rows_that_would_wait_beyond_the_budget_are_refused_until_those_before_them_are_done(uri) -> None:
    limits = ReasonLimits(Explainer.load(uri, contract.load(uri)), 100.0)
    limits.row_ms = 60.0
    row = OF_LATER.head(1).to_numpy(np.float32)

    async def ask() -> list[Any]:
        both = await asyncio.gather(limits.explain(row, 1), limits.explain(row, 1), return_exceptions=True)
        return [*both, await limits.explain(row, 1)]

    first, refused, last = asyncio.run(ask())

    assert isinstance(refused, OverloadedError)
    assert first == last


def test_each_reason_is_of_the_version_that_has_scored(running, uri, tmp_path) -> None:
    other = model(tmp_path / "challenger", depth=1)
    beside = Challenger(2, other, contract.load(other).sha256, 0.5)
    point(running.pointer, 3, uri, str(running.current.wanted.snapshot), beside)
    running.current.refresh()

    predictions = score(running, "3").json()["predictions"]

    by_version = {3: of_a_night(uri, 3), 2: of_a_night(other, 3)}
    assert {prediction["version"] for prediction in predictions} == {2, 3}
    for row, (event, prediction) in enumerate(zip(LATER, predictions, strict=True)):
        assert prediction["version"] == (2 if is_answered(beside.sha256, 0.5, str(event.customer)) else 3)
        assert prediction["reasons"] == by_version[prediction["version"]][row]


def test_the_reasons_of_another_model_are_not_served_even_where_the_manifest_names_them(uri, tmp_path) -> None:
    sha256 = contract.load(uri).sha256
    other = contract.load(model(tmp_path / "other", depth=1))
    shutil.copy(tmp_path / "other" / contract.REASONS, Path(uri, contract.REASONS))
    pointer = DeploymentPointer(1, uri, sha256, "2018-08-01")
    with pytest.raises(UserError, match=r"reasons\.safetensors is not the file that model\.json names"):
        load("fraud", pointer, ServerLimits())

    files = [other.reasons if file.name == contract.REASONS else file for file in contract.load(uri).files]
    contract.load(uri).model_copy(update={"files": files}).write(str(Path(uri, contract.MANIFEST)))
    with pytest.raises(UserError, match="restore its files"):
        load("fraud", pointer, ServerLimits())
    assert load("fraud", replace(pointer, sha256=contract.load(uri).sha256), ServerLimits()).reasons


def test_the_openapi_page_describes_reasons_where_there_are_any(running) -> None:
    operation = httpx.get(f"{running.url}/openapi.json").json()["paths"]["/score"]["post"]
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]

    jsonschema.validate(score(running, "3").json(), schema)

    (parameter,) = operation["parameters"]
    assert (parameter["name"], parameter["in"], parameter["schema"]["maximum"]) == ("reasons", "query", len(NAMES))
