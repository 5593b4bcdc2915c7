"""Kill an erasure where it touches files, and run it again: `python -m tests.pipelines.erasure.killing 5`."""

import json
import logging
import sys
import tempfile
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from nightshift.contracts.erasure import ErasedEntity
from nightshift.erasure import listing
from nightshift.runtime.errors import UserError
from pipelines.erasure.carrying_out import carry_out
from tests.nightly.kill_points import KillCase, hunt
from tests.pipelines.erasure.nights import Nights, rows

CLIENTS = ["ada-0001", "bob-0002", "cleo-003"]
SINCE = "2024-03-21T09:00:00Z"


def prepare(folder: Path) -> Nights:
    """A workspace after a night; an erasure has begun in it, so that every attempt is of one decision."""
    nights = Nights(folder)
    frame = rows(CLIENTS, per_day=6)
    nights.deliver(frame)
    nights.night(until="features")
    nights.answer(frame)
    (folder / "runs" / "tiny-training-1" / "note.json").write_text(json.dumps({"client": "ada-0001"}))
    subject, lake = nights.subject("ada-0001"), nights.state.lake
    salt = "0" * 32
    entry = ErasedEntity(
        role=subject.role,
        digest=listing.digest(salt, subject.role, subject.value),
        decision="d" * 16,
        erased_at=SINCE,
        complete=False,
    )
    listing.change(lake, "tiny", lambda known: known.model_copy(update={"salt": salt, "erased": [entry]}))
    return nights


def main(limit: int) -> None:
    """Print what came of it."""
    logging.disable(logging.INFO)
    with tempfile.TemporaryDirectory() as folder:
        nights = prepare(Path(folder, "workspace"))

        def body() -> None:
            with suppress(UserError):  # it was complete before it was killed
                carry_out(nights.request("ada-0001"))

        found = hunt(KillCase("erasure", nights.folder, body, limit))
    sys.stdout.write(json.dumps(asdict(found)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
