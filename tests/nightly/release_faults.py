"""Raw events while versions take over and everything is killed: `python -m tests.nightly.release_faults`.

A client repeats a request until it is answered with 200. Every event has to be answered with the score that its version
gives to the batch kernel's features, and once a fault is over only by the versions of the release record.
"""

import argparse
import contextlib
import http.client
import io
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from benchmarks import figures
from components.release.targets import factory, rollout
from components.release.targets.local import Local
from nightshift import registry, storage
from nightshift.contracts import package
from nightshift.contracts.release_record import Action, Entry, Release, Stage
from nightshift.local import endpoint, processes
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.serving import files
from nightshift.tabular.inputs import FrameScorer
from nightshift.tabular.online import snapshot
from nightshift.tabular.windows import DAY
from nightshift.tasks.tabular.features.core import numeric_inputs
from nightshift_testkit import redis
from nightshift_testkit.processes import engine, wait_until
from nightshift_testkit.servers import free_port
from pipelines.cli.__main__ import parse_command_line
from pipelines.environments import local
from tests.nightshift.serving.events import CHOSEN, model, raw
from tests.nightshift.tabular.online.streams import Labeled, event, offline, written

NAME, VERSIONS, CLIENTS, CUSTOMERS = "fraud", 3, 8, 800
PAST = 4  # days of the snapshot
PAUSE_SECONDS, CALM_SECONDS, CALL_SECONDS = 0.05, 1.0, 10.0
TOLERANCE = 1e-6


class ScoredRequest(NamedTuple):
    """An answered request: when it was first sent and answered, by the monotonic clock, and the version."""

    sent: float
    answered: float
    version: int


class Calm(NamedTuple):
    """A time without faults: from when until when, and the versions of the release record."""

    first: float
    last: float
    versions: set[int]


@dataclass
class FaultOutcome:
    """What became of the requests.

    Attributes:
        answers: each request's answer.
        retries: attempts that were repeated, by status or `connection`.
        refused: answers that no repetition changes, by status.
        wrong: answers with another score than the version's.
        calms: times without faults.
        faults: how often each fault was injected.
    """

    answers: list[ScoredRequest] = field(default_factory=list)
    retries: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    wrong: int = 0
    calms: list[Calm] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)

    def count_stale(self) -> tuple[int, int]:
        """Return how many answers came in times without faults, and how many of them of another version."""
        calm = [
            answer.version in calm.versions
            for calm in self.calms
            for answer in self.answers
            if calm.first <= answer.sent and answer.answered <= calm.last
        ]
        return len(calm), calm.count(False)


