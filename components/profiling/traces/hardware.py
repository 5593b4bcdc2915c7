"""What GPUs can do at most, and how close kernels and steps come to it."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from components.common.contracts.profile import Roofline, RooflinePoint
from components.common.errors import UserError
from components.profiling.traces import names
from components.profiling.traces.trace import Trace, Work

TABLE = Path(__file__).with_name("hardware.yaml")
TOP = 20


@dataclass(frozen=True)
class Device:
    """A kind of GPU; `tflops` by precision and `gb_per_s` are its data sheet's."""

    name: str
    pattern: str
    tflops: dict[str, float]
    gb_per_s: float
    source: str

    def peak(self, precision: str) -> float:
        """Return what it can do at most, 10^12 floating-point operations per second.

        Raises:
            UserError: when its data sheet does not name the precision.
        """
        if precision not in self.tflops:
            known = ", ".join(self.tflops)
            raise UserError(f"--precision {precision}: the {self.name} has no such peak; give one of: {known}")
        return self.tflops[precision]


@dataclass(frozen=True)
class Counted:
    """A kernel whose operations and bytes are known, in all its calls; `time` is microseconds."""

    name: str
    flops: float
    bytes: float
    time: float


def devices() -> list[Device]:
    """Return the hardware table."""
    return [Device(**entry) for entry in yaml.safe_load(TABLE.read_text())["devices"]]


def find(name: str) -> Device | None:
    """Return the entry of a GPU by its name, such as `NVIDIA A100-SXM4-80GB`; None where the table has none."""
    return next((device for device in devices() if re.search(device.pattern, name)), None)


def mfu(flops_per_step: float, step_ms: float, peak_tflops: float) -> float:
    """Return the model FLOPs utilization of a step in per cent (Chowdhery et al. 2022, appendix B)."""
    return 100 * flops_per_step / (step_ms / 1000) / (peak_tflops * 1e12)


def products(traces: Sequence[Trace]) -> list[Counted]:
    """Return the matrix kernels of operations whose shapes were recorded; an operation's kernels share its counts."""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for trace in traces:
        for row in trace.work[trace.work["kind"] == Work.KERNEL]:
            name, counted = trace.names[row["name"]], trace.matmuls.get(int(row["operation"]))
            if counted and names.is_matrix(name):
                sums = found[name]
                sums[0], sums[1] = sums[0] + counted.flops, sums[1] + counted.bytes
                sums[2] += float(row["end"] - row["start"])
    return [Counted(name, *sums) for name, sums in found.items()]


def roofline(device: Device, precision: str, counted: Sequence[Counted], basis: str) -> Roofline | None:
    """Return kernels beside what their GPU can do (Williams et al. 2009); None without any kernel."""
    known = [one for one in counted if one.flops > 0 and one.bytes > 0 and one.time > 0]
    if not known:
        return None
    return Roofline(
        device=device.name,
        peak_tflops=device.peak(precision),
        bandwidth_gb_per_s=device.gb_per_s,
        precision=precision,
        source=device.source,
        basis=basis,
        points=[_point(one) for one in sorted(known, key=lambda one: -one.time)[:TOP]],
    )


def _point(one: Counted) -> RooflinePoint:
    return RooflinePoint(
        name=one.name,
        flops_per_byte=round(one.flops / one.bytes, 3),
        tflops=round(one.flops / one.time / 1e6, 4),
        ms=round(one.time / 1000, 4),
    )
