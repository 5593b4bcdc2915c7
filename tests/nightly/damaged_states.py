"""Damage each file of an online state in every way, and start: what was acknowledged is there, or it is refused.

`python -m tests.nightly.damaged_states` prints a row a file and damage: of how many states all acknowledged events were
there, how many were refused with the file's name and the next step, and how many lost any in silence. A refused one is
then repaired: what can be read is there, and every file that was damaged is kept.
"""

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import figures
from nightshift.runtime.errors import UserError
from nightshift.tabular.online import snapshot
from nightshift.tabular.online.embedded import Embedded
from nightshift.tabular.online.repair import repair
from nightshift.tabular.online.state import Label
from nightshift.tabular.windows import DAY
from tests.nightshift.tabular.online.streams import Labeled, config, event, written

DECLARED = (
    {"entity": ["customer", "terminal"], "functions": ["count", "seconds_since_last"], "windows": ["6h"]},
    {"entity": "customer", "functions": ["max", "zscore"], "column": "amount", "windows": ["2d"]},
    {"entity": "customer", "functions": ["distinct"], "column": "terminal", "windows": ["last 5 of 2d"]},
)
CHOSEN, PAST, EVENTS, COMMIT = config(declared=DECLARED), 4, 200, 8
OUTCOMES = ("all there", "refused", "LOST")


class SavedEvents:
    """A state of 200 acknowledged events over its second snapshot, and what it was like before.

    Attributes:
        folder: as it was closed.
        older: as it was after half of the commits over the second snapshot.
        oldest: as it was over the first.
    """

    def __init__(self, root: Path) -> None:
        rng = random.Random(0)
        times = sorted(rng.randrange((PAST + 1) * DAY, (PAST + 3) * DAY) for _ in range(EVENTS))
        rows = [(time, rng.randrange(9), rng.randrange(9), rng.randrange(10**4), None) for time in times]
        self.events = [event(row, number, CHOSEN) for number, row in enumerate(rows)]
        self.root, self.folder, self.older, self.oldest = root, root / "state", root / "older", root / "oldest"
        self.uris = [written([], CHOSEN, days, str(root)) for days in (PAST, PAST + 1)]
        store = self._open(self.folder, 0)
        self._send(store, self.events[:40])
        shutil.copytree(self.folder, self.oldest)
        store.swap(snapshot.map_file(self.uris[1], str(self.folder)))
        self._send(store, self.events[40:120])
        shutil.copytree(self.folder, self.older)
        self._send(store, self.events[120:])
        store.close()

    def outcome(self, folder: Path) -> str:
        """Start over a folder; return what became of the events."""
        try:
            store = self._open(folder, 1)
        except UserError as error:
            assert str(folder) in str(error) and "nightshift repair" in str(error), error
            return "refused"
        missing = self._missing(store)
        store.close()
        return "LOST" if missing else "all there"

    def repair(self, before: Path) -> int:
        """Repair a folder; return how many events are there then. Each file that it had is kept."""
        had = sorted(path.read_bytes() for path in before.iterdir() if path.suffix != ".state" and path.stat().st_size)
        repaired = repair(before)
        kept = [path.read_bytes() for path in before.glob("*.damaged-*")]
        assert all(content in kept for content in had), "a damaged file is not kept"
        store = self._open(before, 1)
        there = len(self.events) - len(self._missing(store))
        store.close()
        assert there == len(repaired.records)
        return there

    def _open(self, folder: Path, number: int) -> Embedded:
        return Embedded(folder, snapshot.map_file(self.uris[number], str(folder)))

    def _missing(self, store: Embedded) -> list[Labeled]:
        return [event for event in self.events if not store.label(Label(event.event_id, event.time, 0))]

    def _send(self, store: Embedded, events: list[Labeled]) -> None:
        for start in range(0, len(events), COMMIT):
            store.take(events[start : start + COMMIT])
            store.commit()


