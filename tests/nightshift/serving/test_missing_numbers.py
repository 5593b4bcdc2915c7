"""Numbers that may be missing and amounts that may be refunds, over HTTP, each where the config allows it."""

import json
import math
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import numpy as np
import pytest

from nightshift.contracts import package as contract
from nightshift.models.graph import Graph
from nightshift.tabular.windows import DAY
from nightshift.tasks.tabular.features import core
from tests.nightshift.serving import events
from tests.nightshift.serving.conftest import Running
from tests.nightshift.serving.events import PAST, ROWS, events_of, expected, model
from tests.nightshift.tabular.online.streams import START, Labeled, config, written

CHOSEN = config(numeric=["km", "age"], limits={"nullable": ["age"], "negative_amounts": True})
REFUNDED = [(time, customer, terminal, cents - 5000, label) for time, customer, terminal, cents, label in ROWS]
EVENTS = [
    event._replace(numeric=(event.numeric[0], math.nan)) if event.event_id % 3 == 0 else event
    for event in events_of(REFUNDED, CHOSEN)
]
LATER = [event for event in EVENTS if event.time >= (START + PAST) * DAY]
NAMES = core.numeric_inputs(CHOSEN)


def raw(event: Labeled) -> dict[str, Any]:
    """An event as a user has it."""
    distance, age = event.numeric
    return events.raw(event) | {"km": distance, "age": None if math.isnan(age) else age}


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return model(tmp_path / "model", CHOSEN)


@pytest.fixture
def running(serve, uri: str, tmp_path: Path) -> Running:
    """A server over a snapshot of the first days."""
    running: Running = serve(uri, snapshot=written(EVENTS, CHOSEN, PAST, str(tmp_path / "online" / "date=2024-03-04")))
    return running


def test_events_with_null_and_refunds_are_scored_as_the_batch_does(running: Running, uri: str) -> None:
    answer = httpx.post(f"{running.url}/score", json={"events": [raw(event) for event in LATER]})

    scores = [prediction["score"] for prediction in answer.json()["predictions"]]
    assert any(event.amount < 0 for event in LATER)
    assert scores == expected(uri, EVENTS, CHOSEN)[-len(LATER) :]


def test_a_binary_tensor_may_have_nan_in_nullable_columns_and_in_no_other(running: Running, uri: str) -> None:
    rows = np.ones((2, len(NAMES)), np.float32)
    rows[1, NAMES.index("age")] = np.nan
    graph = Graph(contract.read_graph(uri, contract.load(uri), "all"))

    answer = infer(running.url, rows)
    assert answer.json()["outputs"][0]["data"] == graph.score(rows).tolist()
    for column, wrong in (("km", np.nan), ("age", np.inf)):
        spoiled = rows.copy()
        spoiled[1, NAMES.index(column)] = wrong
        answer = infer(running.url, spoiled)
        assert answer.status_code == 400
        assert answer.json()["field"] == f"inputs[0].data[{len(NAMES) + NAMES.index(column)}]"


@pytest.mark.parametrize("as_rows", [True, False])
def test_a_tensor_in_json_may_have_null_in_nullable_columns_and_in_no_other(
    running: Running, uri: str, as_rows: bool
) -> None:
    rows = np.ones((2, len(NAMES)), np.float32)
    rows[1, NAMES.index("age")] = np.nan
    graph = Graph(contract.read_graph(uri, contract.load(uri), "all"))

    def ask(rows: np.ndarray) -> httpx.Response:
        data = np.where(np.isnan(rows), None, rows.astype(object))
        data = data.tolist() if as_rows else data.ravel().tolist()
        tensor = {"name": "inputs", "shape": rows.shape, "datatype": "FP32", "data": data}
        return httpx.post(f"{running.url}/v2/models/fraud/infer", json={"inputs": [tensor]})

    assert ask(rows).json()["outputs"][0]["data"] == graph.score(rows).tolist()
    rows[1, NAMES.index("km")] = np.nan
    answer = ask(rows)
    assert (answer.status_code, answer.json()["field"]) == (400, f"inputs[0].data[{len(NAMES) + NAMES.index('km')}]")


def infer(url: str, rows: np.ndarray) -> httpx.Response:
    tensor = {"name": "inputs", "shape": rows.shape, "datatype": "FP32"}
    head = json.dumps({"inputs": [tensor | {"parameters": {"binary_data_size": rows.nbytes}}]}).encode()
    headers = {"inference-header-content-length": str(len(head))}
    return httpx.post(f"{url}/v2/models/fraud/infer", content=head + rows.tobytes(), headers=headers)


@pytest.mark.parametrize(
    ("change", "is_right"),
    [({"age": None}, True), ({"amount": -7.5}, True), ({"km": None}, False), ({"age": "3"}, False)],
)
def test_the_openapi_page_says_what_may_be_missing_or_below_zero(
    running: Running, change: dict[str, Any], is_right: bool
) -> None:
    operation = httpx.get(f"{running.url}/openapi.json").json()["paths"]["/score"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    known = next(event for event in LATER if not math.isnan(event.numeric[1]))
    for body in ({"events": [raw(known) | change]}, {"instances": [dict.fromkeys(NAMES, 1.0) | change]}):
        assert jsonschema.Draft202012Validator(schema).is_valid(body) == is_right
        assert httpx.post(f"{running.url}/score", json=body).status_code == (200 if is_right else 400)
