"""Measure servers side by side: requests a second, latency and CPU time, closed loop at 1, 8 and 32 connections.

The client is wrk, which has to be installed. Other servers get environments of their own in build/serving/.
"""

import argparse
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.online import CUSTOMERS, TERMINALS
from benchmarks.serving import model
from benchmarks.serving.servers import SERVERS, Place, Server, environment_of
from nightshift.contracts import package
from nightshift.progress import cpu_seconds, family
from nightshift.tabular.inputs import FrameScorer
from tests.processes import wait_until
from tests.servers import free_port

ENVIRONMENTS = Path("build/serving")
CONNECTIONS = (1, 8, 32)
MEASURED = ("per_second", "p50_ms", "p99_ms", "cpu_us")
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
SCRIPT = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = io.open("%s"):read("*a")
"""
# each event is another one, at the time of day at which it is sent
EVENTS = """
local id = os.time() * 100000
local form = '{"events":[{"event_id":%%d,"event_time":"%sT%%sZ","customer":%%d,"terminal":%%d,"amount":3.5}]}'
function request()
  id = id + 1
  return wrk.format(nil, nil, nil, form:format(id, os.date("!%%H:%%M:%%S"), math.random(0, %d), math.random(0, %d)))
end
"""


def main() -> None:
    """Measure all servers, or those that are named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SERVERS, default=list(SERVERS), metavar="SERVER")
    parser.add_argument("--seconds", type=int, default=5, help="of each measurement (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=1, help="in which servers take turns; medians count (%(default)s)"
    )
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    in_process = []
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            model.write(folder)
            rows += [row for name in args.only for row in measured(name, folder, args.seconds)]
            in_process.append(alone(folder))
    rows, one = medians(rows), median_low(in_process)
    print(f"one row in process: {one:.1f} us of CPU")
    show(rows, one)
    Path("runs").mkdir(exist_ok=True)
    Path("runs/serving.json").write_text(
        json.dumps({"cores": os.cpu_count(), "in_process_us": one, "rows": rows}, indent=2) + "\n"
    )


def measured(name: str, folder: Path, seconds: int) -> Iterator[dict[str, Any]]:
    """Start a server, warm it up, and yield what it does at each number of connections."""
    server, place = SERVERS[name], Place(installed(name), folder, free_port())
    with running(name, place) as process:
        script = folder / "ask.lua"
        more = EVENTS % (model.NEXT, CUSTOMERS - 1, TERMINALS - 1) if server.body == "events" else ""
        script.write_text(SCRIPT % (folder / f"{server.body}.json") + more)
        url = f"http://127.0.0.1:{place.port}{server.path}"
        asked(url, script, 8, 2)
        for connections in CONNECTIONS:
            before = cpu_seconds(process.pid)
            found = asked(url, script, connections, seconds)
            spent = cpu_seconds(process.pid) - before
            cost = {"cpu_us": round(spent / found["requests"] * 1e6, 1)}
            yield {"server": name, "connections": connections, **found, **cost}


def medians(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row a server and number of connections, with the medians of what was measured."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["server"], row["connections"]), []).append(row)
    return [each[0] | {name: median_low(row[name] for row in each) for name in MEASURED} for each in found.values()]


def alone(folder: Path) -> float:
    """Return the CPU time of scoring one row without a server, microseconds."""
    uri = str(folder / "package")
    score = FrameScorer(uri, package.load(uri)).graph.score
    row, calls = np.zeros((1, model.WIDTH), np.float32), 20_000
    before = time.process_time()
    for _ in range(calls):
        score(row)
    return (time.process_time() - before) / calls * 1e6


@contextmanager
def running(name: str, place: Place) -> "Iterator[subprocess.Popen[bytes]]":
    """Start a server and wait for its first answer; it ends with the block, with all its processes."""
    server, said = SERVERS[name], place.folder / "log"
    with said.open("wb") as log:
        process = subprocess.Popen(
            server.command(place),
            env=environment_of(place),
            stdout=log,
            stderr=log,
            cwd=place.folder if server.requirements else None,
            start_new_session=True,
        )
    try:
        body = (place.folder / f"{server.body}.json").read_bytes()
        wait_until(lambda: process.poll() is not None or answers(server, place.port, body), f"{name} answers", 120)
        assert process.poll() is None, said.read_text()
        yield process
    finally:
        for pid in family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def installed(name: str) -> Path:
    """Return the folder of a server's environment, which is made the first time."""
    server, place = SERVERS[name], (ENVIRONMENTS / re.sub(r"\W", "-", name)).resolve()
    if server.requirements and not (place / ".installed").exists():
        venv.create(place, clear=True, with_pip=True)
        subprocess.run([place / "bin" / "pip", "install", "--quiet", *server.requirements], check=True)
        (place / ".installed").touch()
    return place


def answers(server: Server, port: int, body: bytes) -> bool:
    """Return whether the request of the benchmark is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("POST", server.path, body, {"Content-Type": "application/json"})
        return connection.getresponse().status == http.client.OK
    except http.client.HTTPException:
        return False
    finally:
        connection.close()


def asked(url: str, script: Path, connections: int, seconds: int) -> dict[str, Any]:
    """Ask for some seconds; return requests, requests a second, and latencies in milliseconds."""
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency", "-s", str(script), url]
    said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert "Non-2xx" not in said, said
    assert "Socket errors" not in said, said

    def latency(share: str) -> float:
        value, unit = re.search(rf"{share}%\s+([\d.]+)(us|ms|s)", said).groups()
        return round(float(value) * UNITS[unit], 3)

    requests = int(re.search(r"(\d+) requests in", said)[1])
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", said)[1])
    return {"requests": requests, "per_second": round(rate), "p50_ms": latency("50"), "p99_ms": latency("99")}


def show(rows: list[dict[str, Any]], one: float) -> None:
    """Print them, with ratios of requests a second to the first server's, and of CPU time to a row's in process."""
    first = {row["connections"]: row["per_second"] for row in rows if row["server"] == rows[0]["server"]}
    table = Table(title=f"one row a request; {time.strftime('%F')}, {os.cpu_count()} cores shared with the client")
    for column in ("server", "clients", "requests/s", "ours/its", "p50 ms", "p99 ms", "CPU us/request", "x in process"):
        table.add_column(column, justify="left" if column == "server" else "right", no_wrap=True)
    for row in rows:
        ratio = first[row["connections"]] / row["per_second"]
        values = [row["server"], row["connections"], f"{row['per_second']:,}", f"{ratio:.1f}"]
        table.add_row(*map(str, [*values, row["p50_ms"], row["p99_ms"], row["cpu_us"], f"{row['cpu_us'] / one:.1f}"]))
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
