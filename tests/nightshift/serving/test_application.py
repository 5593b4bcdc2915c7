"""The routes, asked over HTTP."""

import http.client
import json
import math
import socket

import httpx
import pytest

from nightshift.http.addresses import listen
from nightshift.serving.batching import ServerLimits
from nightshift.serving.files import RunningServer
from nightshift_testkit.processes import SECONDS
from nightshift_testkit.servers import free_port

EVENT = {"amount": 1.5, "customer_count_1d": 2.0, "channel": "it's web"}
SCORE = 1 / (1 + math.exp(-(0.1 * 1.5 + 0.1 * 2.0 + 0.3)))


def test_named_features_get_the_models_score_a_decision_and_the_version(url) -> None:
    answer = httpx.post(f"{url}/score", json={"instances": [EVENT, EVENT | {"amount": -100}]})

    assert answer.status_code == 200
    content = answer.json()
    assert (content["model"], content["version"]) == ("fraud", 1)
    assert content["predictions"][0] == {"score": pytest.approx(SCORE, abs=1e-6), "flagged": True, "version": 1}
    assert not content["predictions"][1]["flagged"]


def test_wrong_requests_get_400_with_what_is_allowed_and_right_ones_go_on(url) -> None:
    for instance, field, allowed in (
        (EVENT | {"amount": "12"}, "instances[0].amount", "finite number"),
        ({"amount": 1}, "instances[0].customer_count_1d", "all of amount"),
        (EVENT | {"amuont": 1}, "instances[0].amuont", "did you mean 'amount'?"),
        ([1, 2], "instances[0]", "an object with amount"),
    ):
        answer = httpx.post(f"{url}/score", json={"instances": [instance]})
        assert (answer.status_code, answer.json()["field"]) == (400, field)
        assert allowed in answer.json()["allowed"]
    no_json = (b"", b"{", b"[" * 100_000, b"\xff\xfe", b'{"instances": [{"\\ud800": 1}]}', b'{"instances": [NaN]}')
    for body in no_json:
        answer = httpx.post(f"{url}/score", content=body)
        assert (answer.status_code, answer.json()["field"], answer.json()["allowed"]) == (400, "body", "JSON"), body[
            :20
        ]
    assert httpx.post(f"{url}/score", json={"instances": [EVENT] * 1024}).status_code == 200
    assert httpx.post(f"{url}/score", json={"instances": [EVENT] * 1025}).status_code == 400


def test_a_path_or_method_that_does_not_exist_is_told_what_does(url) -> None:
    assert httpx.get(f"{url}/made/up").json() == {"error": "unknown path: /made/up; see /openapi.json and /v2"}
    wrong = httpx.get(f"{url}/score")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_over_the_limit_is_refused_however_it_comes(serve, announced) -> None:
    body = json.dumps({"instances": [EVENT] * 100}).encode()
    parts = body if announced else iter([body[:50], body[50:]])

    answer = httpx.post(f"{serve(limits=ServerLimits(body=1000)).url}/score", content=parts)

    assert answer.status_code == 413
    assert "allowed: at most 1000; send fewer rows at a time" in answer.json()["error"]


def test_a_body_that_comes_in_parts_is_put_together(url) -> None:
    body = json.dumps({"instances": [EVENT]}).encode()
    answer = httpx.post(f"{url}/score", content=iter([body[:10], body[10:30], body[30:]]))
    assert answer.json()["predictions"][0]["score"] == pytest.approx(SCORE, abs=1e-6)


def test_a_token_is_asked_for_everywhere_but_at_health(serve) -> None:
    url = serve(token="secret").url
    for wrong in ({}, {"Authorization": "Bearer secreT"}, {"Authorization": "secret"}):
        answer = httpx.post(f"{url}/score", json={"instances": [EVENT]}, headers=wrong)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    for path in ("/model", "/metrics", "/openapi.json", "/v2/models/fraud", "/v2"):
        assert httpx.get(url + path).status_code == 401, path
    for path in ("/healthz", "/ping", "/v2/health/live", "/v2/health/ready"):
        assert httpx.get(url + path).status_code == 200, path
    bearer = {"Authorization": "Bearer secret"}
    assert httpx.post(f"{url}/score", json={"instances": [EVENT]}, headers=bearer).status_code == 200


def test_a_connection_gives_each_head_its_answer_again_refusals_too(serve) -> None:
    url, body = serve(token="secret").url, json.dumps({"instances": [EVENT]})
    with socket.create_connection(("127.0.0.1", httpx.URL(url).port), SECONDS) as client:

        def status(path: str, token: str) -> int:
            head = f"POST {path} HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {token}\r\n"
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
            answer = http.client.HTTPResponse(client)
            answer.begin()
            answer.read()
            return answer.status

        for _ in range(3):
            assert [status("/score", "secret"), status("/score", "secreT")] == [200, 401]
            assert [status("/model", "secret"), status("/nowhere", "secret")] == [405, 404]
    page = httpx.get(f"{url}/metrics", headers={"Authorization": "Bearer secret"}).text
    assert {line for line in page.splitlines() if line.startswith("nightshift_endpoint_requests_total")} == {
        f'nightshift_endpoint_requests_total{{code="{code}",route="{route}",use_case="fraud"}} 3.0'
        for code, route in ((200, "/score"), (401, "/score"), (405, "none"), (404, "none"))
    }


