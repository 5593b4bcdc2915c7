"""Online features: what one event costs beside the batch kernel, and what the state takes for 5 million customers.

`python -m benchmarks.online` measures events of the default world; `python -m benchmarks.online memory` measures a
snapshot of 5 million customers and 1 million terminals, with what then comes in over it, in a process of its own.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import figures
from nightshift import config
from nightshift.config import Config
from nightshift.data.splits import Days, buffer_days
from nightshift.tabular import frames
from nightshift.tabular.online import snapshot
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.embedded import Embedded
from nightshift.tabular.online.event import Event, EventParser
from nightshift.tabular.online.shared import Shared
from nightshift.tabular.online.state import OnlineState
from nightshift.tabular.online.store import Store
from nightshift.tabular.windows import DAY
from nightshift.tasks.tabular.features import core
from nightshift_testkit import redis

LAST = date(2024, 6, 30)
CUSTOMERS, TERMINALS, ROWS_A_DAY = 5_000, 10_000, 9_700
MANY_CUSTOMERS, MANY_TERMINALS, MANY_ROWS_A_DAY = 5_000_000, 1_000_000, 1_000_000
ROLES = {role: role for role in ("event_id", "event_time", "customer", "terminal", "amount", "label")}
RAW: dict[str, Any] = {
    "name": "bench",
    "source": {"table": "t.csv"},
    "columns": ROLES,
    "task": {"kind": "tabular", "candidates": {"a": {"kind": "xgboost"}}},
}
CHOSEN: Config = config.parse(RAW)
DECLARED = [
    {"preset": "payments"},
    {"entity": "customer", "functions": ["sum", "min", "max", "std"], "column": "amount", "windows": ["6h", "30d"]},
    {"entity": "customer", "functions": ["zscore", "ratio"], "column": "amount", "windows": ["30d"]},
    {"entity": "customer", "functions": ["seconds_since_last"], "windows": ["30d"]},
    {"entity": "customer", "functions": ["decayed_count(6h)"], "windows": ["4d"]},
    {"entity": ["customer", "terminal"], "functions": ["count"], "windows": ["7d", "30d"]},
    {"calendar": ["hour", "day_of_week", "is_month_end"]},
]
DAYS = Days(LAST - timedelta(days=buffer_days(CHOSEN)), LAST)


def world(days: Days, customers: int, terminals: int, rows_a_day: int) -> pd.DataFrame:
    """Canonical events of some days, in order of time, spread evenly; 1 % are positive."""
    rng, rows = np.random.default_rng(0), rows_a_day * len(list(days))
    times = np.sort(rng.integers(0, len(list(days)) * DAY, rows)).astype("timedelta64[us]")
    labels = pd.array(rng.random(rows) < 0.01, dtype="boolean").astype("Int8")
    return pd.DataFrame(
        {
            "event_id": np.arange(rows),
            "event_time": np.datetime64(days.first, "us") + times,
            "customer": rng.integers(0, customers, rows),
            "terminal": rng.integers(0, terminals, rows),
            "amount": rng.integers(1, 30_000, rows) / 100,
            "label": labels,
        }
    )


def incoming(events: pd.DataFrame) -> list[Event]:
    """Events as the state takes them."""
    times = events["event_time"].astype("int64").tolist()
    columns = (events[name].tolist() for name in ("customer", "terminal", "amount"))
    return [Event(*row) for row in zip(events["event_id"].tolist(), times, *columns, strict=True)]


def time_calls(work: Callable[[], Any]) -> tuple[float, float]:
    """Return the wall and CPU seconds of some work."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def send_events(store: Store, events: list[Event], size: int) -> None:
    """Send events in requests of some size, each acknowledged."""
    for start in range(0, len(events), size):
        store.take(events[start : start + size])
        store.commit()


def speed() -> None:
    """Print what an event costs, batch and online."""
    whole = world(Days(DAYS.first, LAST + timedelta(days=1)), CUSTOMERS, TERMINALS, ROWS_A_DAY)
    past = whole[whole["event_time"] <= np.datetime64(LAST + timedelta(days=1))]
    newest = whole.iloc[len(past) :]
    base, events = snapshot.in_memory(CHOSEN, DAYS, past), incoming(newest)
    rows = []
    for name, count, work in _works(past, newest, base, events):
        wall, cpu = min(time_calls(work) for _ in range(3))
        rows.append({"work": name, "wall us": wall / count * 1e6, "CPU us": cpu / count * 1e6})
    figures.publish("online", rows, "Microseconds per event, least of three runs.")


