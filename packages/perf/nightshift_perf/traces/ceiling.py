"""How close kernels and steps come to what their GPU can do at most."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nightshift.contracts.profile import Roofline, RooflinePoint
from nightshift_perf.hardware import Gpu, gpus
from nightshift_perf.traces.trace import Trace

TOP = 20
# row of the hardware table -> what the driver calls such a GPU; PCIe cards of the same name are slower
PATTERNS = {
    "v100-32gb": "V100(?!.*PCI)",
    "t4": r"\bT4\b",
    "l4": r"\bL4\b",
    "l40s": "L40S",
    "a100-80gb": "A100-SXM.*80GB",
    "a100-40gb": "A100-(?!.*80GB)",
    "h100-80gb": "H100 80GB HBM3",
    "h200-141gb": r"H200(?!.*NVL)",
    "b200-180gb": r"\bB200\b",
}


@dataclass(frozen=True)
class KernelCounters:
    """A kernel whose operations and bytes are known, in all its calls.

    Attributes:
        name: of the kernel.
        flops: floating-point operations.
        bytes: moved to and from the GPU's memory.
        time: microseconds.
        tensor_flops: of the operations, those on tensor cores; None where they were not counted.
    """

    name: str
    flops: float
    bytes: float
    time: float
    tensor_flops: float | None = None


def find(name: str) -> Gpu | None:
    """Return a GPU by the table's name of it or the driver's; None where the table has none that is surely the same."""
    row = next((row for row, pattern in PATTERNS.items() if re.search(pattern, name)), name)
    return gpus().get(row)


def mfu(flops_per_step: float, step_ms: float, peak: float) -> float:
    """Return the model FLOPs utilization of a step in per cent (Chowdhery et al. 2022); `peak` in FLOP/s."""
    return 100 * flops_per_step / (step_ms / 1000) / peak


def products(traces: Sequence[Trace]) -> list[KernelCounters]:
    """Return the matrix kernels of operations whose shapes were recorded; an operation's kernels share its counts."""
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for trace in traces:
        rows = trace.multiplying()
        for name, product, (calls, time) in trace.by_product(rows, np.ones(len(rows)), rows["end"] - rows["start"]):
            added = (calls * product.flops, calls * product.bytes, time)
            totals[name] = [one + other for one, other in zip(totals[name], added, strict=True)]
    return [KernelCounters(name, *sums) for name, sums in totals.items()]


def roofline(device: Gpu, precision: str, counted: Sequence[KernelCounters], basis: str) -> Roofline | None:
    """Return kernels beside what their GPU can do (Williams et al. 2009); None without any kernel."""
    known = [one for one in counted if one.flops > 0 and one.bytes > 0 and one.time > 0]
    if not known:
        return None
    return Roofline(
        device=device.name,
        peak_tflops=device.peak(precision) / 1e12,
        bandwidth_gb_per_s=device.bandwidth / 1e9,
        precision=precision,
        source=f"{device.source}, as of {device.date}",
        basis=basis,
        points=[_point(one) for one in sorted(known, key=lambda one: -one.time)[:TOP]],
    )


def _point(one: KernelCounters) -> RooflinePoint:
    return RooflinePoint(
        name=one.name,
        flops_per_byte=float(f"{one.flops / one.bytes:.6g}"),  # six digits, whatever the magnitude
        tflops=float(f"{one.flops / one.time / 1e6:.6g}"),
        ms=round(one.time / 1000, 4),
    )
