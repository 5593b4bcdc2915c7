"""The table of nccl-tests: printed with our timings, and read from the output of theirs.

Their columns (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md), of out-of-place buffers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nightshift.runtime.errors import UserError

# collective -> the program of nccl-tests, in whose output and often in whose file's name it stands
TESTS = {
    "all-reduce": "all_reduce_perf",
    "all-gather": "all_gather_perf",
    "reduce-scatter": "reduce_scatter_perf",
    "all-to-all": "alltoall_perf",
    "send-receive": "sendrecv_perf",
}
REDUCING = ("all-reduce", "reduce-scatter")
ROW = re.compile(r"\s*(\d+)\s+(\d+)\s+(\w+)\s+(\w+)\s+(-?\d+)\s+([\d.e+-]+)\s+([\d.e+-]+)\s+([\d.e+-]+)(\s|$)")
TITLES = ("size", "count", "type", "redop", "root", "time", "algbw", "busbw")
UNITS = ("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)")
WIDTHS = (14, 14, 8, 8, 6, 12, 9, 9)

Key = tuple[str, int]  # a collective, and the size in bytes


@dataclass(frozen=True)
class CollectiveTiming:
    """A collective of one size.

    Attributes:
        collective: its name.
        size: of the whole buffer of a process, bytes.
        count: elements that a process sends to one other, or to all where they get the same.
        seconds: of a call.
        algorithm: the algorithm's bandwidth, bytes/s.
        bus: the bus bandwidth, bytes/s.
    """

    collective: str
    size: int
    count: int
    seconds: float
    algorithm: float
    bus: float

    @property
    def cells(self) -> list[str]:
        """The row of the table."""
        operation = "sum" if self.collective in REDUCING else "none"
        return [f"{self.size}", f"{self.count}", "float", operation, "-1", *self.speeds]

    @property
    def speeds(self) -> list[str]:
        """Time and bandwidths."""
        return [f"{1e6 * self.seconds:.2f}", f"{self.algorithm / 1e9:.3f}", f"{self.bus / 1e9:.3f}"]


def read_log(path: str) -> dict[Key, CollectiveTiming]:
    """Return what a file has that one or several programs of nccl-tests have printed.

    Raises:
        UserError: when it cannot be read, has no such table, or does not say of which collective.
    """
    try:
        text = Path(path).read_text()
    except (OSError, ValueError) as error:
        raise UserError(f"--beside {path}: {error}; give a file with the output of nccl-tests") from None
    timings = {(timing.collective, timing.size): timing for timing in _parse(path, text)}
    if not timings:
        raise UserError(
            f"--beside {path}: has no row of nccl-tests' table ({', '.join(TITLES)}); give a file with its output"
        )
    return timings


def _parse(path: str, text: str) -> Iterator[CollectiveTiming]:
    collective = _find_collective(Path(path).name)
    for line in text.splitlines():
        if not (row := ROW.match(line)):
            collective = _find_collective(line) or collective
            continue
        if not collective:
            raise UserError(
                f"--beside {path}: nothing says of which collective its table is; put the program's name, such as "
                "all_reduce_perf, into the file's name or its first line"
            )
        size, count, *_, micros, algorithm, bus = row.groups()[:-1]
        yield CollectiveTiming(
            collective, int(size), int(count), float(micros) / 1e6, float(algorithm) * 1e9, float(bus) * 1e9
        )


def _find_collective(text: str) -> str:
    """Return the collective whose program is named in a text; empty for none."""
    plain = re.sub("[_-]", "", text.lower())
    names = (name for name, test in TESTS.items() if test.removesuffix("_perf").replace("_", "") in plain)
    return next(names, "")


def header(collective: str, has_reference: bool) -> str:
    """Return the lines above a collective's rows; a reference's columns are the second ones."""
    beside = ("nccl-tests:", "", "", "") if has_reference else ()
    titles, units = (*TITLES, *(("time", "algbw", "busbw", "ours/theirs") if beside else ())), UNITS
    lines = [f"# {TESTS[collective]}"]
    lines += [align(("", *[""] * (len(TITLES) - 1), *beside))] if beside else []
    return "\n".join([*lines, f"#{align(titles)[1:]}", f"#{align((*units, *(UNITS[-3:] if beside else ())))[1:]}"])


def row(timing: CollectiveTiming, reference: Mapping[Key, CollectiveTiming]) -> str:
    """Return a row, beside a reference's of the same collective and size where it has one."""
    theirs = reference.get((timing.collective, timing.size))
    beside = [*theirs.speeds, f"{timing.bus / theirs.bus:.2f}" if theirs.bus else ""] if theirs else []
    return align([*timing.cells, *beside])


def align(cells: Iterable[str]) -> str:
    """Return cells of a row in columns."""
    widths = (*WIDTHS, *WIDTHS[-3:], 13)
    return "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=False)).rstrip()
