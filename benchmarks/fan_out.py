"""Features in shards: by the workers of a Dask cluster, and by steps that an engine starts, which need no scheduler.

    python -m benchmarks.fan_out [--events 10_000_000] [--workers 2] [--folder F]

Both with as many processes at the same time, undisturbed, and while one is killed. Of the steps each is killed: every
shard once its first windows are written, the one that joins them once the first day is. Each then runs again, as an
engine would have it. An engine's own costs, such as a pod for each step, are not counted. The files have to be equal to
those of one process.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks import figures
from benchmarks.scale import Ended, StepCase, through_dask, world
from nightshift.runtime.memory import peak_memory


@dataclass
class StepProcess:
    """A step under way.

    Attributes:
        command: its command line.
        doomed: says when to kill it; None for never.
    """

    command: list[str]
    doomed: Callable[[], bool] | None = None

    def __post_init__(self) -> None:
        self.costs: list[Ended] = []
        self._start()

    def is_done(self) -> bool:
        """Look after it once: kill it when it is time, start it again when it is dead."""
        if self.doomed and self.doomed():
            self.process.kill()
            self.doomed = None
        pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
        if not pid:
            return False
        self.process.returncode = code = os.waitstatus_to_exitcode(status)
        self.costs.append({"cpu_seconds": usage.ru_utime + usage.ru_stime, "peak": peak_memory(usage)})
        assert code in (0, -9), f"failed with {code}; run {self.command}"
        if code:
            self._start()
        return not code

    def _start(self) -> None:
        self.process = subprocess.Popen(self.command, stderr=subprocess.DEVNULL)


def finish(steps: Sequence[StepProcess]) -> list[Ended]:
    """Wait for steps that run at the same time, and return what all their tries have cost."""
    left = list(steps)
    while left := [step for step in left if not step.is_done()]:
        time.sleep(0.05)
    return [cost for step in steps for cost in step.costs]


def through_steps(name: str, folder: Path, shards: int, kills: bool) -> Ended:
    """Run a step for each shard and the one that joins them."""
    case = StepCase(name, folder)
    started, manifests = case.clear(), [str(case.lake / f"shard-{number}.json") for number in range(shards)]
    numbered = [["--shard", str(number), "--shards", str(shards)] for number in range(shards)]
    commands = [case.command(*words, "--features", uri) for words, uri in zip(numbered, manifests, strict=True)]
    dooms = [
        partial(written, case, f"scratch/*/*/windows-*-{number}.arrow") if kills else None for number in range(shards)
    ]
    computing = finish([StepProcess(*step) for step in zip(commands, dooms, strict=True)])
    artifacts = {"computed": {"artifacts": [{"uri": uri} for uri in manifests]}}
    joining = ("--executor-input", json.dumps({"inputs": {"artifacts": artifacts}}))
    doom = partial(written, case, "features/date=*/*.json") if kills else None
    joined = finish([StepProcess(case.command(*joining), doom)])
    ended = case.finish(started, *joining)  # which finds all days, and reads the files' hash
    peaks = sorted(cost["peak"] for cost in computing)[-shards:]
    return ended | {
        "cpu_seconds": sum(cost["cpu_seconds"] for cost in (*computing, *joined)),
        "peak": max(sum(peaks), *(cost["peak"] for cost in joined)),
    }


def written(case: StepCase, pattern: str) -> bool:
    """Return whether a file of the lake is there."""
    return any(case.lake.glob(f"lake/scale/{pattern}"))


def show(rows: Sequence[Ended]) -> None:
    """Publish a row a case."""
    lines = [
        {
            "case": row["case"],
            "events": row["events"],
            "CPU seconds": round(row["cpu_seconds"], 1),
            "CPU, ratio": round(row["cpu_seconds"] / rows[0]["cpu_seconds"], 2),
            "peak MB": round(row["peak"] / 1e6),
        }
        for row in rows
    ]
    hashes = {row["sha256"] for row in rows}
    figures.publish("fan-out", lines, f"Files: {'equal' if len(hashes) == 1 else f'DIFFERENT {hashes}'}.")


def run(root: Path, events: int, workers: int) -> None:
    folder = world(root, events)
    rows = [StepCase("one process", folder).run()]
    for kills, killed in ((False, ""), (True, ", one killed")):
        rows.append(through_dask(f"Dask, {workers} workers{killed}", folder, workers, kills))
    for kills, killed in ((False, ""), (True, ", each killed")):
        rows.append(through_steps(f"{workers} steps and one{killed}", folder, workers, kills))
    show(rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fan_out", description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=2, help="processes that compute at the same time")
    parser.add_argument("--folder", type=Path, help="folder that keeps the simulated world for the next time")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run((args.folder or Path(folder)).resolve(), args.events, args.workers)


if __name__ == "__main__":
    main()
