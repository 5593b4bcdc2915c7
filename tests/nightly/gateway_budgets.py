"""Budgets of keys: requests at once, with a gateway that is killed again and again.

First as a simulation of the state machine, whose kills charge open reservations as the ledger does; then with a real
gateway, whose ledger is compared with what its clients have received; then the time that the ledger alone takes.
"""

import argparse
import asyncio
import hashlib
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import ExitStack
from pathlib import Path

from benchmarks import figures
from benchmarks.gateway.__main__ import free_ports, wait_for
from nightshift.http.client import ServerAddress
from nightshift.http.pool import ConnectionPool
from nightshift.http.transport import allow_connections
from nightshift_llm.gateway.budgets import NOTHING, Amount, KeyBudget, Limits, Outcome
from nightshift_llm.gateway.keys import ANYONE, NANODOLLARS
from nightshift_llm.gateway.ledger import Ledger, TokenUsage
from nightshift_llm.gateway.ledger_file import read_report
from nightshift_testkit.servers import free_port
from tests.nightly.gateway_faults import run_gateway, simulate
from tests.nightly.gateway_streams import CheckedStream, StreamEnd, read_stream

DAY = 20_000 * 86_400.0
OPEN = 64  # requests of the simulation that are in progress at once
CLIENTS, TOKENS = 128, 20  # load on the real gateway
SIMULATED_LIMIT = Amount(100_000, 300_000)  # a day
LIMIT, PRICE = 800, 1000  # tokens a day of the real gateway, and nanodollars a token; half of its keys count in money
PRICES = "- {version: any, prompt: 1, completion: 1}"
KILL_SECONDS = 2.0  # from an answer of a new gateway to its kill
NEED = re.compile(rb"may (?:use up to (?P<tokens>\d+) tokens|cost up to (?P<dollars>[\d.]+) dollars)")
NOTE = (
    "Overspent: keys charged beyond their limit, or less than their clients have received. Wrongly refused: requests "
    "that would still have fitted. Ledger - tokens: those of streams that were settled, and whose last event a kill "
    "has cut. Estimated: tokens of requests in progress at a kill, charged in full."
)
Streams = dict[str, list[CheckedStream]]


