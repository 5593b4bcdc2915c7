"""All faults at once: odd streams, busy and slow replicas, replicas and gateways that are killed, under one ledger.

Clients check their streams word by word; then the ledger is compared with what they have received, key by key, and the
gateways' logs with the times at which replicas were down.
"""

import argparse
import asyncio
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks import figures
from benchmarks.gateway.__main__ import free_ports, wait_for
from benchmarks.gateway.routers import answers
from nightshift.http.client import ServerAddress
from nightshift.http.pool import ConnectionPool
from nightshift.http.transport import allow_connections
from nightshift_llm.gateway.ledger import Ledger
from nightshift_llm.gateway.ledger_file import read_report
from nightshift_testkit.engines.simulated import ODD
from nightshift_testkit.servers import free_port
from tests.nightly.gateway_budgets import describe_key
from tests.nightly.gateway_faults import SIMULATED, run_gateway
from tests.nightly.gateway_streams import CheckedStream, StreamEnd, read_stream

CLIENTS, TOKENS, ODD_SHARE, BUSY_SHARE = 64, 6, 0.02, 0.03
DECODE = ("0.001", "0.001", "0.001", "0.02")  # seconds a token; the last replica is slow
UP_SECONDS = 3.0  # in which a restarted replica may still be taken for a dead one
MARK = re.compile(r"http://127\.0\.0\.1:(\d+) gets no requests until it answers again: (.*)")
Streams = dict[str, list[tuple[bool, CheckedStream]]]  # by key: whether the request was odd, and its stream
NOTE = (
    "Lost: complete streams beyond the requests of their key in the ledger, and streams cut silently. Charged twice: "
    "requests in the ledger beyond those that their key has sent and that were not refused, and tokens of keys whose "
    "streams were all complete beyond those received. Wrongly marked: replicas taken for dead that were not killed."
)


class Replicas:
    """Four replicas, each in a process, one of which is killed at a time."""

    def __init__(self) -> None:
        self.ports = free_ports(len(DECODE))
        self.decode = dict(zip(self.ports, DECODE, strict=True))
        self.processes = {port: self.start(port) for port in self.ports}
        self.urls = wait_for(self.ports)
        self.down: set[int] = set()
        self.kills = 0

    def start(self, port: int) -> "subprocess.Popen[bytes]":
        words = ["--decode", self.decode[port], "--busy", str(BUSY_SHARE), "--slots", "64", "--port", str(port)]
        return subprocess.Popen([*SIMULATED, *words])

    async def kill(self, is_over: asyncio.Event, seconds: float) -> None:
        """Kill one of them after each pause, and start it again."""
        generator = random.Random(1)
        while not is_over.is_set():
            await asyncio.sleep(seconds)
            port = generator.choice(self.ports)
            self.down.add(port)
            self.processes[port].kill()
            self.processes[port].wait()
            self.kills += 1
            self.processes[port] = self.start(port)
            while not await asyncio.to_thread(answers, f"http://127.0.0.1:{port}"):
                await asyncio.sleep(0.2)
            await asyncio.sleep(UP_SECONDS)
            self.down.discard(port)


