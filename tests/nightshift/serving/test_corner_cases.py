"""The corner cases of HTTP/1.1, over a socket and cut anywhere; for longer: `python -m benchmarks.serving.cuts`."""

from collections.abc import Iterator

import pytest

from tests.nightshift.serving.corner_cases import CASES, NEXT, Case
from tests.nightshift.serving.echo import exchange, outcomes, serving


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as port:
        yield port


@pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case.sent)[2:62])
def test_requests_are_answered_as_http_demands(port: int, case: Case) -> None:
    assert outcomes(exchange(port, case.sent + NEXT)) == list(case.answers), case.reason