def main() -> None:
    """Measure all three."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.gateway_budgets", description=__doc__)
    parser.add_argument("--simulated", type=int, default=1_000_000, help="requests of the simulation")
    parser.add_argument("--requests", type=int, default=20_000, help="requests to the real gateway")
    parser.add_argument("--keys", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=20, help="of the real gateway; the simulation has 100")
    args = parser.parse_args()
    allow_connections()
    rows = [
        simulate_budgets(args.simulated, args.keys, 100),
        measure_gateway(args.requests, args.keys, args.kills),
        asyncio.run(time_ledger(20_000)),
    ]
    figures.publish("gateway-budgets", rows, NOTE)
    sys.exit(any(row.get(name) for row in rows for name in ("overspent", "wrongly refused", "cut silently")))


def simulate_budgets(requests: int, keys: int, kills: int) -> figures.Row:
    """Admit and settle requests in random order, and compare each decision with exact sums."""
    generator, limits = random.Random(1), Limits(SIMULATED_LIMIT)
    budgets, used, held = [KeyBudget() for _ in range(keys)], [NOTHING] * keys, [NOTHING] * keys
    in_progress: list[tuple[int, Amount]] = []
    outcomes, checks, seconds = Counter[Outcome](), Counter[str](), 0.0
    kill_at = {*generator.sample(range(requests), kills), requests - 1}
    for number in range(requests):
        key, tokens = generator.randrange(keys), generator.randint(50, 500)
        amount = Amount(tokens, tokens * generator.randint(1, 5))
        left = SIMULATED_LIMIT.minus(used[key]).minus(held[key])
        started = time.perf_counter()
        outcome = budgets[key].admit(limits, amount, DAY)
        seconds += time.perf_counter() - started
        outcomes[outcome] += 1
        checks["overspent"] += outcome is Outcome.ADMITTED and amount.exceeds(left)
        fits = left.plus(held[key]) if outcome is Outcome.OVER_BUDGET else left
        checks["wrongly refused"] += outcome is not Outcome.ADMITTED and not amount.exceeds(fits)
        if outcome is Outcome.ADMITTED:
            in_progress.append((key, amount))
            held[key] = held[key].plus(amount)
        is_killed = number in kill_at
        while len(in_progress) > (0 if is_killed else OPEN):
            key, amount = in_progress.pop(generator.randrange(len(in_progress)))
            spent = amount if is_killed else Amount(*(generator.randint(1, number) for number in amount))
            budgets[key].settle(budgets[key].day, amount, spent)
            used[key], held[key] = used[key].plus(spent), held[key].minus(amount)
    return {
        "case": f"state machine, {kills} kills",
        "requests": requests,
        "keys": keys,
        "admitted": outcomes[Outcome.ADMITTED],
        "refused": outcomes[Outcome.OVER_BUDGET],
        "overspent": checks["overspent"],
        "wrongly refused": checks["wrongly refused"],
        "ledger - tokens": sum(budget.today.spent != spent for budget, spent in zip(budgets, used, strict=True)),
        "us a request": 1e6 * seconds / requests,
    }


def measure_gateway(requests: int, keys: int, kills: int) -> figures.Row:
    """Send streamed requests to a gateway that is killed, and compare its ledger with what clients have received."""
    names = [f"key-{number}" for number in range(keys)]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ports, files = free_ports(4), tuple(Path(folder) / name for name in ("keys", "ledger", "prices"))
        stack.enter_context(simulate(ports, ["--slots", "64", "--decode", "0.002"]))
        files[0].write_text(json.dumps([describe_key(name) for name in names]))
        files[2].write_text(PRICES)
        streams = asyncio.run(ask_while_killing(wait_for(ports), files, names, requests, kills))
        # opened once more: what was in progress at the last kill is charged
        asyncio.run(Ledger(str(files[1])).close())
        return {"case": f"gateway, {kills} kills", "requests": requests, "keys": keys} | compare(streams, files[1])


def describe_key(name: str) -> dict[str, str | float]:
    counts_in_money = int(name.rpartition("-")[2]) % 2
    limit = {"dollars_per_day": LIMIT * PRICE / NANODOLLARS} if counts_in_money else {"tokens_per_day": LIMIT}
    return {"name": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), **limit}


async def ask_while_killing(
    urls: list[str], files: tuple[Path, ...], names: list[str], requests: int, kills: int
) -> Streams:
    """Have clients send all requests, each with a key in turn, while gateways are killed."""
    port, streams, numbers = free_port(), defaultdict[str, list[CheckedStream]](list), iter(range(requests))
    pool, is_up = ConnectionPool(ServerAddress("127.0.0.1", port)), asyncio.Event()

    async def ask() -> None:
        for number in numbers:
            await is_up.wait()
            name = names[number % len(names)]
            streams[name].append(await read_stream(pool, f"request {number}", TOKENS, name))

    clients = [asyncio.create_task(ask()) for _ in range(CLIENTS)]
    for kill in range(kills + 1):
        words = ["--keys", str(files[0]), "--ledger", str(files[1]), "--prices", str(files[2])]
        with run_gateway(urls, *words, port=port):
            is_up.set()
            await asyncio.wait(clients, timeout=KILL_SECONDS if kill < kills else None)
            is_up.clear()
    pool.close()
    return streams


def compare(streams: Streams, ledger: Path) -> dict[str, figures.Cell]:
    """Compare what each key was charged with what its clients have received."""
    rows = read_report(str(ledger))
    counted, estimated = Counter[str](), Counter[str]()
    for row in rows:
        counted[row.key] += row.prompt_tokens + row.completion_tokens
        estimated[row.key] += row.estimated_tokens
        assert row.nanodollars == PRICE * (row.prompt_tokens + row.completion_tokens + row.estimated_tokens)
    checks = Counter[str]()
    for key, its_streams in streams.items():
        charged = counted[key] + estimated[key]
        complete = sum(stream.tokens for stream in its_streams if stream.end is StreamEnd.DONE)
        others = sum(len(stream.words) for stream in its_streams if stream.end is not StreamEnd.DONE)
        checks["overspent"] += charged > LIMIT or charged < complete + others
        needs = [read_need(match) for stream in its_streams if (match := NEED.search(stream.refusal))]
        checks["wrongly refused"] += sum(need <= LIMIT - charged for need in needs)
        checks["received"] += complete
    ends = Counter(stream.end for its_streams in streams.values() for stream in its_streams)
    return {
        "admitted": ends[StreamEnd.DONE] + ends[StreamEnd.ERROR],
        "refused": ends[StreamEnd.REFUSED],
        "cut by a kill": ends[StreamEnd.BROKEN],
        "cut silently": ends[StreamEnd.SILENT],
        "overspent": checks["overspent"],
        "wrongly refused": checks["wrongly refused"],
        "ledger - tokens": counted.total() - checks["received"],
        "estimated": estimated.total(),
    }


def read_need(match: re.Match[bytes]) -> int:
    """Return the tokens that a refused request may use."""
    return int(match["tokens"] or round(float(match["dollars"]) * NANODOLLARS / PRICE))


async def time_ledger(requests: int) -> figures.Row:
    """Reserve and settle on disk by 256 clients at once."""
    with tempfile.TemporaryDirectory() as folder:
        ledger, numbers = Ledger(f"{folder}/ledger"), iter(range(requests))

        async def ask() -> None:
            for _ in numbers:
                ledger.settle(await ledger.reserve(ANYONE, Amount(100)), "1", TokenUsage(10, 5))
                await ledger.flush()

        started, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(ask() for _ in range(256)))
        seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
        await ledger.close()
    return {
        "case": "ledger on disk, 256 clients",
        "requests": requests,
        "us a request": 1e6 * cpu / requests,
        "requests/s": requests / seconds,
    }


if __name__ == "__main__":
    main()
