"""The corner cases of HTTP/1.1: by themselves over a socket, behind each other in pieces of any size."""

import asyncio
import random
from collections.abc import Iterator
from itertools import pairwise

import pytest

from nightshift.http.messages import HttpRequest, HttpResponse
from nightshift.http.transport import Connection, HttpServer
from tests.nightshift.http.corner_cases import CASES, FOLLOWED, NEXT, Case
from tests.nightshift.http.echo import Echo, Wire, exchange, outcomes, serving

MAX_KEPT = 4  # requests before the last one
MAX_CUTS = 20
MAX_PAUSES = 3  # turns of the event loop between two pieces, and before a response
KEPT = [case for case in CASES if case.answers[-1] == FOLLOWED]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as port:
        yield port


@pytest.mark.parametrize("case", CASES, ids=lambda case: ascii(case.sent)[2:62])
def test_requests_are_answered_as_http_demands(port: int, case: Case) -> None:
    assert outcomes(exchange(port, case.sent + NEXT)) == list(case.answers), case.reason


@pytest.mark.parametrize("thousand", range(10))
def test_however_requests_are_cut_they_are_answered_in_their_order(thousand: int) -> None:
    for seed in range(thousand * 1000, thousand * 1000 + 1000):
        draw = random.Random(seed)
        kept, last = draw.choices(KEPT, k=draw.randrange(MAX_KEPT + 1)), draw.choice(CASES)
        expected = [answer for case in kept for answer in case.answers[:-1]]
        sent = b"".join(case.sent for case in [*kept, last]) + NEXT
        answers = asyncio.run(talk(cut(sent, draw), draw))
        assert outcomes(answers) == [*expected, *last.answers], f"seed {seed}: {last.reason}"


def cut(sent: bytes, draw: random.Random) -> list[bytes]:
    cuts = {0, len(sent), *(draw.randrange(1, len(sent)) for _ in range(draw.randrange(MAX_CUTS)))}
    return [sent[start:end] for start, end in pairwise(sorted(cuts))]


async def talk(pieces: list[bytes], draw: random.Random) -> bytes:
    """All that a connection answers to a client that sends what is read, and closes when the server does."""
    wire, connection = Wire(), Connection(HttpServer(Pausing(draw)))
    connection.connection_made(wire)
    for piece in pieces:
        while not (wire.is_reading or wire.has_ended):
            await asyncio.sleep(0)
        if not wire.has_ended:
            connection.data_received(piece)
            await pause(draw)
    while not wire.has_ended:
        await asyncio.sleep(0)
    connection.connection_lost(None)
    await asyncio.sleep(0)
    return wire.written


class Pausing(Echo):
    """Answers after some turns of the event loop."""

    def __init__(self, draw: random.Random) -> None:
        super().__init__()
        self._draw = draw

    async def answer(self, request: HttpRequest) -> HttpResponse:
        await pause(self._draw)
        return await super().answer(request)


async def pause(draw: random.Random) -> None:
    for _ in range(draw.randrange(MAX_PAUSES + 1)):
        await asyncio.sleep(0)