def test_a_request_id_comes_back_and_a_missing_or_odd_one_is_made(url) -> None:
    assert httpx.get(f"{url}/healthz", headers={"X-Request-Id": "a-1.b:2"}).headers["x-request-id"] == "a-1.b:2"
    ids = {
        httpx.get(f"{url}/healthz", headers=odd).headers["x-request-id"]
        for odd in ({}, {}, {"X-Request-Id": "a b"}, {"X-Request-Id": "x" * 129})
    }
    assert len(ids - {"a b", "x" * 129}) == 4


DEEP = "[" * 980 + "]" * 980


@pytest.mark.parametrize("path", ["/score", "/labels", "/v2/models/fraud/infer"])
@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        f'{{"instances": {DEEP}}}',
        f'{{"instances": [{{"amount": {DEEP}}}]}}',
        f'{{"instances": [{{"amount": {"9" * 4000}}}]}}',
        f'{{"events": [{{"customer": {DEEP}}}]}}',
        f'{{"labels": [{{"label": {DEEP}}}]}}',
        f'{{"inputs": [{{"name": "inputs", "datatype": "FP32", "shape": [1, 4], "data": {DEEP}}}]}}',
        f'{{"inputs": [{{"name": "inputs", "datatype": "FP32", "shape": {DEEP}, "data": []}}]}}',
        f'{{"inputs": [{{"name": "inputs", "datatype": "FP32", "shape": [1, 4], "data": [{"9" * 4000}]}}]}}',
        '{"inputs": [{"name": "inputs", "datatype": "FP32", "shape": [1, 4], "data": ["\xff"]}]}',
        '{"instances": [{"amount": 1e999}]}',
        '{"instances": [{"amount": -Infinity}]}',
        f'{{"instances": [{{"amount": "{"x" * 100_000}"}}]}}',
    ],
    ids=range(13),
)
def test_no_json_breaks_the_server_and_what_is_answered_is_short(url, path, body) -> None:
    answer = httpx.post(url + path, content=body.encode("latin-1"))
    assert answer.status_code in (400, 409), answer.text
    assert len(answer.content) < 2000


def test_every_route_that_is_read_has_head_and_every_route_says_what_it_allows(url) -> None:
    page = httpx.get(f"{url}/v2/models/fraud").json()
    for path in ("/healthz", "/ping", "/model", "/metrics", "/openapi.json", "/v2", "/v2/health/live",
                 "/v2/models/stats", "/v2/models/fraud", "/v2/models/fraud/config"):  # fmt: skip
        head, get, options = httpx.head(url + path), httpx.get(url + path), httpx.options(url + path)
        assert (head.status_code, head.content, get.status_code) == (200, b"", 200), path
        assert (options.headers["allow"], httpx.put(url + path).headers["allow"]) == ("GET, HEAD", "GET, HEAD")
        assert "metrics" in path or head.headers["content-length"] == get.headers["content-length"]
    assert httpx.options(f"{url}/v2/models/fraud/infer").headers["allow"] == "POST"
    assert page["name"] == "fraud"


def test_kserves_client_is_told_that_server_and_model_are_ready(url) -> None:
    assert httpx.get(f"{url}/v2/health/live").json() == {"live": True}
    assert httpx.get(f"{url}/v2/health/ready").json() == {"ready": True}
    assert httpx.get(f"{url}/v2/models/fraud/ready").json() == {"name": "fraud", "ready": True}


def test_a_token_counts_as_soon_as_its_file_has_another_one(serve) -> None:
    running = serve(token="first")
    file = running.pointer.parent / "token"

    def status(token: str) -> int:
        return httpx.get(f"{running.url}/model", headers={"Authorization": f"Bearer {token}"}).status_code

    assert [status("first"), status("second")] == [200, 401]
    (file.parent / "next").write_text("second\n")
    (file.parent / "next").replace(file)
    assert [status("first"), status("second")] == [401, 200]
    file.unlink()
    assert [status("first"), status("second")] == [401, 200]


@pytest.mark.parametrize("host", ["::1", "::"])
def test_a_server_listens_on_ipv6_where_it_is_told_to(host) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with listen(free_port(), host=host) as listener:
        port = listener.getsockname()[1]
        for address in ("::1", "127.0.0.1")[: 2 if host == "::" else 1]:
            socket.create_connection((address, port), SECONDS).close()
    assert RunningServer(1, "::1", 8321).url == "http://[::1]:8321"


def test_a_platforms_paths_are_answered_like_ours(serve) -> None:
    url = serve(aliases={"/v1/endpoints/1:predict": "/score"}).url
    for path in ("/v1/endpoints/1:predict", "/invocations"):
        assert httpx.post(url + path, json={"instances": [EVENT]}).json()["predictions"][0]["flagged"]


def test_what_breaks_is_our_500_told_to_the_log_with_the_requests_ids_and_not_to_the_client(serve, caplog) -> None:
    running = serve()
    running.current.model.batcher._score = None
    ids = {"X-Request-Id": "mine", "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}

    answer = httpx.post(f"{running.url}/score", json={"instances": [EVENT]}, headers=ids)

    assert (answer.status_code, answer.json()) == (500, {"error": "internal error"})
    (record,) = [record for record in caplog.records if record.getMessage() == "a request failed"]
    assert record.fields == {"request_id": "mine", "traceparent": ids["traceparent"], "route": "/score"}
    assert 'requests_total{code="500",route="/score",use_case="fraud"} 1.0' in httpx.get(f"{running.url}/metrics").text
