"""What servers are asked: images as they lie in the lake, and where the time of such a request goes."""

import pytest

from components.loadtest import breakdown
from components.loadtest.__main__ import _payloads
from components.loadtest.client import Client, encode
from components.loadtest.server import serve
from nightshift.contracts.loadtest import ServerSettings
from nightshift.registry import Version
from nightshift.runtime.errors import UserError
from tests.components import pictures

FILES = [pictures.file("JPEG", size=(40, 30)), pictures.file("PNG", seed=1)]


@pytest.mark.slow
def test_images_of_the_newest_day_are_sent_as_files_and_every_one_is_answered(tmp_path) -> None:
    pictures.lake(tmp_path, *FILES)
    uri = pictures.model(tmp_path / "model")
    payloads = _payloads(Version("shapes", 1, uri, "", {}), str(tmp_path / "lake"))
    assert [payload.body for payload in payloads] == FILES
    assert [payload.media_type for payload in payloads] == ["image/jpeg", "image/png"]
    with serve(uri, "shapes", ServerSettings()) as server:
        requests = [encode(payload.body, payload.media_type) for payload in payloads]
        point = Client(server.port, requests).run_closed(2, 0.2).point()
    assert point.answered and not point.failures
    shares = breakdown.shares(uri, FILES, 5.0, 10_000.0)
    assert [share.name for share in shares] == ["decode", "queue", "compute", "serialize", "HTTP and kernel"]
    assert all(share.microseconds > 0 for share in shares)
    assert sum(share.microseconds for share in shares) == pytest.approx(10_000)


def test_a_lake_without_images_is_said_to_have_none(tmp_path) -> None:
    uri = pictures.model(tmp_path / "model")
    with pytest.raises(UserError, match="has no image to ask the endpoint about"):
        _payloads(Version("shapes", 1, uri, "", {}), str(tmp_path / "lake"))
