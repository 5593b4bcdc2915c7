"""Which kernels multiply matrices, and whether on tensor cores: what is known, by what, and what is not known."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from nightshift_perf.hardware import Gpu
from nightshift_perf.traces import communication, names
from nightshift_perf.traces.ceiling import KernelCounters
from nightshift_perf.traces.names import LOW, Kind
from nightshift_perf.traces.trace import DeviceWork, Rows, Trace

FULL = ("fp32", "fp64")


class Basis(StrEnum):
    """What a verdict rests on, the first that tells decides."""

    RATE = "achieved FLOP/s"
    NAME = "name"
    OPERANDS = "types of operands"
    COUNTERS = "counters"


@dataclass(frozen=True)
class KernelVerdict:
    """What is known of a kernel; None where nothing tells."""

    kind: Kind
    tensor_cores: bool | None = None
    precision: str | None = None
    basis: Basis | None = None


Verdicts = Mapping[str, KernelVerdict]


@dataclass
class Sums:
    """Microseconds of kernels that compute.

    Attributes:
        on: matrix products on tensor cores.
        off: matrix products elsewhere.
        full: of `off`, those in full precision, which a narrower one would move to tensor cores.
        unknown: kernels that nobody knows, and matrix products of which nothing tells where they run.
        whole: all that compute.
        bases: of `on` and `off`, by what tells it.
    """

    on: float = 0.0
    off: float = 0.0
    full: float = 0.0
    unknown: float = 0.0
    whole: float = 0.0
    bases: dict[Basis, float] = field(default_factory=lambda: defaultdict(float))


@dataclass
class _Products:
    """What the operations say that launched a kernel: operations, microseconds, precisions by microseconds."""

    flops: float = 0.0
    time: float = 0.0
    precisions: dict[str, float] = field(default_factory=lambda: defaultdict(float))


def judge(traces: Sequence[Trace], device: Gpu | None = None, counted: Sequence[KernelCounters] = ()) -> Verdicts:
    """Return what is known of each kernel by name.

    Args:
        traces: in which they ran.
        device: on which they ran; without its peaks achieved FLOP/s tell nothing.
        counted: kernels as Nsight Compute measured them.
    """
    ordinary = device.peaks.get("fp32") if device else None  # ordinary cores' peak: only tensor cores are faster
    launched = _sum_products(traces)
    counters = {names.short(one.name): one.tensor_flops for one in counted}
    listed = {name for trace in traces for name in trace.names}
    return {name: _verdict(name, launched.get(name), counters.get(names.short(name)), ordinary) for name in listed}


def _verdict(
    name: str, products: _Products | None, tensor_flops: float | None, ordinary: float | None
) -> KernelVerdict:
    kernel_class = names.classify(name)
    kind = Kind.MATRIX if kernel_class.kind is Kind.UNKNOWN and (products or tensor_flops) else kernel_class.kind
    if kind is not Kind.MATRIX:
        return KernelVerdict(kind)
    operands = (
        max(products.precisions, key=products.precisions.__getitem__) if products and products.precisions else None
    )
    precision = kernel_class.precision or operands
    if products and ordinary and 1e6 * products.flops > ordinary * products.time:
        return KernelVerdict(kind, True, precision, Basis.RATE)
    if kernel_class.tensor_cores is not None:
        return KernelVerdict(kind, kernel_class.tensor_cores, precision, Basis.NAME)
    if operands in LOW:
        return KernelVerdict(kind, True, precision, Basis.OPERANDS)
    if tensor_flops is not None:
        return KernelVerdict(kind, tensor_flops > 0, precision, Basis.COUNTERS)
    return KernelVerdict(kind, None, precision)


def _sum_products(traces: Sequence[Trace]) -> dict[str, _Products]:
    """Return what the operations of matrix products say about the kernels that they launched.

    An operation's floating-point operations are spread over its kernels by their times, so that two kernels of one
    operation do not count them twice.
    """
    products: dict[str, _Products] = defaultdict(_Products)
    for trace in traces:
        rows = trace.multiplying()
        times = rows["end"] - rows["start"]
        _, operations = np.unique(rows["operation"], return_inverse=True)
        shares = times / np.maximum(np.bincount(operations, weights=times), 1e-9)[operations]
        for name, product, (time, share) in trace.by_product(rows, times, shares):
            one = products[name]
            if product.flops:
                one.flops += product.flops * share
                one.time += time
            if product.precision:
                one.precisions[product.precision] += time
    return products


def _sums(keys: Rows, times: Rows) -> tuple[list[int], list[float]]:
    unique, groups = np.unique(keys, return_inverse=True)
    return unique.tolist(), np.bincount(groups, weights=times, minlength=len(unique)).tolist()


def add_up(traces: Sequence[Trace], verdicts: Verdicts) -> Sums:
    """Return how long kernels multiply matrices on tensor cores, elsewhere, and how long nobody knows."""
    sums = Sums()
    for trace in traces:
        rows = trace.work[trace.work["kind"] == DeviceWork.KERNEL]
        rows = rows[~communication.communicates(trace, rows)]
        indices, times = _sums(rows["name"], rows["end"] - rows["start"])
        for index, time in zip(indices, times, strict=True):
            _add(sums, verdicts[trace.names[index]], time)
    return sums


def _add(sums: Sums, verdict: KernelVerdict, time: float) -> None:
    sums.whole += time
    if verdict.kind is Kind.UNKNOWN or (verdict.kind is Kind.MATRIX and verdict.tensor_cores is None):
        sums.unknown += time
    elif verdict.kind is Kind.MATRIX and verdict.basis:
        sums.bases[verdict.basis] += time
        sums.on, sums.off = (sums.on + time, sums.off) if verdict.tensor_cores else (sums.on, sums.off + time)
        sums.full += time if not verdict.tensor_cores and verdict.precision in FULL else 0.0
