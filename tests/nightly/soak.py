"""Serve at a share of the capacity while versions take over in turn: `python -m tests.nightly.soak`.

No request may fail, no version may answer once its successor reports to serve, and memory may not grow.
"""

import argparse
import itertools
import json
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from benchmarks import figures
from benchmarks.serving import model
from components.loadtest.client import Client, encode
from components.loadtest.core import LoadSample
from nightshift.stats.latency import poisson_schedule
from nightshift_testkit.processes import read_memory, wait_until
from tests.nightly.fuzz import run_server

ROUND_SECONDS = 10.0  # seconds of load between two looks at the memory
WARM = 0.2  # share of the time after which memory may not grow
MEASURE_SECONDS = 5.0
PATIENCE = 60.0  # seconds, after which a request counts as lost


@dataclass
class SoakResult:
    """The outcome of a soak.

    Attributes:
        requests: number of answered requests.
        errors: number of errors by status, `connection` or `unanswered`.
        swaps: number of versions that have taken over.
        stale: answers of a version after its successor has reported to serve.
        p99_ms: 99th percentile of the latency in each round, milliseconds.
        memory: (share of the time, resident bytes of the server) after each round.
    """

    requests: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    swaps: int = 0
    stale: int = 0
    p99_ms: list[float] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """Growth of the memory since the server was warm, as a share."""
        warm = [size for share, size in self.memory if share >= WARM]
        half = max(1, len(warm) // 2)
        return max(warm[half:] or warm) / max(warm[:half]) - 1

    def add(self, sample: LoadSample) -> None:
        """Add the counts of a round."""
        self.requests += len(sample.latencies)
        for name, number in sample.errors.items():
            self.errors[name] = self.errors.get(name, 0) + number
        if sample.latencies:
            self.p99_ms.append(round(sorted(sample.latencies)[int(len(sample.latencies) * 0.99)] * 1e3, 3))


class SoakedServer:
    """A server that follows a pointer."""

    def __init__(self, folder: Path, pid: int, port: int) -> None:
        self._folder, self.pid = folder, pid
        self.url = f"http://127.0.0.1:{port}"
        self.version = 1
        self.client = Client(port, [encode((folder / "features.json").read_bytes())], PATIENCE)

    def swap(self) -> None:
        """Point to the next version, and wait until it reports to serve."""
        model.point(self._folder, version=self.version + 1)
        wait_until(lambda: self.serves(self.version + 1), "the next version serves")
        self.version += 1

    def serves(self, version: int) -> bool:
        health = httpx.get(f"{self.url}/healthz").json()
        return bool(health["version"] == version and not health["behind"])


def soak(folder: Path, seconds: float, every: float, rate: float | None = None) -> SoakResult:
    """Serve under load for some time.

    Args:
        folder: an empty folder.
        seconds: duration.
        every: seconds between takeovers.
        rate: requests a second; None: 70 % of the rate of a closed loop with 32 connections.
    """
    result, ended = SoakResult(), threading.Event()
    model.write(folder)
    with run_server(folder) as (pid, port):
        server = SoakedServer(folder, pid, port)
        rate = rate or 0.7 * _capacity(server)
        threads = [
            threading.Thread(target=_swap, args=(server, every, ended, result)),
            threading.Thread(target=_watch, args=(server, ended, result)),
        ]
        for thread in threads:
            thread.start()
        try:
            _load(server, seconds, rate, result)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
    return result


def _capacity(server: SoakedServer) -> float:
    sample = server.client.run_closed(32, MEASURE_SECONDS)
    return len(sample.latencies) / sample.seconds


def _load(server: SoakedServer, seconds: float, rate: float, result: SoakResult) -> None:
    began = time.monotonic()
    for number in itertools.count():
        left = seconds - (time.monotonic() - began)
        if left <= 0:
            return
        due = poisson_schedule(rate, min(ROUND_SECONDS, left), number)
        if due:
            result.add(server.client.run_open(due, rate))
        result.memory.append(((time.monotonic() - began) / seconds, read_memory(server.pid)))
        print(f"{time.monotonic() - began:.0f} s: {result.requests} requests, {result.swaps} swaps, {result.errors}")


def _swap(server: SoakedServer, every: float, ended: threading.Event, result: SoakResult) -> None:
    while not ended.wait(every):
        server.swap()
        result.swaps += 1


def _watch(server: SoakedServer, ended: threading.Event, result: SoakResult) -> None:
    """Count stale answers until the soak ends."""
    body = json.loads(server.client.requests[0].partition(b"\r\n\r\n")[2])
    with httpx.Client(timeout=PATIENCE) as client:
        while not ended.wait(0.05):
            version = server.version
            result.stale += client.post(f"{server.url}/score", json=body).json()["version"] < version


def main() -> None:
    """Soak a server for the flags' time, and print the result."""
    flags = argparse.ArgumentParser(prog="python -m tests.nightly.soak", description=__doc__)
    flags.add_argument("--minutes", type=float, default=30)
    flags.add_argument("--swap-seconds", type=float, default=30)
    args = flags.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = soak(Path(folder), args.minutes * 60, args.swap_seconds)
    first, last = result.memory[0][1] >> 20, result.memory[-1][1] >> 20
    print(f"errors {result.errors}; p99 of rounds {sorted(result.p99_ms)} ms")
    row = {
        "minutes": args.minutes,
        "requests": result.requests,
        "errors": sum(result.errors.values()),
        "versions": result.swaps,
        "stale answers": result.stale,
        "MiB at first": first,
        "MiB at last": last,
    }
    figures.publish("soak", [row], f"Growth once warm: {result.growth:.1%}.")
    sys.exit(bool(result.errors or result.stale))


if __name__ == "__main__":
    main()
