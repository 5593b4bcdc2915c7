"""How long the pages of `nightshift ui` take with 10,000 runs, for one reader and for fifty at once.

    RECORD=1 python -m benchmarks.ui_load [RUNS]

Each reader opens a page, then reads it for a second. The runs are records of half a year of nights; the index is built
before the server listens.
"""

import json
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from http.client import HTTPConnection
from itertools import cycle, islice
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from benchmarks import figures
from nightshift_testkit.browsers import serve_pages
from pipelines import configs

RUNS, NIGHTLY = 10_000, 60  # all, and of a night
READERS, READS, PAUSE = (1, 50), 20, 1.0  # at once; pages of each; seconds between them
PATHS = ("/home", "/runs", "/use-cases/fraud", "/unfinished")
FIRST = date(2026, 6, 1)


def write_runs(folder: Path, count: int) -> None:
    """Write the records of runs, a fiftieth of which have failed."""
    config = configs.load("fraud")
    for number in range(count):
        day = FIRST + timedelta(days=number // NIGHTLY)
        failed = {} if number % 50 else {"training": {"state": "failed", "error": "no space left"}}
        record = {"pipeline": f"training-{number % NIGHTLY}", "started": f"{day}T02:00:00+00:00", "steps": failed,
                  "parameters": {"date": str(day), "config": config}, "complete": not failed}  # fmt: skip
        run = folder / "runs" / f"fraud-{number}"
        run.mkdir(parents=True)
        (run / "run.json").write_text(json.dumps(record))


def read_pages(url: str, paths: Sequence[str]) -> list[tuple[str, float]]:
    """Open pages one after the other; return the path and the seconds of each."""
    connection, durations = HTTPConnection(urlsplit(url).netloc), []
    for path in paths:
        began = time.perf_counter()
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content
        durations.append((path, time.perf_counter() - began))
        time.sleep(PAUSE)
    connection.close()
    return durations


def measure(url: str, readers: int) -> list[figures.Row]:
    """Return a row a page, for some readers at once."""
    paths = [list(islice(cycle(PATHS), reader % len(PATHS), reader % len(PATHS) + READS)) for reader in range(readers)]
    with ThreadPoolExecutor(readers) as pool:
        durations = [one for visits in pool.map(read_pages, [url] * readers, paths) for one in visits]
    return [_summarize(path, readers, [seconds for page, seconds in durations if page == path]) for path in PATHS]


def _summarize(path: str, readers: int, seconds: Sequence[float]) -> figures.Row:
    middle, high, highest = np.quantile(seconds, [0.5, 0.95, 0.99]) * 1000
    return {"page": path, "readers": readers, "median, ms": middle, "95 %, ms": high, "99 %, ms": highest}


def main(count: int) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as folder:
        write_runs(Path(folder), count)
        time.sleep(3)  # a record that was just written is read at each look
        with serve_pages(Path(folder)) as url:
            rows = [row for readers in READERS for row in measure(url, readers)]
    figures.publish("ui-load", rows, f"{count:,} runs; each reader opens {READS} pages, with a second between them.")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else RUNS)
