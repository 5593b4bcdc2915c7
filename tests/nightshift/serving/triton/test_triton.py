"""The repositories in a real Triton, loaded on demand, beside our own server."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from nightshift.serving.triton.config import TritonSettings
from nightshift.serving.triton.repository import PublishRequest, publish
from nightshift_testkit import triton
from nightshift_testkit.fixtures import save
from nightshift_testkit.processes import wait_until
from tests.components import pictures
from tests.nightshift.serving import texts
from tests.nightshift.serving.events import CHOSEN, EVENTS, LATER, PAST, model, raw
from tests.nightshift.serving.test_events import sent
from tests.nightshift.serving.test_images import FILES, infer, pixels, prefixed
from tests.nightshift.tabular.online.streams import acknowledged, written

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("triton")]
RNG = np.random.default_rng(0)
INSTANCES = [
    {"amount": amount, "customer_count_1d": float(i % 5), "channel": ("shop", "it's web", "other")[i % 3]}
    for i, amount in enumerate(RNG.uniform(-9, 9, 40).round(2).tolist())
]
WAIT_US = 300_000
QUEUE = 4


class Server:
    """Triton, and the repository that it reads."""

    def __init__(self, url: str, models: Path) -> None:
        self.url, self.models = url, models
        self.client = httpx.Client(base_url=url, timeout=60)

    def do(self, action: str, model: str) -> httpx.Response:
        """Load or unload a model."""
        return self.client.post(f"/v2/repository/models/{model}/{action}", json={})

    def load(self, model: str) -> None:
        answer = self.do("load", model)
        assert answer.status_code == 200, answer.text

    def infer(self, model: str, rows: Sequence[Any]) -> httpx.Response:
        """Ask for the scores of rows: objects as JSON, or numbers."""
        return self.client.post(f"/v2/models/{model}/infer", json=request(rows))

    def scores(self, model: str, rows: Sequence[Any]) -> list[float]:
        answer = self.infer(model, rows)
        assert answer.status_code == 200, answer.text
        (output,) = answer.json()["outputs"]
        assert output["shape"] == [len(rows), 1]
        return output["data"]

    def count(self, model: str, name: str) -> int:
        """A figure of the model's statistics."""
        (statistics,) = self.client.get(f"/v2/models/{model}/stats").json()["model_stats"]
        return statistics[name] if name in statistics else statistics["inference_stats"][name]["count"]


def request(rows: Sequence[Any]) -> dict[str, Any]:
    if isinstance(rows[0], dict):
        texts = [json.dumps(row) for row in rows]
        return {"inputs": [{"name": "row", "datatype": "BYTES", "shape": [len(rows), 1], "data": texts}]}
    return {"inputs": [{"name": "inputs", "datatype": "FP32", "shape": np.shape(rows), "data": rows}]}


def all_at_once(count: int, ask) -> list[Any]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: ask(), range(count)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    triton.site()
    folder = tmp_path_factory.mktemp("triton")
    models, package = folder / "models", save(folder / "package", 0.1)
    publish(models, package, PublishRequest("fraud", 1))
    publish(models, package, PublishRequest("moving", 1))
    publish(
        models,
        package,
        PublishRequest("patient", 1, settings=TritonSettings(preferred=(8, 1024), delay_us=WAIT_US, queue=QUEUE)),
    )
    publish(models, package, PublishRequest("cached", 1, settings=TritonSettings(cache=True)))
    snapshot = written(EVENTS, CHOSEN, PAST, str(folder / "online" / "date=2024-03-04"))
    parameters = {"uri": snapshot, "state": str(folder / "state")}
    publish(models, model(folder / "events"), PublishRequest("events", 1, parameters=parameters))
    publish(models, texts.with_tokenizer(folder / "topics"), PublishRequest("topics", 1))
    publish(models, pictures.model(folder / "shapes"), PublishRequest("shapes", 1))
    with triton.serve(folder, models, cache_config="local,size=1048576") as url:
        started = Server(url, models)
        with started.client:
            yield started


def test_named_features_are_scored_as_our_own_server_does(server, serve, package) -> None:
    server.load("fraud_raw")

    scores = [*server.scores("fraud_raw", INSTANCES[:1]), *server.scores("fraud_raw", INSTANCES[1:])]

    answer = httpx.post(f"{serve(package).url}/score", json={"instances": INSTANCES}).json()
    assert scores == pytest.approx([prediction["score"] for prediction in answer["predictions"]], abs=1e-6)


