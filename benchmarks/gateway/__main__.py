"""Routers in turn before three real replicas and 32 simulated ones: prefix hits, and the time to the first token.

The real ones are llama.cpp's server with SmolLM2-135M; see benchmarks/gateway/__init__.py for what to install. What is
not there is left out.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks import figures
from benchmarks.gateway import load
from benchmarks.gateway.load import ConversationLoad, LoadResult
from benchmarks.gateway.routers import BIN, ROUTERS, answers, launch
from nightshift.runtime.progress import cpu_seconds
from nightshift_testkit.processes import read_memory, started, wait_until
from nightshift_testkit.servers import free_port

Urls = list[str]
REAL = ConversationLoad(systems=6, system_words=120, conversations=16, turns=3, turn_words=20, tokens=8, clients=4)
SIMULATED = ConversationLoad(
    systems=64, system_words=600, conversations=300, turns=5, turn_words=60, tokens=16, clients=48
)
# a large model's speed: 10,000 tokens of prompts a second, 200 of a completion, a cache of 32,768 tokens
SPEED = ["--slots", "8", "--blocks", "2048", "--prefill", "0.0001", "--decode", "0.005"]


def main() -> None:
    """Measure the routers before both kinds of replicas."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=ROUTERS, default=list(ROUTERS), metavar="ROUTER")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, with all routers in turn; medians are printed")
    parser.add_argument("--replicas", nargs="+", choices=["simulated", "real"], default=["simulated", "real"])
    args = parser.parse_args()
    names = [name for name in args.only if Path(ROUTERS[name][0]).exists()]
    missing = "".join(f" Not installed: {name}." for name in args.only if name not in names)
    if "simulated" in args.replicas:
        compare("gateway-simulated", names, run_simulated, SIMULATED, args.rounds, "32 simulated replicas." + missing)
    if "real" in args.replicas and (BIN / "python").exists():
        compare("gateway-real", names, run_engines, REAL, args.rounds, "Three replicas of SmolLM2-135M." + missing)


def compare(
    subject: str,
    names: list[str],
    run_replicas: Callable[[], AbstractContextManager[Urls]],
    traffic: ConversationLoad,
    rounds: int,
    note: str,
) -> None:
    """Measure routers in turn, each round with new replicas, and publish the medians."""
    results: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for seed in range(rounds):
        for name in [name for name in names if len(results[name]) == seed]:  # one that did not answer is left out
            try:
                results[name].append(measure(name, run_replicas, traffic, seed))
            except AssertionError as error:
                note += f" Not measured: {error}."
    rows = [
        {"router": name, **{column: median(row[column] for row in measured) for column in measured[0]}}
        for name, measured in results.items()
        if measured
    ]
    requests = traffic.conversations * traffic.turns
    note += f" {requests:,} requests of {traffic.clients} clients a round; medians of {rounds} rounds."
    figures.publish(subject, rows, f"{note} Cores are shared by clients, router and replicas.")


def measure(
    name: str, run_replicas: Callable[[], AbstractContextManager[Urls]], traffic: ConversationLoad, seed: int
) -> dict[str, float]:
    """Return the figures of a router before new replicas."""
    with ExitStack() as stack:
        urls, folder = stack.enter_context(run_replicas()), stack.enter_context(tempfile.TemporaryDirectory())
        port, process = stack.enter_context(launch(name, urls, Path(folder)))
        before = cpu_seconds(process.pid) or 0.0
        result = asyncio.run(load.run(port, traffic, seed))
        seconds = (cpu_seconds(process.pid) or 0.0) - before
        memory = read_memory(process.pid) / 1e6
    requests = traffic.conversations * traffic.turns
    return describe(result) | {"router CPU us a request": 1e6 * seconds / requests, "router MB": memory}


def describe(result: LoadResult) -> dict[str, float]:
    p50, p99 = np.percentile(result.first_token, [50, 99]) * 1000
    hits = 100 * result.cached_tokens / max(result.prompt_tokens, 1)
    return {
        "prefix hits %": hits,
        "p50 ms to the first token": float(p50),
        "p99 ms": float(p99),
        "requests/s": len(result.first_token) / result.seconds,
        "errors": result.errors,
    }


@contextmanager
def run_simulated(replicas: int = 32) -> Iterator[Urls]:
    """Run simulated replicas in one process."""
    ports = free_ports(replicas)
    with started([sys.executable, "-m", "nightshift_testkit.engines.simulated", *SPEED, "--port", *map(str, ports)]):
        yield wait_for(ports)


@contextmanager
def run_engines(replicas: int = 3) -> Iterator[Urls]:
    """Run real engines, a process each."""
    ports = free_ports(replicas)
    with ExitStack() as stack, tempfile.TemporaryFile() as log:
        for port in ports:
            command = [str(BIN / "python"), "benchmarks/gateway/engine.py", str(port)]
            stack.enter_context(started(command, stdout=log, stderr=log))
        yield wait_for(ports)


def free_ports(number: int) -> list[int]:
    """Return ports that nobody listens on, each once."""
    ports: set[int] = set()
    while len(ports) < number:
        ports.add(free_port())
    return sorted(ports)


def wait_for(ports: list[int]) -> Urls:
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    for url in urls:
        wait_until(lambda url=url: answers(url), f"{url} answers", seconds=60, pause=0.2)
    return urls


if __name__ == "__main__":
    main()