def _works(
    past: pd.DataFrame, newest: pd.DataFrame, base: Base, events: list[Event]
) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    backend, reader, whole = frames.backend("cpu"), EventParser(base.snapshot.events), pd.concat([past, newest])
    raw = newest.assign(event_time=newest["event_time"].astype(str)).to_dict("records")
    yield "batch: all days at once", len(whole), lambda: core.features(whole, CHOSEN, backend)
    yield "batch: all days, for the sake of one event", 1, lambda: core.features(whole, CHOSEN, backend)
    yield "online: reading the raw event", len(raw), lambda: [*map(reader.read, raw)]
    yield "online: its features", len(events), lambda: [*map(OnlineState(base).take, events)]
    declared = snapshot.in_memory(config.parse(RAW | {"features": DECLARED}), DAYS, past)
    inputs = len(OnlineState(declared).take(events[0])[0])
    yield f"online: {inputs} declared inputs", len(events), lambda: [*map(OnlineState(declared).take, events)]
    yield "online: embedded, 1 a request, each synced", len(events), lambda: _embedded_store(base, events, 1)
    yield "online: embedded, 32 a request, each synced", len(events), lambda: _embedded_store(base, events, 32)
    if not (shutil.which("redis-server") and find_spec("redis")):
        print("Redis is left out: redis-server or redis-py is missing", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as folder, redis.serve(Path(folder)) as url:
        yield "online: Redis, 1 a request, each synced", len(events), lambda: _shared_store(url, base, events, 1)
        yield "online: Redis, 32 a request, each synced", len(events), lambda: _shared_store(url, base, events, 32)


def _embedded_store(base: Base, events: list[Event], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Embedded(Path(folder), base)
        send_events(store, events, size)
        store.close()


def _shared_store(url: str, base: Base, events: list[Event], size: int) -> None:
    # under a name of its own, since an event that is known costs less
    store = Shared(lambda: url, f"bench-{time.time_ns()}", base)
    send_events(store, events, size)
    store.close()


def memory() -> None:
    """Print what the state of many customers and terminals takes."""
    with tempfile.TemporaryDirectory() as folder:
        uri, copies = f"{folder}/big.state", f"{folder}/copies"
        seconds, _ = time_calls(lambda: _write_snapshot(uri))
        command = [sys.executable, "-m", "benchmarks.online", "serve", uri, copies]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured = {"building, seconds": round(seconds, 1)} | json.loads(done.stdout)
    figures.publish("online-memory", [{"what": name, "value": value} for name, value in measured.items()])


def _write_snapshot(uri: str) -> None:
    events = world(DAYS, MANY_CUSTOMERS, MANY_TERMINALS, MANY_ROWS_A_DAY)
    snapshot.write(uri, *snapshot.build_snapshot(CHOSEN, DAYS, events))


def serve(uri: str, folder: str) -> dict[str, float]:
    """Map a snapshot, take a day's events in, and return bytes and seconds."""
    Path(folder).mkdir()
    before = resident()["RssAnon"]
    began = time.perf_counter()
    base = snapshot.map_file(uri, folder)
    mapped = time.perf_counter() - began
    state, manifest = OnlineState(base), base.snapshot
    rng, day = np.random.default_rng(1), MANY_ROWS_A_DAY
    times = np.sort(rng.integers(base.until, base.until + DAY, day))
    keys = [rng.integers(0, many, day) for many in (MANY_CUSTOMERS, MANY_TERMINALS)]
    # made one by one, as a server makes them: what is kept of each counts
    events = (Event(i, *map(int, row), 12.5) for i, row in enumerate(zip(times, *keys, strict=True)))
    held = resident()["RssAnon"]
    wall, cpu = time_calls(lambda: deque(map(state.take, events), maxlen=0))
    after = resident()
    return {
        "events in the snapshot": manifest.rows,
        "customers": manifest.entities["customer"],
        "terminals": manifest.entities["terminal"],
        "file, bytes": manifest.size,
        "file, bytes per event": round(manifest.size / manifest.rows, 1),
        "file, bytes per customer": round(_bytes(base, "group_0_") / manifest.entities["customer"], 1),
        "file, bytes per terminal": round(_bytes(base, "group_1") / manifest.entities["terminal"], 1),
        "mapping (copy, hash), seconds": round(mapped, 1),
        "private memory before events": held - before,
        "events that came in": day,
        "private memory of these, bytes per event": round((after["RssAnon"] - held) / day, 1),
        "pages of the file in memory, bytes": after["RssFile"],
        "microseconds per event, wall": round(wall / day * 1e6, 1),
        "microseconds per event, CPU": round(cpu / day * 1e6, 1),
    }


def _bytes(base: Base, *prefixes: str) -> int:
    arrays = base.snapshot.arrays.items()
    return sum(np.dtype(array.dtype).itemsize * array.count for name, array in arrays if name.startswith(prefixes))


def resident() -> dict[str, int]:
    """Return this process's private memory and its pages of files, in bytes."""
    status = Path("/proc/self/status").read_text()
    return {
        name: int(size) * 1024 for name, size in re.findall(r"^(RssAnon|RssFile):\s+(\d+) kB$", status, re.MULTILINE)
    }


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        print(json.dumps(serve(*sys.argv[2:])))
    else:
        (memory if sys.argv[1:] == ["memory"] else speed)()
