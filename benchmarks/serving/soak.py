"""Serve at a share of the capacity while one version after the other takes over: `python -m benchmarks.serving.soak`.

No request may fail, no answer may come from a version once its successor is said to serve, and memory may not grow.
"""

import argparse
import itertools
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from benchmarks import figures
from benchmarks.serving import model
from components.loadtest.client import Client, request
from components.loadtest.core import LoadSample, schedule
from tests.processes import SECONDS, started, wait_until
from tests.servers import free_port

ROUND_SECONDS = 10.0  # of the load: its memory is looked at in between
WARM = 0.2  # share of the time after which memory may not grow
MEASURE_SECONDS = 5.0
PATIENCE = 60.0  # seconds, after which a request counts as lost


@dataclass
class Found:
    """What has been seen.

    Attributes:
        requests: answered.
        errors: by status, `connection` or `unanswered`.
        swaps: versions that have taken over.
        stale: answers of a version after its successor was said to serve.
        p99_ms: of each round.
        memory: resident bytes of the server, (share of the time, bytes) after each round.
    """

    requests: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    swaps: int = 0
    stale: int = 0
    p99_ms: list[float] = field(default_factory=list)
    memory: list[tuple[float, int]] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """By which share the memory has grown since it was warm."""
        warm = [size for at, size in self.memory if at >= WARM]
        half = max(1, len(warm) // 2)
        return max(warm[half:] or warm) / max(warm[:half]) - 1

    def add(self, sample: LoadSample) -> None:
        """Count a round."""
        self.requests += len(sample.latencies)
        for name, number in sample.errors.items():
            self.errors[name] = self.errors.get(name, 0) + number
        if sample.latencies:
            self.p99_ms.append(round(sorted(sample.latencies)[int(len(sample.latencies) * 0.99)] * 1e3, 3))


class Target:
    """A server that follows a pointer."""

    def __init__(self, folder: Path, pid: int, port: int) -> None:
        self._folder, self._pid, self.port = folder, pid, port
        self.url = f"http://127.0.0.1:{port}"
        self.version = 1
        self.client = Client(port, [request((folder / "features.json").read_bytes())], PATIENCE)

    @property
    def memory(self) -> int:
        """Resident bytes."""
        (line,) = [each for each in Path(f"/proc/{self._pid}/status").read_text().splitlines() if "VmRSS" in each]
        return int(line.split()[1]) * 1024

    def swap(self) -> None:
        """Have the next version take over, and wait until it is said to serve."""
        model.point(self._folder, version=self.version + 1)
        wait_until(lambda: self.serves(self.version + 1), "the next version serves")
        self.version += 1

    def serves(self, version: int) -> bool:
        health = httpx.get(f"{self.url}/healthz").json()
        return bool(health["version"] == version and not health["behind"])


@contextmanager
def running(folder: Path) -> Iterator[Target]:
    """Serve the benchmark's model from a registry."""
    model.write(folder)
    model.point(folder)
    port = free_port()
    words = ["--registry", str(folder), "--name", model.NAME, "--port", str(port)]
    with started([sys.executable, "-m", "nightshift.serving", *words]) as process:
        target = Target(folder, process.pid, port)
        wait_until(lambda: _answers(target), "the server answers", SECONDS)
        yield target


def soak(folder: Path, seconds: float, every: float, rate: float | None = None) -> Found:
    """Serve for some time.

    Args:
        folder: an empty one.
        seconds: how long.
        every: seconds from one version to the next.
        rate: requests a second; None: 70 % of what a closed loop with 32 connections gets.
    """
    found, ended = Found(), threading.Event()
    with running(folder) as target:
        rate = rate or 0.7 * _capacity(target)
        helpers = [
            threading.Thread(target=_swap, args=(target, every, ended, found)),
            threading.Thread(target=_watch, args=(target, ended, found)),
        ]
        for each in helpers:
            each.start()
        try:
            _load(target, seconds, rate, found)
        finally:
            ended.set()
            for each in helpers:
                each.join()
    return found


def _capacity(target: Target) -> float:
    sample = target.client.run_closed(32, MEASURE_SECONDS)
    return len(sample.latencies) / sample.seconds


def _load(target: Target, seconds: float, rate: float, found: Found) -> None:
    began = time.monotonic()
    for number in itertools.count():
        left = seconds - (time.monotonic() - began)
        if left <= 0:
            return
        due = schedule(rate, min(ROUND_SECONDS, left), number)
        if due:
            found.add(target.client.run_open(due, rate))
        found.memory.append(((time.monotonic() - began) / seconds, target.memory))
        print(f"{time.monotonic() - began:.0f} s: {found.requests} requests, {found.swaps} swaps, {found.errors}")


def _swap(target: Target, every: float, ended: threading.Event, found: Found) -> None:
    while not ended.wait(every):
        target.swap()
        found.swaps += 1


def _watch(target: Target, ended: threading.Event, found: Found) -> None:
    """Ask again and again, who answers."""
    body = json.loads(target.client.requests[0].partition(b"\r\n\r\n")[2])
    with httpx.Client(timeout=PATIENCE) as client:
        while not ended.wait(0.05):
            least = target.version
            found.stale += client.post(f"{target.url}/score", json=body).json()["version"] < least


def _answers(target: Target) -> bool:
    with suppress(httpx.TransportError):
        return target.serves(1)
    return False


def main() -> None:
    """Soak for as long as the flags say, and print what was seen."""
    flags = argparse.ArgumentParser(prog="python -m benchmarks.serving.soak", description=__doc__)
    flags.add_argument("--minutes", type=float, default=30)
    flags.add_argument("--swap-seconds", type=float, default=30)
    args = flags.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = soak(Path(folder), args.minutes * 60, args.swap_seconds)
    first, last = found.memory[0][1] >> 20, found.memory[-1][1] >> 20
    print(f"errors {found.errors}; p99 of rounds {sorted(found.p99_ms)} ms")
    row = {
        "minutes": args.minutes,
        "requests": found.requests,
        "errors": sum(found.errors.values()),
        "versions": found.swaps,
        "stale answers": found.stale,
        "MiB at first": first,
        "MiB at last": last,
    }
    figures.publish("soak", [row], f"Growth once warm: {found.growth:.1%}.")


if __name__ == "__main__":
    main()
