"""The request log: JSON Lines by UTC day, with sizes, tokens and outcomes, without any text.

For a prompt it holds a sketch: counts of byte trigrams at its beginning, hashed into 64 buckets. Sketches allow two
samples of prompts to be compared. A prompt cannot be read from its sketch, though a short one can be guessed.
"""

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np

from nightshift.runtime.errors import UserError
from nightshift.runtime.step import log

WRITE_SECONDS = 1.0
BUCKET_BITS = 6
BUCKETS = 1 << BUCKET_BITS
MULTIPLIER = np.uint32(2_654_435_761)  # Knuth's, 2^32 over the golden ratio
INTERRUPTED = "interrupted"  # the code of an answer that did not reach its end


class RequestRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A completed request.

    Attributes:
        at: time in seconds since 1970.
        status: HTTP status.
        code: code of a refusal or an error, as in the response; empty: none.
        key: name of the API key.
        model: requested model.
        version: model version that answered.
        prompt_bytes: bytes of the prompt, in JSON.
        prompt_tokens: prompt tokens, as the engine counts them.
        completion_tokens: completion tokens, as the engine counts them.
        seconds: time from its start at the replica to its end.
        is_declined: whether the model has declined to answer.
        sketch: see `sketch_prompt`.
        request_id: X-Request-Id of the request, its client's or a new one.
        traceparent: the client's, in W3C's format; empty without one.
    """

    at: float
    status: int
    code: str = ""
    key: str = ""
    model: str = ""
    version: str = ""
    prompt_bytes: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    is_declined: bool = False
    sketch: list[int] = []
    request_id: str = ""
    traceparent: str = ""


class RequestLog:
    """Collects records in the event loop, and appends them to the day's file every second."""

    def __init__(self, folder: str) -> None:
        """Start an empty log.

        Raises:
            UserError: when the folder cannot be created.
        """
        self._folder, self._pending = Path(folder), list[RequestRecord]()
        self._timer: asyncio.TimerHandle | None = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"log is {folder!r}: {error.strerror}; give a folder that can be written") from None

    def add(self, record: RequestRecord) -> None:
        """Add a request."""
        self._pending.append(record)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self.flush)

    def flush(self) -> None:
        """Write the pending records; on a failure they are lost, and requests are still served."""
        self._timer = None
        records, self._pending = self._pending, []
        try:
            for day in sorted({find_day(record.at) for record in records}):
                lines = msgspec.json.Encoder().encode_lines([one for one in records if find_day(one.at) == day])
                with (self._folder / f"{day}.jsonl").open("ab") as file:
                    file.write(lines)
        except OSError as error:
            log.error("%d requests are not in the log: %s", len(records), error)


def find_day(at: float) -> str:
    """Return the UTC day of a time, YYYY-MM-DD."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def read_records(folder: str, day: str) -> list[RequestRecord]:
    """Return the requests of a day; none without a file.

    Raises:
        UserError: when a line is not a record.
    """
    path = Path(folder, f"{day}.jsonl")
    try:
        return msgspec.json.Decoder(RequestRecord).decode_lines(path.read_bytes()) if path.exists() else []
    except msgspec.DecodeError as error:
        raise UserError(f"{path} is not a request log of the gateway ({error}); remove its broken lines") from None


def sketch_prompt(sample: bytes) -> list[int]:
    """Return the counts of a prompt's byte trigrams in `BUCKETS` hash buckets."""
    data = np.frombuffer(sample, np.uint8).astype(np.uint32)
    trigrams = data[:-2] << 16 | data[1:-1] << 8 | data[2:]
    counts: list[int] = np.bincount(trigrams * MULTIPLIER >> (32 - BUCKET_BITS), minlength=BUCKETS).tolist()
    return counts


def now() -> float:
    """Return the time of a record."""
    return round(time.time(), 3)