def damages(
    state: SavedEvents, positions: int, rng: random.Random
) -> Iterator[tuple[str, str, Callable[[Path], object]]]:
    """Yield each file, what is done to it, and what does it to the file of that name in a folder."""
    for path in sorted(state.folder.iterdir()):
        content = path.read_bytes()
        size = len(content.rstrip(b"\0 \n"))
        yield path.name, "deleted", Path.unlink
        yield path.name, "emptied", lambda file: file.write_bytes(b"")
        yield path.name, "filled with zeros", lambda file: file.write_bytes(bytes(file.stat().st_size))
        ends = [at + 1 for at in range(size) if content[at : at + 1] == b"\n"]  # ends of commits
        cuts = [*rng.sample(range(size), min(size, positions)), *rng.sample(ends, min(len(ends), positions))]
        for cut in cuts:
            yield path.name, "truncated", lambda file, cut=cut: file.write_bytes(file.read_bytes()[:cut])
        # the last commit too, and the zeros behind it
        bits = [
            *rng.sample(range(8 * size), min(8 * size, positions)),
            *range(8 * max(0, size - positions // 4), 8 * size, 7),
        ]
        for bit in [*bits, *([8 * len(content) - 5] if size else [])]:
            yield path.name, "bit flipped", lambda file, bit=bit: file.write_bytes(_flip(file.read_bytes(), bit))
        for before in (state.older, state.oldest):
            if (before / path.name).exists():
                yield path.name, "an older one", lambda file, old=before: shutil.copyfile(old / file.name, file)
    log, end = next(state.oldest.glob("*.log")), len((state.folder / "2.log").read_bytes().rstrip(b"\0"))

    def flipped_late(file: Path, bit: int) -> None:
        file.write_bytes(_flip(file.read_bytes(), bit))
        shutil.copyfile(state.older / "mark", file.with_name("mark"))

    # a power loss has left an older mark: the log's last commit has to speak for itself
    for bit in rng.sample(range(8 * (end - 400), 8 * end), 2 * positions):
        yield "2.log", "bit flipped, mark older", lambda file, bit=bit: flipped_late(file, bit)
    yield "2.log", "of a snapshot before", lambda file: shutil.copyfile(log, file)
    yield "2.log", "a commit gone", lambda file: file.write_bytes(_without_line(file.read_bytes(), 7))
    yield "2.log", "commits swapped", lambda file: file.write_bytes(_swapped_lines(file.read_bytes(), 7, 8))


def _flip(content: bytes, bit: int) -> bytes:
    flipped = bytearray(content)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped)


def _without_line(content: bytes, number: int) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join([*lines[:number], *lines[number + 1 :]])


def _swapped_lines(content: bytes, one: int, other: int) -> bytes:
    lines = content.splitlines(keepends=True)
    lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def hunt(positions: int) -> tuple[dict[tuple[str, str], Counter[str]], list[int]]:
    """Damage a state at so many places of each file.

    Returns:
        file and damage -> outcome -> states; and of the refused ones, how many of the 200 events a repair found.
    """
    outcomes: dict[tuple[str, str], Counter[str]] = {}
    repairs = []
    with tempfile.TemporaryDirectory() as root:
        state = SavedEvents(Path(root))
        for number, (name, damage, work) in enumerate(damages(state, positions, random.Random(1))):
            folder = Path(root, str(number))
            shutil.copytree(state.folder, folder)
            work(folder / name)
            outcome = state.outcome(folder)
            label = "<snapshot>.state" if name.endswith(".state") else name
            outcomes.setdefault((label, damage), Counter())[outcome] += 1
            if outcome == "refused":
                repairs.append(state.repair(folder))
            shutil.rmtree(folder)
    return outcomes, repairs


def main() -> None:
    """Print what became of each damage, and exit with 1 when anything was lost in silence."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.damaged_states", description=__doc__)
    parser.add_argument(
        "--places", type=int, default=40, help="positions per file at which to cut it and to flip a bit"
    )
    outcomes, repairs = hunt(parser.parse_args().places)
    rows = [
        {"file": name, "damage": damage, "states": counts.total()} | {outcome: counts[outcome] for outcome in OUTCOMES}
        for (name, damage), counts in outcomes.items()
    ]
    total = sum(outcomes.values(), Counter[str]())
    whole = sum(count == EVENTS for count in repairs)
    note = f"{total.total()} states of {EVENTS} acknowledged events: " + ", ".join(f"{total[o]} {o}" for o in OUTCOMES)
    figures.publish("damaged-states", rows, f"{note}; {len(repairs)} repaired, {whole} of these with all events.")
    sys.exit(bool(total["LOST"]))


if __name__ == "__main__":
    main()
