"""The prediction log: Parquet files by UTC day of the answer.

`<folder>/date=<day>/<name>.parquet` has `scored_at` and `event_time` (UTC), `request_id`, `event_id` (text), `version`,
`score` (float32) and `flagged`, of classes the predicted `label` too; a request of features has no event's id and time.
Labels that arrive later join by id and time. A row of an image or a text has the request's `item_id`, the predicted
`label`, its `score`, and `content`, the hash of the features table, but not the item itself. The log is written once a
minute, so a kill loses the last minute's rows; the online state loses nothing.
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
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.step import log
from nightshift.serving.answers import ScoredItem, ScoredRows
from nightshift.serving.metrics import Floats
from nightshift.tabular.online.event import EPOCH_DAYS, Event
from nightshift.tabular.windows import DAY

if TYPE_CHECKING:
    import pandas as pd

WRITE_SECONDS = 60.0
WRITE_ROWS = 50_000
MAX_REQUESTS = 200_000  # kept while they cannot be written
NS_PER_DAY = DAY * 1000


class _LoggedRequest(msgspec.Struct):
    """A request to be logged."""

    at: int  # nanoseconds since 1970
    request_id: str
    version: int
    threshold: float
    scores: Floats
    events: Sequence[Event]
    items: Sequence[ScoredItem]
    labels: Sequence[str] = ()  # of classes that were predicted


class PredictionLog:
    """Collects predictions in the event loop, and writes them in a thread."""

    def __init__(self, folder: str) -> None:
        """Begin with nothing to write.

        Args:
            folder: folder or URI of the log.
        """
        self._folder = folder
        self._pending: list[_LoggedRequest] = []
        self._size = 0  # rows of the pending requests
        self._timer: asyncio.TimerHandle | None = None
        self._thread = ThreadPoolExecutor(1, "predictions")
        self._unwritten: list[_LoggedRequest] = []  # used by the thread only

    def add(self, request_id: str, scored: ScoredRows) -> None:
        """Add the scored rows of a request; they are written within a minute."""
        version, threshold = scored.model.pointer.version, scored.model.threshold
        request = _LoggedRequest(
            time.time_ns(), request_id, version, threshold, scored.scores, scored.events, scored.items, scored.labels
        )
        self._pending.append(request)
        self._size += len(scored.scores)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._flush)
        if self._size >= WRITE_ROWS:
            self._flush()

    def close(self) -> None:
        """Write the remaining rows."""
        self._flush()
        self._thread.shutdown()

    def _flush(self) -> None:
        if self._timer:
            self._timer.cancel()
        requests, self._pending, self._size, self._timer = self._pending, [], 0, None
        self._thread.submit(self._write, requests)

    def _write(self, requests: list[_LoggedRequest]) -> None:
        unwritten, self._unwritten = [*self._unwritten, *requests], []
        for (day, _), group in groupby(unwritten, lambda request: (request.at // NS_PER_DAY, bool(request.items))):
            self._write_batch(day, list(group))

    def _write_batch(self, day: int, batch: list[_LoggedRequest]) -> None:
        """Write requests of a day; they are kept while the store fails, and one that no file can hold is left out."""
        try:
            self._write_day(day, batch)
        except (UserError, UnavailableError) as error:
            self._unwritten += batch[-MAX_REQUESTS:]
            lost = len(batch) - len(batch[-MAX_REQUESTS:])
            log.error("%d requests are not in the prediction log, %d never will be: %s", len(batch), lost, error)
        except Exception:
            if len(batch) == 1:
                log.exception("request %s will never be in the prediction log", batch[0].request_id)
                return
            for half in (batch[: len(batch) // 2], batch[len(batch) // 2 :]):
                self._write_batch(day, half)

    def _write_day(self, day: int, requests: list[_LoggedRequest]) -> None:
        name = f"{requests[0].at}-{os.getpid()}.parquet"  # unique to this process, so no file is overwritten
        folder = f"date={date.fromordinal(EPOCH_DAYS + day)}"
        storage.write_frame(storage.join(self._folder, folder, name), _build_frame(requests))


def _pad_events(request: _LoggedRequest) -> Sequence[Event | None]:
    """Return an event for each score; None for requests of features."""
    return request.events or [None] * len(request.scores)


def _build_frame(requests: list[_LoggedRequest]) -> "pd.DataFrame":
    import pandas as pd

    sizes = [len(request.scores) for request in requests]
    scores = np.concatenate([request.scores for request in requests]).astype(np.float32)

    def repeat(values: Sequence[Any]) -> npt.NDArray[Any]:
        return np.repeat(np.array(values), sizes)

    frame = pd.DataFrame(
        {
            "scored_at": pd.to_datetime(repeat([request.at // 1000 for request in requests]), unit="us", utc=True),
            "request_id": repeat([request.request_id for request in requests]),
            "version": repeat([request.version for request in requests]),
            "score": scores,
        }
    )
    if items := [item for request in requests for item in request.items]:
        ids, labels, contents = zip(*items, strict=True)
        return frame.assign(
            item_id=pd.array(ids, dtype="string"), label=pd.array(labels, dtype="string"), content=contents
        )
    if predicted := [label for request in requests for label in request.labels]:
        frame["label"] = pd.array(predicted, dtype="string")
    events = [event for request in requests for event in _pad_events(request)]
    times = pd.array([event.time if event else None for event in events], dtype="Int64")
    return frame.assign(
        event_id=pd.array([str(event.event_id) if event else None for event in events], dtype="string"),
        event_time=pd.to_datetime(times, unit="us", utc=True),
        flagged=scores >= repeat([request.threshold for request in requests]),
    )
