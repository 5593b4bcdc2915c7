"""Several workers of one server: together they are one, and none of them is missed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from nightshift.serving import files
from nightshift.serving.workers import SharedCounters
from nightshift_testkit import redis
from nightshift_testkit.fixtures import save
from nightshift_testkit.processes import SECONDS, started, wait_until
from nightshift_testkit.servers import free_port
from tests.nightshift.serving.conftest import point
from tests.nightshift.serving.events import CHOSEN, EVENTS, LATER, PAST, expected, model, raw
from tests.nightshift.tabular.online.streams import written

pytestmark = pytest.mark.slow

EVENT = {"instances": [{"amount": 1.0, "customer_count_1d": 2.0, "channel": "shop"}]}


class Server:
    """A server of two workers: its process, its URL and the file that says what it serves."""

    def __init__(self, process: "subprocess.Popen[bytes]", url: str, pointer: Path) -> None:
        self.process, self.url, self.pointer = process, url, pointer

    @property
    def workers(self) -> list[int]:
        """The processes that answer."""
        pid = self.process.pid
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def score(self) -> int:
        """Ask over a connection of one's own; return which version has answered."""
        version: int = httpx.post(f"{self.url}/score", json=EVENT).raise_for_status().json()["version"]
        return version

    def health(self) -> dict[str, object]:
        health: dict[str, object] = httpx.get(f"{self.url}/healthz").json()
        return health

    def counted(self) -> int:
        """Requests that were scored, as the page of metrics says."""
        lines = httpx.get(f"{self.url}/metrics").text.splitlines()
        (line,) = [line for line in lines if line.startswith("nightshift_endpoint_requests_total") and "/score" in line]
        return int(float(line.split()[-1]))


@contextmanager
def running(folder: Path, model: str, snapshot: str | None, *flags: str) -> Iterator[Server]:
    """Serve a model with two workers."""
    pointer = Path(files.pointer_uri(str(folder), "fraud"))
    pointer.parent.mkdir(parents=True)
    point(pointer, 1, model, snapshot)
    port = free_port()
    words = ["--registry", str(folder), "--name", "fraud", "--workers", "2", "--port", str(port), *flags]
    with started([sys.executable, "-m", "nightshift.serving", *words]) as process:
        server = Server(process, f"http://127.0.0.1:{port}", pointer)
        wait_until(lambda: not _health(server)["behind"], "both workers answer")
        yield server
        process.terminate()
        process.wait(SECONDS)


@pytest.fixture
def server(package: str, tmp_path: Path) -> Iterator[Server]:
    with running(tmp_path, package, None) as server:
        yield server


def _health(server: Server) -> dict[str, object]:
    try:
        return server.health()
    except httpx.TransportError:
        return {"behind": 2}


def test_a_worker_that_is_killed_is_replaced_while_the_other_answers_and_nothing_counted_is_lost(server) -> None:
    before = server.workers
    for _ in range(40):
        server.score()

    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: len(server.workers) == 2 and before[0] not in server.workers, "another one takes its place")
    answered = sum(server.score() for _ in range(20))

    wait_until(lambda: not _health(server)["behind"], "the new one serves too")
    assert (answered, server.counted(), before[1] in server.workers) == (20, 60, True)
    server.process.terminate()
    assert server.process.wait(SECONDS) == 0


def test_the_next_version_is_said_to_serve_once_it_is_all_that_answers(server, tmp_path) -> None:
    point(server.pointer, 2, save(tmp_path / "second", 0.2))

    def is_everywhere() -> bool:
        health = server.health()
        return bool(health["version"] == 2 and not health["behind"])

    wait_until(is_everywhere, "version 2 serves")
    assert {server.score() for _ in range(40)} == {2}


def test_workers_share_what_came_in_through_redis(tmp_path) -> None:
    uri, snapshot = model(tmp_path / "model"), written(EVENTS, CHOSEN, PAST, str(tmp_path / "date=2024-03-04"))
    with redis.serve(tmp_path) as url:
        (tmp_path / "redis.url").write_text(f"{url}\n")
        with running(tmp_path, uri, snapshot, "--redis-file", str(tmp_path / "redis.url")) as server:
            answers = [httpx.post(f"{server.url}/score", json={"events": [raw(event)]}).json() for event in LATER]
    assert [answer["predictions"][0]["score"] for answer in answers] == expected(uri, EVENTS)[-len(LATER) :]


def test_workers_that_share_no_redis_take_no_raw_events(tmp_path) -> None:
    uri, snapshot = model(tmp_path / "model"), written(EVENTS, CHOSEN, PAST, str(tmp_path / "date=2024-03-04"))
    pointer = Path(files.pointer_uri(str(tmp_path), "fraud"))
    pointer.parent.mkdir(parents=True)
    point(pointer, 1, uri, snapshot)
    assert "an online state in files has one worker; give --redis-file FILE" in refused("--registry", str(tmp_path))


def test_workers_end_with_the_process_that_watches_them(server) -> None:
    workers = server.workers
    server.process.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "the workers end")


ORPHANED = """
import ctypes, subprocess, sys
from nightshift.serving.__main__ import body, parser
from nightshift.runtime.step import run
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # what a container's first process is: every orphan's parent
subprocess.run(["sh", "-c", "exec 3<&0; cat <&3 &"])  # an orphan that ends when the test says so
run(parser(), body)
"""


def test_an_orphan_that_ends_does_not_end_the_server_that_is_a_containers_first_process(package) -> None:
    port = free_port()
    words = ["--model", package, "--workers", "2", "--port", str(port)]
    with started([sys.executable, "-c", ORPHANED, *words], stdin=subprocess.PIPE) as process:
        server = Server(process, f"http://127.0.0.1:{port}", Path())
        wait_until(lambda: not _health(server)["behind"], "both workers answer")
        children = server.workers
        assert len(children) == 3
        process.stdin.close()
        wait_until(lambda: len(server.workers) == 2, "the orphan has ended")
        assert set(server.workers) < set(children)
        assert server.score() == 1
        process.terminate()
        assert process.wait(SECONDS) == 0


def test_a_server_whose_first_workers_cannot_start_ends_with_what_they_said(tmp_path) -> None:
    assert "model.json does not exist" in refused("--model", str(tmp_path))


def refused(*flags: str) -> str:
    """What a server says that ends with the user's mistake."""
    words = ["--name", "fraud", "--workers", "2", "--port", str(free_port()), *flags]
    command = [sys.executable, "-m", "nightshift.serving", *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (2, False)
    return ended.stderr


def test_workers_see_each_others_numbers_and_which_of_them_serve_something_else() -> None:
    first, second = SharedCounters(2), None
    first.counts[1] += 2
    first.worker = 1
    second = first.counts
    second[1] += 3
    first.sums[2] += 0.5

    assert (first.total_counts()[1], first.total_sums()[2]) == (5, 0.5)
    first.report("a")
    assert first.count_lagging() == 1
    first.worker = 0
    first.report("a")
    assert first.count_lagging() == 0
    first.report(None)
    assert first.count_lagging() == 1
