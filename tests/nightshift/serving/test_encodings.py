"""Compressed bodies, sent to a server over raw sockets."""

import gzip
import json
import zlib
from collections.abc import Iterator

import httpx
import pytest

from nightshift.serving.batching import ServerLimits
from tests.nightshift.http.echo import exchange, request, statuses
from tests.nightshift.serving.conftest import serving

LARGEST = 100_000
BODY = json.dumps({"instances": [{"amount": 1.0, "customer_count_1d": 2.0, "channel": "shop"}]}).encode()


@pytest.fixture(scope="module")
def port(package, tmp_path_factory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("encodings")
    with serving(package, folder / "target.json", ServerLimits(body=LARGEST)) as running:
        yield httpx.URL(running.url).port


def score(*lines: str, body: bytes, last: bool = False) -> bytes:
    return request("/score", *lines, body=body, last=last)


def deflated(body: bytes) -> bytes:
    """Deflate as some clients send it, without zlib's header."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP", "deflate", "identity"])
def test_a_compressed_body_is_read(port, coding) -> None:
    packed = {"deflate": [zlib.compress(BODY), deflated(BODY)], "identity": [BODY]}
    for body in packed.get(coding, [gzip.compress(BODY)]):
        sent = score(f"Content-Encoding: {coding}", body=body, last=True)
        assert statuses(exchange(port, sent)) == [200]
    empty = exchange(port, score(f"Content-Encoding: {coding}", body=b"", last=True))
    assert statuses(empty) == [400]
    assert b"allowed: JSON" in empty


@pytest.mark.parametrize(
    ("coding", "body", "status"),
    [
        pytest.param("br", b"x", 415, id="brotli"),
        pytest.param("gzip, gzip", b"x", 415, id="gzip twice"),
        pytest.param("gzip", b"hello", 400, id="no gzip"),
        pytest.param("gzip", gzip.compress(b"hello")[:-3], 400, id="cut gzip"),
        pytest.param("gzip", gzip.compress(b"hello") + b"more", 400, id="gzip with a tail"),
        pytest.param("deflate", b"\xff" * 20, 400, id="no deflate"),
        pytest.param("gzip", gzip.compress(b"x" * 10 * LARGEST), 413, id="large gzip"),
        pytest.param("deflate", zlib.compress(b"x" * (LARGEST + 1)), 413, id="large deflate"),
    ],
)
def test_a_body_that_cannot_be_decompressed_within_the_limit_is_refused_and_the_next_one_read(
    port, coding, body, status
) -> None:
    answers = exchange(port, score(f"Content-Encoding: {coding}", body=body) + score(body=BODY, last=True))
    assert (statuses(answers), b"accept-encoding: gzip, deflate" in answers) == ([status, 200], status == 415)