class MarkReader:
    """Reads the gateways' log, and counts replicas that were taken for dead, by whether they were."""

    def __init__(self, path: Path, replicas: Replicas) -> None:
        self.file, self.replicas, self.counts, self.wrong = path.open(), replicas, Counter[bool](), list[str]()

    async def follow(self, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            for line in self.file:
                if match := MARK.search(line):
                    is_right = int(match[1]) in self.replicas.down
                    self.counts[is_right] += 1
                    self.wrong += [] if is_right else [match[0]]
            await asyncio.sleep(0.05)


def main() -> None:
    """Run the mixture."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.gateway_mixture", description=__doc__)
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=10, help="of the gateway, spread over the requests")
    parser.add_argument("--pause", type=float, default=4.0, help="seconds between two kills of a replica")
    args = parser.parse_args()
    allow_connections()
    replicas = Replicas()
    try:
        with tempfile.TemporaryDirectory() as folder:
            row = asyncio.run(measure(replicas, Path(folder), args))
    finally:
        for process in replicas.processes.values():
            process.kill()
    figures.publish("gateway-mixture", [row], NOTE)
    sys.exit(any(row[name] for name in ("lost", "charged twice", "wrongly marked")))


async def measure(replicas: Replicas, folder: Path, args: argparse.Namespace) -> figures.Row:
    """Send all requests while replicas and gateways are killed, and compare."""
    names = [f"key-{number}" for number in range(args.keys)]
    keys = [{name: value for name, value in describe_key(name).items() if "per_day" not in name} for name in names]
    (folder / "keys").write_text(json.dumps(keys))
    (folder / "log").touch()
    is_over, reader, started = asyncio.Event(), MarkReader(folder / "log", replicas), time.perf_counter()
    tasks = [asyncio.create_task(reader.follow(is_over)), asyncio.create_task(replicas.kill(is_over, args.pause))]
    streams = await send_all(replicas.urls, folder, names, args)
    is_over.set()
    await asyncio.gather(*tasks)
    await Ledger(str(folder / "ledger")).close()  # charges what was in progress at the last kill
    print(*reader.wrong, sep="\n")
    case = f"{args.kills} gateways and {replicas.kills} replicas killed"
    seconds = {"seconds": time.perf_counter() - started}
    marks = {"rightly marked": reader.counts[True], "wrongly marked": reader.counts[False]}
    return {"case": case, "requests": args.requests, **compare(streams, folder / "ledger"), **marks, **seconds}


async def send_all(urls: list[str], folder: Path, names: list[str], args: argparse.Namespace) -> Streams:
    """Have clients send all requests, each with a key in turn, while gateways are killed."""
    generator, port, streams = random.Random(2), free_port(), defaultdict[str, list[tuple[bool, CheckedStream]]](list)
    pool, is_up, numbers, sent = (
        ConnectionPool(ServerAddress("127.0.0.1", port)),
        asyncio.Event(),
        iter(range(args.requests)),
        [0],
    )

    async def ask() -> None:
        for number in numbers:
            await is_up.wait()
            sent[0], name, is_odd = number, names[number % len(names)], generator.random() < ODD_SHARE
            prompt = generator.choice(ODD) if is_odd else f"request {number}"
            streams[name].append((is_odd, await read_stream(pool, prompt, TOKENS, name)))

    clients = [asyncio.create_task(ask()) for _ in range(CLIENTS)]
    for kill in range(1, args.kills + 2):
        words = ["--keys", f"{folder}/keys", "--ledger", f"{folder}/ledger"]
        with (folder / "log").open("a") as log, run_gateway(urls, *words, port=port, stderr=log):
            is_up.set()
            while sent[0] < kill * args.requests // (args.kills + 1) and not all(client.done() for client in clients):
                await asyncio.sleep(0.05)
            if kill > args.kills:
                await asyncio.gather(*clients)
            is_up.clear()
    pool.close()
    return streams


def compare(streams: Streams, ledger: Path) -> dict[str, figures.Cell]:
    """Compare what each key was charged with what its clients have received."""
    requests, tokens, estimated = Counter[str](), Counter[str](), 0
    for row in read_report(str(ledger)):
        requests[row.key] += row.requests
        tokens[row.key] += row.prompt_tokens + row.completion_tokens
        estimated += row.estimated_tokens
    ends, faults = Counter[tuple[bool, StreamEnd]](), Counter[str]()
    for key, pairs in streams.items():
        ends.update((is_odd, stream.end) for is_odd, stream in pairs)
        done = [stream for _, stream in pairs if stream.end is StreamEnd.DONE]
        charged = sum(stream.end is not StreamEnd.REFUSED or b"invalid_answer" in stream.refusal for _, stream in pairs)
        faults["lost"] += max(len(done) - requests[key], 0)
        faults["lost"] += sum(stream.end is StreamEnd.SILENT or stream.is_repeated for _, stream in pairs)
        faults["twice"] += max(requests[key] - charged, 0)
        if len(done) == charged:
            faults["twice"] += abs(tokens[key] - sum(stream.tokens for stream in done))
            faults["compared"] += 1
    honest = {end: ends[False, end] for end in StreamEnd}
    return {
        "odd": sum(number for (is_odd, _), number in ends.items() if is_odd),
        "complete": honest[StreamEnd.DONE],
        "ended by an error event": honest[StreamEnd.ERROR],
        "refused": honest[StreamEnd.REFUSED],
        "cut by a kill": honest[StreamEnd.BROKEN],
        "lost": faults["lost"],
        "charged twice": faults["twice"],
        "keys compared by token": faults["compared"],
        "estimated": estimated,
    }


if __name__ == "__main__":
    main()
