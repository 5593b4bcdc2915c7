"""Measure servers side by side: requests a second, latency and CPU time, closed loop at 1, 8 and 32 connections.

The client, wrk, must be installed. Other servers get their own environments in build/serving/.
"""

import argparse
import http.client
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

from benchmarks import figures
from benchmarks.online import CUSTOMERS, TERMINALS
from benchmarks.serving import model
from benchmarks.serving.servers import SERVERS, LaunchContext, ServerSpec, build_environment
from nightshift.contracts import package
from nightshift.runtime.progress import cpu_seconds, family
from nightshift.tabular.inputs import FrameScorer
from nightshift_testkit.processes import wait_until
from nightshift_testkit.servers import free_port

ENVIRONMENTS = Path("build/serving")
CONNECTIONS = (1, 8, 32)
METRICS = ("per_second", "p50_ms", "p99_ms", "cpu_us")
UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}
SCRIPT = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = io.open("%s"):read("*a")
"""
# every event is new, at the time of day of its request
EVENTS = """
local id = os.time() * 100000
local form = '{"events":[{"event_id":%%d,"event_time":"%sT%%sZ","customer":%%d,"terminal":%%d,"amount":3.5}]}'
function request()
  id = id + 1
  return wrk.format(nil, nil, nil, form:format(id, os.date("!%%H:%%M:%%S"), math.random(0, %d), math.random(0, %d)))
end
"""


def main() -> None:
    """Measure all servers, or the named ones."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=SERVERS, default=list(SERVERS), metavar="SERVER")
    parser.add_argument("--seconds", type=int, default=5, help="seconds of a measurement (default: %(default)s)")
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        help="rounds, with all servers in turn; medians are printed (default: %(default)s)",
    )
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    samples = []
    for _ in range(args.rounds):
        with tempfile.TemporaryDirectory() as path:
            folder = Path(path)
            model.write(folder)
            rows += [row for name in args.only for row in measure_server(name, folder, args.seconds)]
            samples.append(time_in_process(folder))
    subject = "model-servers" if args.only == list(SERVERS) else "chosen-servers"
    show(subject, compute_medians(rows), median_low(samples))


def measure_server(name: str, folder: Path, seconds: int) -> Iterator[dict[str, Any]]:
    """Start a server, warm it up, and yield its metrics at each number of connections."""
    server, context = SERVERS[name], LaunchContext(install(name), folder, free_port())
    with run_server(name, context) as process:
        script = folder / "ask.lua"
        more = EVENTS % (model.NEXT, CUSTOMERS - 1, TERMINALS - 1) if server.body == "events" else ""
        script.write_text(SCRIPT % (folder / f"{server.body}.json") + more)
        url = f"http://127.0.0.1:{context.port}{server.path}"
        run_wrk(url, script, 8, 2)
        for connections in CONNECTIONS:
            before = cpu_seconds(process.pid)
            metrics = run_wrk(url, script, connections, seconds)
            spent = cpu_seconds(process.pid) - before
            cost = {"cpu_us": round(spent / metrics["requests"] * 1e6, 1)}
            yield {"server": name, "connections": connections, **metrics, **cost}


def compute_medians(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row a server and number of connections, with the medians of the metrics."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["server"], row["connections"]), []).append(row)
    return [group[0] | {name: median_low(row[name] for row in group) for name in METRICS} for group in groups.values()]


def time_in_process(folder: Path) -> float:
    """Return the CPU time of scoring one row without a server, microseconds."""
    uri = str(folder / "package")
    score = FrameScorer(uri, package.load(uri)).graph.score
    row, calls = np.zeros((1, model.WIDTH), np.float32), 20_000
    before = time.process_time()
    for _ in range(calls):
        score(row)
    return (time.process_time() - before) / calls * 1e6


@contextmanager
def run_server(name: str, context: LaunchContext) -> "Iterator[subprocess.Popen[bytes]]":
    """Start a server and wait for its first answer; at the end of the block, kill all its processes."""
    server, path = SERVERS[name], context.folder / "log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            server.command(context),
            env=build_environment(context),
            stdout=log,
            stderr=log,
            cwd=context.folder if server.requirements else None,
            start_new_session=True,
        )
    try:
        body = (context.folder / f"{server.body}.json").read_bytes()
        wait_until(
            lambda: process.poll() is not None or is_answering(server, context.port, body), f"{name} answers", 120
        )
        assert process.poll() is None, path.read_text()
        yield process
    finally:
        for pid in family(process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()


def install(name: str) -> Path:
    """Return the folder of a server's environment; the first call creates it."""
    server, folder = SERVERS[name], (ENVIRONMENTS / re.sub(r"\W", "-", name)).resolve()
    if server.requirements and not (folder / ".installed").exists():
        venv.create(folder, clear=True, with_pip=True)
        subprocess.run([folder / "bin" / "pip", "install", "--quiet", *server.requirements], check=True)
        (folder / ".installed").touch()
    return folder


def is_answering(server: ServerSpec, port: int, body: bytes) -> bool:
    """Return whether a server answers the benchmark's request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("POST", server.path, body, {"Content-Type": "application/json"})
        return connection.getresponse().status == http.client.OK
    except http.client.HTTPException:
        return False
    finally:
        connection.close()


def run_wrk(url: str, script: Path, connections: int, seconds: int) -> dict[str, Any]:
    """Send requests for some seconds; return their number and rate, and latencies in milliseconds."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency", "-s", str(script), url]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "Non-2xx" not in output, output
    assert "Socket errors" not in output, output

    def latency(share: str) -> float:
        value, unit = re.search(rf"{share}%\s+([\d.]+)(us|ms|s)", output).groups()
        return round(float(value) * UNITS[unit], 3)

    requests = int(re.search(r"(\d+) requests in", output)[1])
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output)[1])
    return {"requests": requests, "per_second": round(rate), "p50_ms": latency("50"), "p99_ms": latency("99")}


def show(subject: str, rows: list[dict[str, Any]], in_process_us: float) -> None:
    """Publish them, with ratios of requests a second to the first server's, and of CPU time to a row's in process."""
    first = {row["connections"]: row["per_second"] for row in rows if row["server"] == rows[0]["server"]}
    lines = [
        {
            "server": row["server"],
            "clients": row["connections"],
            "requests/s": row["per_second"],
            "first / its": first[row["connections"]] / row["per_second"],
            "p50 ms": row["p50_ms"],
            "p99 ms": row["p99_ms"],
            "CPU us a request": row["cpu_us"],
        }
        for row in rows
    ]
    figures.publish(
        subject, lines, f"Cores are shared with the client. One row in process takes {in_process_us:.1f} us."
    )


if __name__ == "__main__":
    main()
