"""What an endpoint has taken in is erased too, in its files or in a Redis, while no server runs on them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from nightshift import storage
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.tabular.online import embedded, snapshot
from nightshift.tabular.online.embedded import Embedded
from nightshift.tabular.online.event import EPOCH_DAYS, Event
from nightshift.tabular.online.shared import Shared
from nightshift.tabular.windows import DAY
from nightshift_testkit import redis
from nightshift_testkit.servers import free_port
from pipelines.erasure.carrying_out import carry_out, plan
from pipelines.erasure.request import ErasureRequest

from .nights import DATE, Nights, rows

NEXT = (DATE.toordinal() + 1 - EPOCH_DAYS) * DAY
EVENTS = [Event("pay-9001-x", NEXT + 5, "ada-0001", 1, 5.0), Event("pay-9002-x", NEXT + 7, "bob-0002", 1, 6.0)]


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    nights = Nights(tmp_path)
    nights.deliver(rows(["ada-0001", "bob-0002"], per_day=6))
    nights.online = nights.night(until="features")["features"].details["online"]
    return nights


@pytest.fixture
def folder(nights: Nights) -> Iterator[Path]:
    """The state of an endpoint that has taken two events in, and has ended."""
    folder = nights.folder / "registry" / "endpoint" / "tiny" / "state"
    store = Embedded(folder, snapshot.map_file(nights.online, str(folder)))
    store.take(EVENTS)
    store.close()
    storage.write_json(str(folder.parent / "state.json"), {"pid": 1, "host": "127.0.0.1", "port": 1, "flags": []})
    return folder


def with_redis(nights: Nights, url: str) -> ErasureRequest:
    request = nights.request("ada-0001")
    return ErasureRequest(request.state, request.config, request.subject, request.reason, url)


def test_the_log_of_an_endpoint_keeps_the_events_of_others(nights: Nights, folder: Path) -> None:
    (folder.parent / "server.log").write_text("event of ada-0001 refused\nevent of bob-0002 refused\n")

    stores = {store.store: store.rows for store in nights.erase("ada-0001").stores}

    assert stores["online state in files"] == 1
    every = b"".join(path.read_bytes() for path in folder.parent.rglob("*") if path.is_file())
    assert b"ada-0001" not in every and b"pay-9001" not in every
    assert b"bob-0002" in every and b"pay-9002" in every
    again = Embedded(folder, snapshot.map_file(nights.online, str(folder)))
    assert len(again.take([EVENTS[1]])) == 1
    again.close()


def test_an_erasure_waits_for_nobody_who_has_the_state(nights: Nights, folder: Path) -> None:
    before = sorted(path.name for path in (nights.folder / "lake").rglob("*"))
    with embedded.alone(folder), pytest.raises(UserError, match="used by another process; stop it"):
        nights.erase("ada-0001")
    assert sorted(path.name for path in (nights.folder / "lake").rglob("*")) == before


def test_a_redis_that_the_endpoint_uses_has_to_be_given(nights: Nights, folder: Path) -> None:
    flags = ["--redis-file", "/run/redis"]
    storage.write_json(str(folder.parent / "state.json"), {"pid": 1, "host": "127.0.0.1", "port": 1, "flags": flags})
    with pytest.raises(UserError, match="give --redis-file"):
        plan(nights.request("ada-0001"))


@pytest.mark.slow
def test_events_in_a_redis_go_and_one_that_is_down_ends_the_command_before_anything_is_changed(
    nights: Nights, tmp_path: Path
) -> None:
    (tmp_path / "redis").mkdir()
    with redis.serve(tmp_path / "redis") as url:
        store = Shared(lambda: url, "tiny", snapshot.map_file(nights.online, str(tmp_path / "copies")))
        store.take(EVENTS)
        store.close()
        with pytest.raises(UnavailableError, match="Redis"):
            carry_out(with_redis(nights, f"redis://127.0.0.1:{free_port()}/0"))
        assert not (nights.folder / "audit").exists()

        decision = carry_out(with_redis(nights, url))

        assert {store.store: store.rows for store in decision.stores}["online state in Redis"] == 2
        assert decision.proof is not None and decision.proof.hits == {}