def test_raw_events_are_scored_as_our_own_server_does_and_are_durable(server, serve, tmp_path) -> None:
    server.load("events_raw")
    first, rest = LATER[:5], LATER[5:]

    scores = [score for event in first for score in server.scores("events_raw", [raw(event)])]
    on_disk = [record.event_id for record in acknowledged(server.models.parent / "state")]
    assert on_disk == [event.event_id for event in first]
    # loaded again: what came in before is in the state
    assert server.do("unload", "events_raw").status_code == 200
    assert server.do("unload", "events_features").status_code == 200
    wait_until(lambda: not server.client.get("/v2/models/events_features/ready").is_success, "it is unloaded")
    server.load("events_raw")
    scores += server.scores("events_raw", [raw(event) for event in rest])

    snapshot = written(EVENTS, CHOSEN, PAST, str(tmp_path / "online" / "date=2024-03-04"))
    ours = serve(model(tmp_path / "model"), snapshot=snapshot)
    assert scores == pytest.approx(sent(ours, *LATER), abs=1e-6)


def test_texts_and_numbers_of_their_tokens_are_scored_as_our_own_server_does(server, serve) -> None:
    uri = str(server.models.parent / "topics")
    numbers = texts.inputs(uri, *texts.TEXTS)
    tensors = {
        "topics_raw": {"name": "text", "datatype": "BYTES", "shape": [3, 1], "data": texts.TEXTS},
        "topics": {"name": "inputs", "datatype": "INT32", "shape": [3, 16], "data": numbers.tolist()},
    }
    ours = serve(uri).url
    for name, tensor in tensors.items():
        server.load(name)
        same(infer(server.url, tensor, model=name), infer(ours, tensor))


def test_images_and_their_pixels_are_scored_as_our_own_server_does(server, serve) -> None:
    uri = str(server.models.parent / "shapes")
    files, tensor = prefixed(*FILES), pixels(uri, *FILES)
    tensors = {
        "shapes_raw": ({"name": "image", "datatype": "BYTES", "shape": [3, 1]}, files),
        "shapes": ({"name": "inputs", "datatype": "UINT8", "shape": list(tensor.shape)}, tensor.tobytes()),
    }
    ours = serve(uri).url
    for name, (spec, values) in tensors.items():
        server.load(name)
        spec |= {"parameters": {"binary_data_size": len(values)}}
        same(infer(server.url, spec, values, name), infer(ours, spec, values))


def same(theirs: httpx.Response, ours: httpx.Response) -> None:
    """Whether Triton gives the scores that our own server does."""
    (output,), (expected, _) = (answer.json()["outputs"] for answer in (theirs, ours))
    assert (output["name"], output["datatype"], output["shape"]) == ("score", "FP32", [3, 4])
    assert output["data"] == pytest.approx(expected["data"], abs=1e-6)


def test_a_class_has_its_name_where_that_is_asked_for(server, serve) -> None:
    server.load("topics_raw")
    tensor = {"name": "text", "datatype": "BYTES", "shape": [3, 1], "data": texts.TEXTS}
    named = [{"name": "score", "parameters": {"classification": 1}}]
    (output,) = infer(server.url, tensor, model="topics_raw", outputs=named).json()["outputs"]
    _, label = infer(serve(str(server.models.parent / "topics")).url, tensor).json()["outputs"]
    assert [classified.rpartition(":")[2] for classified in output["data"]] == label["data"]


def test_a_text_that_training_would_not_take_is_refused_with_the_rule(server) -> None:
    server.load("topics_raw")
    tensor = {"name": "text", "datatype": "BYTES", "shape": [2, 1], "data": ["night", " "]}
    answer = infer(server.url, tensor, model="topics_raw")
    assert answer.status_code == 400
    assert "text[1] is empty; allowed: a text with something to see" in answer.json()["error"]


def test_a_wrong_row_is_told_what_is_allowed_and_does_not_concern_the_others(server) -> None:
    server.load("fraud_raw")
    instances = [INSTANCES[0], INSTANCES[0] | {"amount": "much"}]

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda i: server.infer("fraud_raw", [instances[i % 2]]), range(40)))

    assert [answer.status_code for answer in answers] == [200, 400] * 20
    assert "instances[0].amount is much; allowed: a finite number" in answers[1].json()["error"]


def test_a_thousand_requests_are_answered_as_by_our_own_server(server, serve, package) -> None:
    server.load("fraud")
    batches = [RNG.uniform(-9, 9, (rows, 4)).astype(np.float32).tolist() for rows in RNG.integers(1, 9, 1000)]

    scores = [score for rows in batches for score in server.scores("fraud", rows)]

    with httpx.Client(base_url=serve(package).url) as client:
        answers = [client.post("/v2/models/fraud/infer", json=request(rows)).json() for rows in batches]
    assert scores == pytest.approx([score for answer in answers for score in answer["outputs"][0]["data"]], abs=1e-6)


