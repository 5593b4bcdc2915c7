"""Metrics of single kernels by Nsight Compute, as CSV (`ncu --csv --page raw`): a row of names, one of units, values.

No real report was at hand when this was written: the tests make one in the form that its documentation describes.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile

from nightshift.runtime.errors import UserError
from nightshift_perf.traces.ceiling import KernelCounters

TIME, BYTES, NAME = "gpu__time_duration.sum", "dram__bytes.sum", "Kernel Name"
SINGLE = "sm__sass_thread_inst_executed_op_{kind}{what}_pred_on.sum"
TENSOR_OPERATIONS = "sm__ops_path_tensor_"
TENSOR_INSTRUCTIONS = "sm__inst_executed_pipe_tensor.sum"
PER_INSTRUCTION = 512  # operations of a warp's HMMA instruction on Volta (Yang et al. 2020)
OPERATIONS = {
    SINGLE.format(kind=kind, what=what): count for kind in "hfd" for what, count in (("add", 1), ("mul", 1), ("fma", 2))
}
METRICS = (TIME, BYTES, TENSOR_INSTRUCTIONS, *OPERATIONS)
SCALES = {
    "": 1.0, "inst": 1.0, "byte": 1.0, "kbyte": 1e3, "mbyte": 1e6, "gbyte": 1e9,
    "nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6, "ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6,
}  # fmt: skip


def read(lines: Iterator[str], source: str) -> list[KernelCounters]:
    """Read a report.

    Args:
        lines: of the file; those that `ncu` prints before the table are skipped.
        source: names it in errors.

    Raises:
        UserError: when columns that are needed are missing, or a value is no number.
    """
    rows = csv.DictReader(dropwhile(lambda line: not line.startswith('"ID"'), lines))
    columns = rows.fieldnames or []
    for needed in (NAME, TIME, BYTES):
        if needed not in columns:
            raise UserError(f"{source}: no column {needed!r}; write it with: {command()}")
    units = next(rows, {})
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
    try:
        for row in rows:
            sums[row[NAME]] = [one + other for one, other in zip(sums[row[NAME]], _kernel(row, units), strict=True)]
    except (csv.Error, ValueError) as error:
        raise UserError(f"{source}: {error}; write it again with: {command()}") from None
    tells = any(name == TENSOR_INSTRUCTIONS or name.startswith(TENSOR_OPERATIONS) for name in columns)
    return [
        KernelCounters(name, flops, moved, time, tensor if tells else None)
        for name, (flops, moved, time, tensor) in sums.items()
    ]


def command(kernel: str = "", program: Sequence[str] = ("python", "train.py")) -> str:
    """Return the command that writes such a report, of one kernel or all."""
    chosen = f"--kernel-name regex:{kernel} " if kernel else ""
    metrics = ",".join(METRICS)
    return (
        f"ncu {chosen}--launch-count 20 --csv --page raw --log-file kernels.csv --metrics {metrics} {' '.join(program)}"
    )


def _kernel(row: Mapping[str, str], units: Mapping[str, str]) -> tuple[float, float, float, float]:
    """Return floating-point operations, bytes, microseconds, and operations on tensor cores of one launch."""
    flops = sum(count * _value(row, units, name) for name, count in OPERATIONS.items())
    tensor = sum(_value(row, units, name) for name in row if name and name.startswith(TENSOR_OPERATIONS))
    tensor = tensor or PER_INSTRUCTION * _value(row, units, TENSOR_INSTRUCTIONS)
    return flops + tensor, _value(row, units, BYTES), _value(row, units, TIME), tensor


def _value(row: Mapping[str, str], units: Mapping[str, str], name: str) -> float:
    text = row.get(name) or ""
    unit = (units.get(name) or "").lower()
    if text in ("", "n/a"):
        return 0.0
    if unit not in SCALES:
        raise ValueError(f"{name} is in {unit!r}; known are {', '.join(filter(None, SCALES))}")
    return float(text.replace(",", "")) * SCALES[unit]
