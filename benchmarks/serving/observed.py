"""Measure what tracing costs: a step's start, and the model server's requests, in turn so that noise meets all alike.

The server of an earlier commit is measured beside today's without a receiver, with one, and with one whose sampler
takes nothing. The client, wrk, must be installed.
"""

import argparse
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks import figures
from benchmarks.serving import model
from benchmarks.serving.__main__ import SCRIPT, run_wrk
from nightshift.runtime.progress import cpu_seconds
from nightshift_testkit.collectors import collecting
from nightshift_testkit.processes import wait_until
from nightshift_testkit.servers import free_port

CONNECTIONS, PATH = 32, "/v2/models/fraud/infer"
OUTPUT = {"model": {"artifacts": [{"name": "model", "uri": "/tmp/runs/night/sample/model"}]}}  # noqa: S108 never written
STEP = f"""
from nightshift.runtime import flags, step
parser = flags.StepParser("sample", "Does nothing.")
parser.set_defaults(executor_input={{"outputs": {{"artifacts": {OUTPUT}}}}})
step.run(parser, lambda context: None)
"""


def main() -> None:
    """Measure both, steps first."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving.observed", description=__doc__)
    parser.add_argument("--before", required=True, metavar="COMMIT", help="commit of the server to compare with")
    parser.add_argument("--rounds", type=int, default=9, help="rounds, all in turn (default: %(default)s)")
    parser.add_argument("--seconds", type=int, default=2, help="seconds of a measurement (default: %(default)s)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as path, collecting() as collector:
        folder, spans = Path(path), {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        earlier = {"PYTHONPATH": str(export(args.before, folder / "before"))}
        alike = {"before": earlier, "before, again": earlier, "off": {}, "spans": spans}
        measure_steps(alike | {"lineage": {"OPENLINEAGE_URL": collector.url}}, args.rounds)
        measure_servers(folder, alike | {"spans, none sampled": spans | {"OTEL_TRACES_SAMPLER": "always_off"}}, args)


def measure_steps(environments: Mapping[str, Mapping[str, str]], rounds: int) -> None:
    """Publish the CPU seconds of a step that does nothing."""
    seconds: dict[str, list[float]] = {name: [] for name in environments}
    for _ in range(rounds):
        for name, variables in environments.items():
            seconds[name].append(run_step(variables))
    rows = [
        {"receivers": name, "CPU s": median(own), **compare(own, seconds["before"])} for name, own in seconds.items()
    ]
    figures.publish("observed-steps", rows, "The whole process.")


def run_step(variables: Mapping[str, str]) -> float:
    """Run a step that does nothing; return its CPU seconds."""
    # not here, where Python would look first
    process = subprocess.Popen([sys.executable, "-c", STEP], env=os.environ | variables, cwd=tempfile.gettempdir())
    _, process.returncode, usage = os.wait4(process.pid, 0)
    assert process.returncode == 0
    return usage.ru_utime + usage.ru_stime


def compare(own: Sequence[float], others: Sequence[float]) -> dict[str, float]:
    """Return the median of the ratios of pairs."""
    return {"times before": median(one / other for one, other in zip(own, others, strict=True))}


def measure_servers(folder: Path, environments: Mapping[str, Mapping[str, str]], args: argparse.Namespace) -> None:
    """Publish the CPU time of a request at each server, and requests a second."""
    model.write(folder)
    script = folder / "ask.lua"
    script.write_text(SCRIPT % (folder / "tensors.json"))
    with ExitStack() as stack:
        servers = {name: stack.enter_context(serve(folder, value)) for name, value in environments.items()}
        rates: dict[str, list[float]] = {name: [] for name in servers}
        costs: dict[str, list[float]] = {name: [] for name in servers}
        order = [*servers]
        for _ in range(args.rounds):
            order = order[1:] + order[:1]
            for name in order:
                pid, url = servers[name]
                before = cpu_seconds(pid)
                metrics = run_wrk(url, script, CONNECTIONS, args.seconds)
                rates[name].append(metrics["per_second"])
                costs[name].append((cpu_seconds(pid) - before) / metrics["requests"] * 1e6)
    rows = [
        {"receivers": name, "requests/s": median(rates[name]), "CPU us a request": median(own)}
        | compare(own, costs["before"])
        for name, own in costs.items()
    ]
    note = f"{CONNECTIONS} connections; cores are shared with client and receiver. Ratios are of CPU time."
    figures.publish("observed-server", rows, note)


def export(commit: str, folder: Path) -> Path:
    """Write the files of a commit into a folder, and return it."""
    archive = subprocess.run(["git", "archive", commit, "nightshift"], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


@contextmanager
def serve(folder: Path, variables: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Run a server during the block; yield its process id and the URL of its predictions."""
    port = free_port()
    command = [sys.executable, "-m", "nightshift.serving", "--model", str(folder / "package"), "--name", model.NAME]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], env=os.environ | variables, stdout=log, stderr=log, cwd=folder
        )
    try:
        wait_until(lambda: f"port {port} serves" in (folder / "log").read_text(), "the server", 120)
        yield process.pid, f"http://127.0.0.1:{port}{PATH}"
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
