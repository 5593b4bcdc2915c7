"""A Hub of a test's own, which the variables name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nightshift_testkit import hub
from nightshift_testkit.hub import TOKEN, HubServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    with hub.serve() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
        yield server