class SupervisedEndpoint:
    """The endpoint under a supervisor that restarts it, with its state in a Redis."""

    def __init__(self, workspace: Path) -> None:
        self.state = local(workspace)
        self.workspace, self.root = workspace, registry.root(self.state.registry)
        self.ref = ReleaseRef(self.root, NAME)
        self.port, self.redis_port = free_port(), free_port()
        self.url_file = workspace / "redis.url"
        self._redis = ExitStack()
        self._is_kept_down, self._has_ended = threading.Event(), threading.Event()
        self.process: subprocess.Popen[bytes] | None = None

    def start_redis(self) -> None:
        """Start Redis, or start it again with what it had."""
        (self.workspace / "redis").mkdir(exist_ok=True)
        url = self._redis.enter_context(redis.serve(self.workspace / "redis", self.redis_port))
        self.url_file.write_text(url)

    def kill_redis(self) -> None:
        self._redis.close()

    @contextmanager
    def supervised(self) -> Iterator[None]:
        """Restart the server whenever it ends, during the block."""
        supervisor = threading.Thread(target=self._supervise)
        supervisor.start()
        try:
            yield
        finally:
            self._has_ended.set()
            endpoint.stop(self.root, NAME)
            supervisor.join()
            self.kill_redis()

    @contextmanager
    def kept_down(self) -> Iterator[None]:
        """Kill the server, and do not restart it during the block."""
        self._is_kept_down.set()
        self.kill()
        yield
        self._is_kept_down.clear()

    def kill(self) -> None:
        """Kill the server's first process, and wait until its workers have ended too."""
        if server := endpoint.find_running(self.root, NAME):
            os.kill(server.pid, signal.SIGKILL)
            wait_until(lambda: endpoint.find_running(self.root, NAME) != server, "the server has ended")

    def command(self, *words: str) -> None:
        """Run a command of `nightshift` in this process."""
        args = parse_command_line([*words, "--workspace", str(self.workspace)])
        with contextlib.redirect_stdout(io.StringIO()):
            args.command(args)

    def read_record(self) -> Release:
        record = release_record.read(self.ref)
        assert record
        return record

    def await_calm(self) -> None:
        """Wait until every worker serves what the record says, and the state takes events in."""
        wait_until(self._is_calm, "the endpoint serves the record")

    def _is_calm(self) -> bool:
        server = endpoint.find_running(self.root, NAME)
        reply = processes.call(server, "/healthz", CALL_SECONDS) if server else None
        health = reply.content if reply else {}
        record = self.read_record()
        challenger = record.challenger if record.challenger and record.challenger.traffic else None
        wanted = health.get("wanted") or {}
        beside = wanted.get("challenger") or {}
        served = wanted.get("version"), beside.get("version")
        is_record = served == (record.live.version, challenger.version if challenger else None)
        return is_record and health["status"] == "ok" and health["loaded"] and not health["behind"]

    def _supervise(self) -> None:
        words = ["--registry", self.root, "--name", NAME, "--port", str(self.port), "--workers", "2"]
        words += ["--redis-file", str(self.url_file)]
        with (self.workspace / "server.log").open("ab") as log:
            while not self._has_ended.is_set():
                if not self._is_kept_down.is_set():
                    self.process = subprocess.Popen([sys.executable, "-m", "nightshift.serving", *words], stderr=log)
                    self.process.wait()
                time.sleep(PAUSE_SECONDS)


def write_workspace(workspace: Path) -> list[str]:
    """Register the versions and write a snapshot; return the URIs of the versions."""
    server = SupervisedEndpoint(workspace)
    uris = []
    for number in range(1, VERSIONS + 1):
        uri = model(workspace / f"model-{number}", slope=0.01 * number)
        tags = {"train_first": "2024-03-01", "train_last": f"2024-03-{number:02}"}
        uris.append(registry.register(server.root, NAME, uri, tags).uri)
        release_record.promote(server.ref, number)
    (folder := workspace / "lake" / NAME / "online" / "date=2024-03-04").mkdir(parents=True)
    known = [event((3 * DAY + owner, owner, owner, 100, None), owner, CHOSEN) for owner in range(CUSTOMERS)]
    written(known, CHOSEN, PAST, str(folder))
    return uris


def make_events(requests: int) -> tuple[list[Labeled], list[Labeled]]:
    """Return the snapshot's events and those to send; each customer has one client and a terminal of their own."""
    known = [event((3 * DAY + owner, owner, owner, 100, None), owner, CHOSEN) for owner in range(CUSTOMERS)]
    step = 2 * DAY // requests
    numbers = random.Random(1)
    later = [
        event((PAST * DAY + step * number, number % CUSTOMERS, number % CUSTOMERS, numbers.randrange(10**5), None),
              CUSTOMERS + number, CHOSEN)
        for number in range(requests)
    ]  # fmt: skip
    return known, later


def score_offline(events: tuple[list[Labeled], list[Labeled]], uris: list[str]) -> dict[int, list[float]]:
    """Return each version's scores of the later events, from the batch kernel's features."""
    known, later = events
    rows = pd.DataFrame(offline([*known, *later], CHOSEN)[len(known) :], columns=numeric_inputs(CHOSEN))
    scorers = {number: FrameScorer(uri, package.load(uri)) for number, uri in enumerate(uris, 1)}
    return {number: scorer.score(rows).tolist() for number, scorer in scorers.items()}


