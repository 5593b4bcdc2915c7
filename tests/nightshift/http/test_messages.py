"""Refusals as responses."""

import json

import pytest

from nightshift.http import errors
from nightshift.http.errors import RequestError
from nightshift.http.messages import HttpResponse

OF_A_FIELD = RequestError("amount", "x" * 300, "a number")


@pytest.mark.parametrize(
    ("error", "status", "header"),
    [
        (OF_A_FIELD, 400, None),
        (errors.UnauthorizedError("no token"), 401, ("www-authenticate", "Bearer")),
        (errors.MethodError("/score", "GET", "POST, PUT"), 405, ("allow", "POST, PUT")),
        (errors.EncodingError("br"), 415, ("accept-encoding", "gzip, deflate")),
        (errors.OverloadedError("full"), 503, ("retry-after", "1")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_refusal_is_json_with_its_status_and_what_the_client_may_do(error, status, header) -> None:
    response = HttpResponse.refusal(error)
    assert (response.status, json.loads(response.body)["error"]) == (status, str(error))
    assert set(response.headers.items()) == {("content-type", "application/json"), *([header] if header else [])}


def test_a_value_of_a_request_is_shown_shortened() -> None:
    assert json.loads(HttpResponse.refusal(OF_A_FIELD).body) == {
        "error": f"amount is {'x' * 200}...; allowed: a number",
        "field": "amount",
        "value": f"{'x' * 200}...",
        "allowed": "a number",
    }
