"""What a web page sends through its visitor's browser is refused on a server that only this machine reaches."""

import httpx
import pytest

EVENT = {"instances": [{"amount": 1.0, "customer_count_1d": 2.0, "channel": "shop"}]}
HERE = [
    {},
    {"Host": "localhost"},
    {"Host": "LOCALHOST:9000"},  # a forwarded port
    {"Host": "[::1]:8321"},
    {"Host": "127.0.0.2"},
    {"Origin": "http://localhost:3000"},
    {"Origin": "https://127.0.0.1"},
]
ELSEWHERE = [
    {"Host": "evil.example"},
    {"Host": "evil.example:8321"},  # rebound to 127.0.0.1
    {"Host": "localhost.evil.example"},
    {"Host": "127.0.0.1.nip.io"},
    {"Host": "192.0.2.1"},
    {"Host": "0.0.0.0:8321"},
    {"Origin": "null"},  # a file, or a page in a sandbox
    {"Origin": "http://evil.example"},
    {"Origin": "http://localhost.evil.example"},
    {"Origin": "http://127.0.0.1@evil.example"},
]


@pytest.mark.parametrize("headers", HERE)
def test_requests_of_this_machine_are_answered(url, headers) -> None:
    assert httpx.post(f"{url}/score", json=EVENT, headers=headers).status_code == 200


@pytest.mark.parametrize("headers", ELSEWHERE)
def test_requests_of_other_sites_are_refused_on_every_route(url, headers) -> None:
    (name,) = headers
    for method, path in (("POST", "/score"), ("POST", "/labels"), ("GET", "/model"), ("GET", "/healthz")):
        answer = httpx.request(method, url + path, headers=headers)
        assert answer.status_code == 403
        assert answer.json()["error"].startswith(f"{name} is {headers[name]}; allowed: localhost, 127.0.0.1 or [::1]")


@pytest.mark.parametrize("headers", ELSEWHERE)
def test_whoever_has_the_token_may_use_any_name(serve, headers) -> None:
    running = serve(token="secret")
    answer = httpx.post(f"{running.url}/score", json=EVENT, headers=headers | {"Authorization": "Bearer secret"})
    assert answer.status_code == 200


TYPES = [
    ("/score", "application/json; charset=utf-8", {}, 200),
    ("/score", "Application/JSON", {}, 200),
    ("/score", "application/x-www-form-urlencoded", {}, 200),  # what curl -d and urllib say by themselves
    ("/score", "application/x-www-form-urlencoded", {"Origin": "http://localhost"}, 415),
    ("/score", "text/plain", {}, 415),
    ("/score", "multipart/form-data; boundary=x", {}, 415),
    ("/invocations", "text/csv", {}, 415),
    ("/score", "application/json-seq", {}, 415),
    ("/score", "image/png", {}, 415),
    ("/labels", "text/plain", {}, 415),
    ("/v2/models/fraud/infer", "text/plain", {}, 415),
    ("/v2/models/fraud/infer", "application/octet-stream", {}, 400),  # instances are no tensors
]


@pytest.mark.parametrize(("path", "media_type", "headers", "status"), TYPES)
def test_a_body_has_the_type_that_its_route_takes(url, path, media_type, headers, status) -> None:
    answer = httpx.post(url + path, json=EVENT, headers=headers | {"Content-Type": media_type})
    assert answer.status_code == status
    if status == 415:
        assert "allowed: application/json" in answer.json()["error"]