class EventClient(threading.Thread):
    """Sends its customers' events one after the other, each until it is answered."""

    def __init__(self, port: int, events: list[tuple[int, Labeled]], expected: dict[int, list[float]]) -> None:
        super().__init__()
        self._port, self._events, self._expected = port, events, expected
        self._connection: http.client.HTTPConnection | None = None
        self.outcome = FaultOutcome()

    def run(self) -> None:
        """Send all of them."""
        for index, entry in self._events:
            body, sent = json.dumps({"events": [raw(entry)]}), time.monotonic()
            while (answer := self._send(body)) is None:
                time.sleep(PAUSE_SECONDS)
            if answer:
                (prediction,) = answer["predictions"]
                version = prediction["version"]
                self.outcome.answers.append(ScoredRequest(sent, time.monotonic(), version))
                self.outcome.wrong += abs(prediction["score"] - self._expected[version][index]) > TOLERANCE

    def _send(self, body: str) -> dict | None:
        """Return an answer; None: to be repeated, empty: refused."""
        self._connection = self._connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=CALL_SECONDS)
        try:
            self._connection.request("POST", "/score", body, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            self.outcome.retries["connection"] += 1
            self._connection.close()
            self._connection = None
            return None
        if response.status == http.client.OK:
            return json.loads(content)
        if response.status == http.client.SERVICE_UNAVAILABLE:
            self.outcome.retries["503"] += 1
            return None
        self.outcome.refused[f"{response.status} {content[:200]!r}"] += 1
        return {}


class Faults:
    """What may happen to a server and to a release."""

    def __init__(self, server: SupervisedEndpoint, numbers: random.Random) -> None:
        self._server, self._random = server, numbers

    def choose(self) -> tuple[str, Callable[[], None]]:
        """Return one of them, and its name."""
        return self._random.choice(
            [
                ("promote", self.promote),
                ("rollback", self.roll_back),
                ("canary, then abort", self.abort),
                ("killed", self._server.kill),
                ("worker killed", self.kill_worker),
                ("killed, rollback while it is down", self.roll_back_while_down),
                ("promote killed", self.kill_promote),
                ("Redis killed", self.kill_redis),
                ("Redis's password rotated", self.rotate_password),
            ]
        )

    def promote(self) -> None:
        live = self._server.read_record().live.version
        self._server.command("promote", str(live % VERSIONS + 1))

    def roll_back(self) -> None:
        if release_record.predecessor(self._server.ref, self._server.read_record()) is None:
            self.promote()
        self._server.command("rollback")

    def roll_back_while_down(self) -> None:
        self.promote()
        with self._server.kept_down():
            self._server.command("rollback")

    def kill_promote(self) -> None:
        live = self._server.read_record().live.version
        words = ["promote", str(live % VERSIONS + 1), "--workspace", str(self._server.workspace)]
        process = subprocess.Popen(engine(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self._random.uniform(2.0, 8.0))
        process.kill()
        process.wait()

    def kill_worker(self) -> None:
        if server := endpoint.find_running(self._server.root, NAME):
            children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
            os.kill(int(self._random.choice(children)), signal.SIGKILL)

    def kill_redis(self) -> None:
        self._server.kill_redis()
        time.sleep(0.5)
        self._server.start_redis()

    def rotate_password(self) -> None:
        from redis import Redis

        url, secret = f"redis://127.0.0.1:{self._server.redis_port}/0", f"secret{self._random.randrange(10**6)}"
        before = self._server.url_file.read_text()
        with Redis.from_url(before) as admin:
            admin.config_set("requirepass", secret)
            admin.client_kill_filter(_type="normal", skipme=True)
        time.sleep(0.5)
        self._server.url_file.write_text(url.replace("redis://", f"redis://:{secret}@"))

    def abort(self) -> None:
        record = self._server.read_record()
        second = registry.find(self._server.root, NAME, record.live.version % VERSIONS + 1)

        def begin(record: Release | None) -> Entry:
            assert record
            live = registry.find(self._server.root, NAME, record.live.version)
            parts = [(live, 0.5), (second, 0.5)]
            shares = [factory.build_share(self._server.state.lake, version, share) for version, share in parts]
            rollout(Local(self._server.state, NAME), shares)
            versions = [
                release_record.describe(version).model_copy(update={"traffic": share}) for version, share in parts
            ]
            now = datetime.now(UTC)
            return Entry(stage=Stage.CANARY, versions=versions, action=Action.ADVANCED, since=now, by="benchmark")

        with registry.lock(self._server.root):
            release_record.change(self._server.ref, begin)
        time.sleep(self._random.uniform(0, 1))
        self._server.command("release", "abort")


def run(workspace: Path, requests: int, seed: int) -> FaultOutcome:
    """Send requests until all are answered, and inject faults meanwhile."""
    uris, events = write_workspace(workspace), make_events(requests)
    expected, server = score_offline(events, uris), SupervisedEndpoint(workspace)
    point(server)
    server.start_redis()
    outcome, faults = FaultOutcome(), Faults(server, random.Random(seed))
    shares: list[list[tuple[int, Labeled]]] = [[] for _ in range(CLIENTS)]
    for index, entry in enumerate(events[1]):
        shares[index % CUSTOMERS % CLIENTS].append((index, entry))
    clients = [EventClient(server.port, share, expected) for share in shares]
    with server.supervised():
        server.await_calm()
        for client in clients:
            client.start()
        while any(client.is_alive() for client in clients):
            inject(server, faults, outcome)
            answered = sum(len(client.outcome.answers) for client in clients)
            print(f"{answered:,} of {requests:,} requests, {sum(outcome.faults.values())} faults", flush=True)
        for client in clients:
            client.join()
    for client in clients:
        outcome.answers += client.outcome.answers
        outcome.retries += client.outcome.retries
        outcome.refused += client.outcome.refused
        outcome.wrong += client.outcome.wrong
    return outcome


def point(server: SupervisedEndpoint) -> None:
    """Have the endpoint know its snapshot, as a deployment does."""
    live = registry.find(server.root, NAME, VERSIONS)
    uri = snapshot.newest(server.state.lake, NAME, package.load(live.uri).tabular)
    pointer = files.DeploymentPointer(live.version, live.uri, live.sha256, "2026-01-01T00:00:00+00:00", uri)
    storage.write_json(files.pointer_uri(server.root, NAME), asdict(pointer))


def inject(server: SupervisedEndpoint, faults: Faults, outcome: FaultOutcome) -> None:
    """Inject a fault, wait until it is over, and note a time without faults."""
    name, fault = faults.choose()
    fault()
    outcome.faults[name] += 1
    server.await_calm()
    record, began = server.read_record(), time.monotonic()
    time.sleep(CALM_SECONDS)
    versions = {served.version for served in record.versions if served.traffic}
    outcome.calms.append(Calm(began, time.monotonic(), versions))


def main() -> None:
    """Send the flags' number of requests, and print what became of them; exit with 1 when any was lost or wrong."""
    flags = argparse.ArgumentParser(prog="python -m tests.nightly.release_faults", description=__doc__)
    flags.add_argument("--requests", type=int, default=50_000)
    flags.add_argument("--seed", type=int, default=0)
    args = flags.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        outcome = run(Path(folder), args.requests, args.seed)
    calm, stale = outcome.count_stale()
    lost = args.requests - len(outcome.answers)
    print(dict(outcome.retries), dict(outcome.refused))
    row = {
        "requests": args.requests,
        "faults": sum(outcome.faults.values()),
        "repeated attempts": sum(outcome.retries.values()),
        "lost or refused": lost,
        "wrong scores": outcome.wrong,
        "answers in calm times": calm,
        "of another version than the record's": stale,
    }
    counts = ", ".join(f"{name} {count}" for name, count in sorted(outcome.faults.items()))
    figures.publish("release-faults", [row], f"Faults: {counts}.")
    sys.exit(bool(lost or outcome.wrong or stale))


if __name__ == "__main__":
    main()
