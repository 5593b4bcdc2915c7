"""The gateway under strain: memory over many prompts, 2,000 open streams, and replicas that are killed."""

import argparse
import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import IO

import httpx

from benchmarks import figures
from benchmarks.gateway.__main__ import free_ports, wait_for
from nightshift.http.transport import allow_connections
from nightshift_llm.gateway.fleet import Address, EngineReplica, Lease
from nightshift_llm.gateway.prefixes import hash_prefixes
from nightshift_llm.gateway.routing import choose
from nightshift_testkit.processes import read_memory, started, wait_until
from nightshift_testkit.servers import free_port
from tests.nightly.gateway_streams import CheckedStream, StreamEnd, read_streams

SIMULATED = [sys.executable, "-m", "nightshift_testkit.engines.simulated"]
Process = subprocess.Popen[bytes]
REPLICAS = 32
WARM = 0.5  # share of the prompts after which memory may not grow
RESTART_SECONDS = (0.2, 1.0)  # between two kills


def main() -> None:
    """Measure all of it."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.gateway_faults", description=__doc__)
    parser.add_argument("--prompts", type=int, default=1_000_000)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=100)
    args = parser.parse_args()
    allow_connections()
    rows = [asyncio.run(route(args.prompts)), open_streams(args.streams), kill_replicas(args.kills)]
    figures.publish("gateway-faults", rows, "Simulated replicas. A stream is checked word by word by its client.")
    sys.exit(any(row.get("repeated") or row.get("cut silently") for row in rows))


async def route(prompts: int) -> figures.Row:
    """Choose replicas for prompts of conversations, and look at the memory of this process."""
    replicas = [EngineReplica(Address(f"http://127.0.0.1:{port}")) for port in range(1, REPLICAS + 1)]
    generator, sizes, started_at = random.Random(1), [], time.perf_counter()
    for number in range(prompts):
        text = f"{generator.randrange(200)} {'system ' * 60}{number // 4} {'user ' * 40 * (1 + number % 4)}".encode()
        prefixes = hash_prefixes(text)
        best = replicas[choose([replica.describe_load(prefixes) for replica in replicas])]
        Lease(best, prefixes).close()
        if number % max(prompts // 100, 1) == 0:
            sizes.append(read_memory(os.getpid()) / 1e6)
    seconds = time.perf_counter() - started_at
    warm = sizes[int(WARM * len(sizes)) :]
    return {
        "case": f"{prompts:,} prompts routed over {REPLICAS} replicas",
        "us a decision": 1e6 * seconds / prompts,
        "MB": sizes[-1],
        "growth since half of them, %": 100 * (max(warm) / warm[0] - 1),
    }


def open_streams(number: int) -> figures.Row:
    """Have many streams open at once, and look at the gateway's memory meanwhile."""
    with ExitStack() as stack:
        ports = free_ports(4)
        slots = ["--slots", str(number), "--decode", "0.5"]
        stack.enter_context(simulate(ports, slots))
        port, process = stack.enter_context(run_gateway(wait_for(ports)))
        streams = asyncio.run(read_streams(port, number, 60, clients=number))
        return describe(f"{number:,} streams at once", streams) | {"MB": read_memory(process.pid) / 1e6}


def kill_replicas(kills: int) -> figures.Row:
    """Kill replicas one after the other while clients read streams."""
    ports = free_ports(4)
    with ExitStack() as stack:
        processes = {port: start_replica(port) for port in ports}
        stack.callback(lambda: [process.kill() for process in processes.values()])
        port, gateway = stack.enter_context(run_gateway(wait_for(ports)))
        streams = asyncio.run(read_while_killing(port, processes, kills))
        return describe(f"{kills} replicas killed with SIGKILL", streams) | {"MB": read_memory(gateway.pid) / 1e6}


async def read_while_killing(port: int, processes: dict[int, Process], kills: int) -> list[CheckedStream]:
    """Kill and restart replicas in turn, while 64 clients read streams of up to 60 words."""
    generator, streams = random.Random(1), []
    reading = True

    async def read() -> None:
        while reading:
            streams.extend(await read_streams(port, 16, 60, clients=16))

    readers = [asyncio.create_task(read()) for _ in range(4)]
    for _ in range(kills):
        await asyncio.sleep(generator.uniform(*RESTART_SECONDS))
        victim = generator.choice(list(processes))
        processes[victim].kill()
        processes[victim].wait()
        processes[victim] = start_replica(victim)
    reading = False
    await asyncio.gather(*readers)
    return streams


def start_replica(port: int) -> Process:
    return subprocess.Popen([*SIMULATED, "--decode", "0.02", "--slots", "64", "--port", str(port)])


def describe(case: str, streams: list[CheckedStream]) -> dict[str, figures.Cell]:
    ends = Counter(stream.end for stream in streams)
    return {
        "case": case,
        "streams": len(streams),
        "complete": ends[StreamEnd.DONE],
        "ended by an error event": ends[StreamEnd.ERROR],
        "refused": ends[StreamEnd.REFUSED],
        "broken connections": ends[StreamEnd.BROKEN],
        "repeated": sum(stream.is_repeated for stream in streams),
        "cut silently": ends[StreamEnd.SILENT],
    }


@contextmanager
def simulate(ports: list[int], words: list[str]) -> Iterator[None]:
    """Run simulated replicas in one process."""
    with started([*SIMULATED, *words, "--port", *map(str, ports)]):
        yield


@contextmanager
def run_gateway(
    urls: list[str], *words: str, port: int | None = None, stderr: IO[str] | None = None
) -> Iterator[tuple[int, Process]]:
    """Run a gateway, and wait until its replicas answer; yields its port and process. It is killed at the end."""
    port = port or free_port()
    replicas = [word for url in urls for word in ("--replica", url)]
    command = [sys.executable, "-m", "nightshift_llm.gateway", "--port", str(port), *replicas, *words]
    with started(command, stderr=stderr) as process:
        wait_until(lambda: is_ready(port, len(urls)), "the gateway is ready", pause=0.1)
        yield port, process


def is_ready(port: int, replicas: int) -> bool:
    """Return whether a gateway knows that all its replicas answer."""
    try:
        health = httpx.get(f"http://127.0.0.1:{port}/healthz").json()
    except httpx.HTTPError:
        return False
    return sum(replica["healthy"] for replica in health["replicas"].values()) == replicas


if __name__ == "__main__":
    main()
