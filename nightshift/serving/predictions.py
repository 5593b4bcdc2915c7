"""The prediction log: what was answered, as Parquet files by UTC day of the answer.

`<folder>/date=<day>/<name>.parquet` has `scored_at` and `event_time` (UTC), `request_id`, `event_id` (text), `version`,
`score` (float32) and `flagged`; a request of features has no event's id and time. Labels that arrive later join by id
and time. Of images and texts a row has the `item_id` that the request gave, the `label` predicted, its `score`, and
`content`, the hash that the features table has too, and nothing of what it shows. It is written now and then, so a kill
loses what the last minute has answered; the online state loses nothing.
"""

import asyncio
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from nightshift import storage
from nightshift.errors import UnavailableError, UserError
from nightshift.serving.answers import Item, Scored
from nightshift.serving.metrics import Floats
from nightshift.step import log
from nightshift.tabular.online.event import EPOCH_DAYS, Event
from nightshift.tabular.windows import DAY

if TYPE_CHECKING:
    import pandas as pd

WRITE_SECONDS = 60.0
WRITE_ROWS = 50_000
MOST_REQUESTS = 200_000  # that are kept while they cannot be written
NS_PER_DAY = DAY * 1000


class _Row(msgspec.Struct):
    """A request in the log."""

    at: int  # nanoseconds since 1970
    request_id: str
    version: int
    threshold: float
    scores: Floats
    events: Sequence[Event]
    items: Sequence[Item]


class Predictions:
    """Takes answers in the event loop, and writes them in a thread."""

    def __init__(self, folder: str) -> None:
        """Begin with nothing to write.

        Args:
            folder: a folder or a URI.
        """
        self._folder = folder
        self._taken: list[_Row] = []
        self._size = 0  # rows of all these requests
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, "predictions")
        self._unwritten: list[_Row] = []  # of the thread

    def add(self, request_id: str, scored: Scored) -> None:
        """Take an answer in, to be written within a minute."""
        version, threshold = scored.model.pointer.version, scored.model.threshold
        row = _Row(time.time_ns(), request_id, version, threshold, scored.scores, scored.events, scored.items)
        self._taken.append(row)
        self._size += len(scored.scores)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._begin)
        if self._size >= WRITE_ROWS:
            self._begin()

    def close(self) -> None:
        """Write what is left."""
        self._begin()
        self._thread.shutdown()

    def _begin(self) -> None:
        if self._timer:
            self._timer.cancel()
        rows, self._taken, self._size, self._timer = self._taken, [], 0, None
        self._thread.submit(self._write, rows)

    def _write(self, rows: list[_Row]) -> None:
        waiting, self._unwritten = [*self._unwritten, *rows], []
        for (day, _), group in groupby(waiting, lambda row: (row.at // NS_PER_DAY, bool(row.items))):
            part = list(group)
            try:
                self._write_day(day, part)
            except (UserError, UnavailableError) as error:
                self._unwritten += part[-MOST_REQUESTS:]
                lost = len(part) - len(part[-MOST_REQUESTS:])
                log.error("%d requests are not in the prediction log, %d never will be: %s", len(part), lost, error)

    def _write_day(self, day: int, rows: list[_Row]) -> None:
        name = f"{rows[0].at}-{os.getpid()}.parquet"  # of this process only, so nothing is ever written over
        folder = f"date={date.fromordinal(EPOCH_DAYS + day)}"
        storage.write_frame(storage.join(self._folder, folder, name), _frame(rows))


def _events(row: _Row) -> Sequence[Event | None]:
    return row.events or [None] * len(row.scores)


def _frame(rows: list[_Row]) -> "pd.DataFrame":
    import pandas as pd

    sizes = [len(row.scores) for row in rows]
    scores = np.concatenate([row.scores for row in rows]).astype(np.float32)

    def each(values: Sequence[Any]) -> npt.NDArray[Any]:
        return np.repeat(np.array(values), sizes)

    frame = pd.DataFrame(
        {
            "scored_at": pd.to_datetime(each([row.at // 1000 for row in rows]), unit="us", utc=True),
            "request_id": each([row.request_id for row in rows]),
            "version": each([row.version for row in rows]),
            "score": scores,
        }
    )
    if items := [item for row in rows for item in row.items]:
        ids, labels, contents = zip(*items, strict=True)
        return frame.assign(item_id=pd.array(ids, dtype="string"), label=labels, content=contents)
    events = [event for row in rows for event in _events(row)]
    times = pd.array([event.time if event else None for event in events], dtype="Int64")
    return frame.assign(
        event_id=pd.array([str(event.event_id) if event else None for event in events], dtype="string"),
        event_time=pd.to_datetime(times, unit="us", utc=True),
        flagged=scores >= each([row.threshold for row in rows]),
    )