def test_a_version_that_is_published_takes_over_without_a_failed_request_and_the_old_one_goes(server, tmp_path) -> None:
    server.load("moving_raw")
    rows, named = [[1.0, 2.0, 0.0, 1.0]], [{"amount": 1.0, "customer_count_1d": 2.0, "channel": "it's web"}]
    old, new = (1 / (1 + np.exp(-(weight + 0.2 + 0.3))) for weight in (0.1, 0.7))
    scores: list[float] = []
    is_over = threading.Event()

    def keep_asking() -> None:
        while not is_over.is_set():
            scores.extend(server.scores("moving", rows))
            scores.extend(server.scores("moving_raw", named))

    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(keep_asking)
        try:
            wait_until(lambda: asking.done() or len(scores) > 10, "requests are answered")
            publish(server.models, save(tmp_path / "new", 0.7), PublishRequest("moving", 2))
            server.load("moving")
            seen = len(scores)
            wait_until(lambda: asking.done() or len(scores) > seen + 10, "requests are answered")
        finally:
            is_over.set()
        asking.result()

    expected = [new if score > (old + new) / 2 else old for score in scores]
    assert scores == pytest.approx(expected, abs=1e-6)
    # the one that was asked meanwhile may still be the old one's
    assert (expected[0], {*expected[seen + 1 :]}) == (old, {new})
    assert server.client.get("/v2/models/moving").json()["versions"] == ["2"]


def test_requests_that_wait_are_one_call(server) -> None:
    server.load("patient")
    before = {name: server.count("patient", name) for name in ("inference_count", "execution_count")}

    scores = all_at_once(QUEUE, lambda: server.scores("patient", [[1.0, 2.0, 0.0, 1.0]]))

    assert len({tuple(row) for row in scores}) == 1
    # its statistics come after its answers
    wait_until(lambda: server.count("patient", "inference_count") - before["inference_count"] == QUEUE, "all count")
    assert server.count("patient", "execution_count") - before["execution_count"] < QUEUE


def test_a_request_beyond_the_queue_is_answered_503(server) -> None:
    server.load("patient")

    answers = all_at_once(4 * QUEUE, lambda: server.infer("patient", [[1.0, 2.0, 0.0, 1.0]]))

    assert {answer.status_code for answer in answers} == {200, 503}
    (message,) = {answer.json()["error"] for answer in answers if answer.status_code == 503}
    assert "maximum queue size" in message


@pytest.mark.parametrize(("name", "hits"), [("cached", 1), ("fraud", 0)])
def test_a_row_that_was_answered_comes_from_the_cache_where_that_is_asked_for(server, name, hits) -> None:
    server.load(name)
    rows, calls = [[3.0, 2.0, 0.0, 1.0]], server.count(name, "execution_count")

    assert server.scores(name, rows) == server.scores(name, rows)

    assert server.count(name, "cache_hit") == hits
    # its statistics come after its answers
    wait_until(lambda: server.count(name, "execution_count") - calls == 2 - hits, "the executions are counted")


def test_triton_says_of_a_model_what_was_written(server) -> None:
    server.load("patient")
    settings = server.client.get("/v2/models/patient/config").json()
    batching = settings["dynamic_batching"]
    assert (settings["backend"], settings["max_batch_size"]) == ("onnxruntime", 1024)
    assert (batching["preferred_batch_size"], batching["max_queue_delay_microseconds"]) == ([8, 1024], WAIT_US)
    assert batching["default_queue_policy"]["max_queue_size"] == QUEUE
    assert settings["version_policy"] == {"latest": {"num_versions": 1}}
    assert [sample["batch_size"] for sample in settings["model_warmup"]] == [1, 1024]
    assert [(group["kind"], group["count"]) for group in settings["instance_group"]] == [("KIND_CPU", 1)]


def test_sagemaker_and_vertex_ai_ask_it_under_their_paths(server, tmp_path) -> None:
    """Triton listens for them on every address, so this one is in a network of its own."""
    arguments = [str(tmp_path), str(server.models), json.dumps(request([[1.0, 2.0, 0.0, 1.0]]))]
    script = Path(__file__).with_name("platforms.py")
    words = ["unshare", "--map-root-user", "--net", sys.executable, str(script), *arguments]
    done = subprocess.run(words, capture_output=True, text=True)
    if "unshare failed" in done.stderr:
        pytest.skip(f"no network of its own: {done.stderr}")
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    server.load("cached")
    (expected,) = server.scores("cached", [[1.0, 2.0, 0.0, 1.0]])
    assert answers == {"/ping": 200, "/invocations": [expected], "/health": 200, "/predict": [expected]}
