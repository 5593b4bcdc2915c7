"""Send Ctrl-C or SIGTERM to `nightshift run` at random moments, beside busy loops, and count what did not end.

Each run has steps as shell processes and as forks, two at a time. Counted are runs that do not exit in time, that exit
with another code than the signal's, and steps that are alive or start after the run has ended.
"""

import argparse
import collections
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kfp import dsl

from nightshift_testkit.processes import engine, started
from tests.pipelines.samples import compiled_file, shell

EXPECTED = ("stopped", "ended while Python started", "was done before the signal")
LIMIT_S = 120  # what a run may take to end on a loaded machine
SIGNALS = (signal.SIGINT, signal.SIGTERM)
STEP = 'echo $$ >> "{folder}/pids"; sleep 2'


@dsl.container_component
def fork() -> dsl.ContainerSpec:
    """A step as a fork."""
    return dsl.ContainerSpec(image="alpine:3", command=["python", "-m", "json.tool"], args=["--help"])


def write_pipeline(folder: Path) -> Path:
    """Compile a pipeline of two chains of steps."""

    def pipeline() -> None:
        for _ in range(2):
            first = shell(script=STEP.format(folder=folder))
            second = fork().after(first)
            shell(script=STEP.format(folder=folder)).after(second)

    return compiled_file(pipeline, folder)


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep so many processes busy."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(started([sys.executable, "-c", "while True: pass"]))
        yield


def interrupt(command: list[str], folder: Path, number: int, delay: float) -> str:
    """Run a command, send it a signal after a delay in seconds, and return the outcome."""
    pids = folder / "pids"
    pids.write_text("")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(delay)
        process.send_signal(number)
        try:
            code = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return "hung"
    started = pids.read_text().split()
    time.sleep(0.05)
    if pids.read_text().split() != started:
        return "a step started afterwards"
    if any(Path(f"/proc/{pid}/cwd").exists() for pid in started):
        return "a step outlived the run"
    # the interpreter's own handling, before the first line of the command
    expected = dict(zip((128 + number, -number, 0), EXPECTED, strict=True))
    return expected.get(code, f"exit code {code}")


def interrupt_runs(scratch: Path, count: int, longest: float, seed: int) -> list[str]:
    """Return the outcomes of so many runs, each after a random delay in seconds."""
    moments = random.Random(seed)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    command = engine("run", str(write_pipeline(folder)), "--workspace", str(folder))
    return [interrupt(command, folder, moments.choice(SIGNALS), moments.uniform(0, longest)) for _ in range(count)]


def main() -> None:
    """Print how often each outcome was seen."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.interrupts", description=__doc__)
    parser.add_argument("--repetitions", type=int, default=500, help="interrupted runs (default: 500)")
    parser.add_argument("--busy", type=int, default=3, help="busy loops beside them (default: 3)")
    parser.add_argument("--parallel", type=int, default=4, help="runs at a time (default: 4)")
    parser.add_argument("--longest", type=float, default=8.0, help="longest delay in seconds (default: 8)")
    args = parser.parse_args()
    count = -(-args.repetitions // args.parallel)
    with tempfile.TemporaryDirectory() as scratch, busy_loops(args.busy), ThreadPoolExecutor(args.parallel) as pool:
        seeds = range(args.parallel)
        groups = [pool.submit(interrupt_runs, Path(scratch), count, args.longest, seed) for seed in seeds]
        outcomes = collections.Counter(outcome for group in groups for outcome in group.result())
    for outcome, times in outcomes.most_common():
        print(f"{times:5} {outcome}")
    sys.exit(bool(outcomes.keys() - EXPECTED))


if __name__ == "__main__":
    main()
