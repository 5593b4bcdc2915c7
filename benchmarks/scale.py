"""The features step on many simulated events: time per event and peak memory, in one process and through Dask.

    python -m benchmarks.scale [--events 50_000_000] [--beside 1_750_000] [--workers 2] [--folder F]

The smaller world is computed first, and each time per event is given as a multiple of its. Then the larger one: in one
process; by the workers of a Dask cluster, each a process; and by them while one is killed. The files have to be equal.
Both worlds have 183 days of events, 146 of which get features, and as many events per customer and terminal.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks import figures
from nightshift import storage
from nightshift.config import parse
from nightshift.config.tabular import TabularSimulator
from nightshift.contracts import tables
from nightshift.contracts.state import ROOTS
from nightshift.data.splits import plan
from nightshift.runtime.memory import peak_memory
from nightshift.tasks.tabular import simulator
from nightshift_testkit.servers import free_port

ROLES = {column: role for role, column in simulator.ROLES.items()}
CONFIG = {
    "name": "scale",
    "label_delay_days": 7,
    "source": {"table": "t.csv"},
    "columns": {role: role for role in simulator.ROLES},
    "protocol": {"train_days": 111, "test_days": 7},
    "task": {"kind": "tabular", "candidates": {"a": {"kind": "xgboost"}}},
}
DATE = date(2024, 9, 30)
EVENTS_OF_A_CUSTOMER = 350  # over 183 days
KILLED_AFTER = 0.3  # share of the shards' windows
Ended = dict[str, Any]


@dataclass(frozen=True)
class StepCase:
    """One way to run the step.

    Attributes:
        name: what the table calls it.
        folder: where events.json lies; each case has a lake of its own below it.
        dask: of the state.
        meanwhile: is called every tenth of a second.
    """

    name: str
    folder: Path
    dask: str = ""
    meanwhile: Callable[[], None] = field(default=lambda: None)

    @property
    def lake(self) -> Path:
        return self.folder / self.name.replace(" ", "-")

    def command(self, *more: str) -> list[str]:
        values = {
            "config": json.dumps(CONFIG),
            "date": str(DATE),
            "device": "cpu",
            "state": json.dumps(
                {root: str(self.lake / root) for root in ROOTS} | {"target": "record-only", "dask": self.dask}
            ),
            "events": str(self.folder / "events.json"),
            "features": str(self.lake / "features.json"),
        }
        flags = [word for name, value in values.items() for word in (f"--{name}", value)]
        return [sys.executable, "-m", "components.features", *flags, *more]

    def clear(self) -> float:
        """Remove what another time has left, and return the time."""
        storage.remove_folder(str(self.lake))
        self.lake.mkdir()
        return time.monotonic()

    def run(self) -> Ended:
        """Run the step: seconds until the last day was written, all seconds, CPU seconds, peak, the files' hash."""
        return self.finish(self.clear())

    def finish(self, started: float, *more: str) -> Ended:
        """Run the step that began, by itself or by others before it, at a time."""
        process = subprocess.Popen(self.command(*more), stderr=subprocess.DEVNULL)
        written, (_, status, usage) = self._wait(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, f"{self.name} failed; run {self.command(*more)}"
        table = tables.read_table(str(self.lake / "features.json"))
        return {
            "case": self.name,
            "events": sum(part.rows for part in tables.read_table(str(self.folder / "events.json")).partitions),
            "features": table.rows,
            "written_seconds": written - started,
            "seconds": time.monotonic() - started,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "peak": peak_memory(usage),
            "sha256": table.sha256,
        }

    def _wait(self, pid: int) -> tuple[float, tuple[int, int, Any]]:
        """Wait for the process; return when the last day was written, and how it ended."""
        days, at = 0, time.monotonic()
        while True:
            ended = os.wait4(pid, os.WNOHANG)
            if (now := len(list(self.lake.glob("lake/scale/features/date=*/*.json")))) > days:
                days, at = now, time.monotonic()
            if ended[0]:
                return at, ended
            self.meanwhile()
            time.sleep(0.1)


def make(folder: Path, events: int) -> None:
    """Write the events of so large a world, by day, as ingestion would."""
    customers = round(events / EVENTS_OF_A_CUSTOMER)
    world = TabularSimulator(customers=customers, terminals=2 * customers)
    parts = []
    for day in plan(parse(CONFIG), DATE).events:
        frame = simulator.SimulationTask().day(world, day).rename(columns=ROLES).astype({"label": "Int8"})
        frame = frame.sort_values(["event_time", "event_id"], kind="stable", ignore_index=True)
        parts.append(tables.write_partition(str(folder / "events" / f"{day}.parquet"), day, frame, {}))
    tables.write_table(str(folder / "events.json"), tables.Table("events", parts))


def world(root: Path, events: int) -> Path:
    """Return the folder of a world, made by another process, whose memory would count for its children too."""
    folder = root / str(events)
    if not (folder / "events.json").exists():
        argv = ["-m", "benchmarks.scale", "--make", str(folder), "--events", str(events)]
        subprocess.run([sys.executable, *argv], check=True)
    return folder


@contextmanager
def cluster(workers: int, ended: list[Ended]) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """Give a scheduler's address and its workers; what each took is in `worker_costs` afterwards."""
    address = f"tcp://127.0.0.1:{free_port()}"
    dask, quiet = [sys.executable, "-m", "dask"], {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    options = ["--host", "127.0.0.1", "--port", address.rsplit(":", 1)[1], "--no-dashboard", "--no-show"]
    one = ["worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0"]
    with ExitStack() as stack:
        scheduler = subprocess.Popen([*dask, "scheduler", *options], **quiet)
        stack.callback(scheduler.wait)
        stack.callback(scheduler.terminate)
        local = stack.enter_context(tempfile.TemporaryDirectory())
        worker_processes = [
            subprocess.Popen([*dask, *one, "--local-directory", local], **quiet) for _ in range(workers)
        ]
        try:
            yield address, worker_processes
        finally:
            for process in worker_processes:
                os.kill(process.pid, signal.SIGTERM)  # not terminate(), which would reap one that was killed
                _, process.returncode, usage = os.wait4(process.pid, 0)
                ended.append({"cpu_seconds": usage.ru_utime + usage.ru_stime, "peak": peak_memory(usage)})


def through_dask(name: str, folder: Path, workers: int, kills: bool) -> Ended:
    """Run the step on a cluster; kill a worker in the middle if so."""
    worker_costs: list[Ended] = []
    with cluster(workers, worker_costs) as (address, processes):
        doomed = processes[:1] if kills else []

        def kill() -> None:
            counts = {
                kind: len(list(case.lake.glob(f"lake/scale/scratch/*/{kind}-*"))) for kind in ("events", "windows")
            }
            if doomed and counts["windows"] > KILLED_AFTER * counts["events"]:
                doomed.pop().kill()

        case = StepCase(name, folder, address, kill)
        ended = case.run()
    return ended | {
        "cpu_seconds": ended["cpu_seconds"] + sum(cost["cpu_seconds"] for cost in worker_costs),
        "peak": sum(cost["peak"] for cost in worker_costs) + ended["peak"],
    }


def show(rows: list[Ended]) -> None:
    """Publish a row a case: microseconds per event that was read, and as multiples of the first case's."""
    parts = {"written_seconds": "days written", "seconds": "whole step", "cpu_seconds": "CPU"}
    first = {name: rows[0][name] / rows[0]["events"] for name in parts}
    lines = []
    for row in rows:
        times = {name: row[name] / row["events"] for name in parts}
        costs = {f"{title}, us": times[name] * 1e6 for name, title in parts.items()}
        ratios = {f"{title}, ratio": times[name] / first[name] for name, title in parts.items()}
        lines.append({"case": row["case"], "events": row["events"], **costs, **ratios, "peak MB": row["peak"] / 1e6})
    larger = {row["sha256"] for row in rows[1:]}
    equality = "equal" if len(larger) == 1 else f"DIFFERENT {larger}"
    figures.publish("scale", lines, f"Time per event that was read; files of the larger world: {equality}.")


def run(root: Path, events: int, beside: int, workers: int) -> None:
    small, large = world(root, beside), world(root, events)
    rows = [StepCase("smaller", small).run(), StepCase("larger", large).run()]
    if workers:
        for name, kills in (("dask", False), ("dask, one killed", True)):
            rows.append(through_dask(name, large, workers, kills))
    show(rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--events", type=int, default=50_000_000)
    parser.add_argument("--beside", type=int, default=1_750_000, help="events of the smaller world")
    parser.add_argument("--workers", type=int, default=2, help="workers of the Dask cluster; 0 leaves it out")
    parser.add_argument("--folder", type=Path, help="folder that keeps the simulated worlds for the next time")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        make(args.make, args.events)
    elif args.folder:
        run(args.folder.resolve(), args.events, args.beside, args.workers)
    else:
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), args.events, args.beside, args.workers)


if __name__ == "__main__":
    main()
