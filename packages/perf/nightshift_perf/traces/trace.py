"""A trace as columns: what the GPUs did, what the host did meanwhile, steps, memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from nightshift_perf.traces import names, timeline
from nightshift_perf.traces.names import Kind
from nightshift_perf.traces.steps import StepMark
from nightshift_perf.traces.timeline import Floats, Mask

Rows = npt.NDArray[np.void]


class DeviceWork(IntEnum):
    """What a GPU does."""

    KERNEL = 0
    COPY = 1
    SET = 2


class Host(IntEnum):
    """What a thread of the host does."""

    OPERATION = 0
    CALL = 1  # a call of the CUDA runtime or driver
    RANGE = 2  # annotated by the program, by PyTorch or with NVTX


# `name` is an index into `Trace.names`, `process` into `Trace.processes`; `cause` connects a call with the work it
# launched, `operation` work with the operation of PyTorch that wanted it; -1 where that is not known. `lane` is what
# the recording shows a GPU as, which two processes may use for two GPUs; `product` is an index into `Trace.products`.
# `blocks` is the blocks of a kernel's grid per multiprocessor, `occupancy` per cent as Kineto estimates it; else -1.
WORK = np.dtype(
    [("start", "f8"), ("end", "f8"), ("bytes", "f8"), ("cause", "i8"), ("operation", "i8"), ("name", "i4"),
     ("device", "i4"), ("stream", "i8"), ("kind", "i1"), ("lane", "i4"), ("process", "i4"), ("product", "i4"),
     ("blocks", "f4"), ("occupancy", "f4")]
)  # fmt: skip
HOST = np.dtype(
    [("start", "f8"), ("end", "f8"), ("cause", "i8"), ("operation", "i8"), ("thread", "i8"), ("name", "i4"),
     ("kind", "i1"), ("process", "i4")]
)  # fmt: skip
MEMORY = np.dtype([("at", "f8"), ("device", "i4"), ("allocated", "f8"), ("reserved", "f8"), ("process", "i4")])


@dataclass(frozen=True)
class Collective:
    """What NCCL says of a collective operation: elements that went in, of a type, among so many ranks."""

    name: str
    elements: int
    dtype: str
    ranks: int


@dataclass(frozen=True)
class Matmul:
    """What an operation of PyTorch multiplies.

    Attributes:
        flops: floating-point operations it takes; 0 where its shapes do not tell.
        bytes: the least it has to move; 0 as above.
        precision: of its operands, as the hardware table names it; empty where the trace does not say.
    """

    flops: float
    bytes: float
    precision: str = ""


@dataclass(frozen=True)
class Origin:
    """Where a trace comes from; what it does not say is empty or None. `process` is named where there are several."""

    source: str
    rank: int | None = None
    world_size: int | None = None
    devices: dict[int, str] = field(default_factory=dict)
    process: str = ""


@dataclass(frozen=True)
class Trace:
    """What was recorded: of all processes as it is read, of one process and device as `processes.split` returns it.

    Attributes:
        origin: where it comes from.
        names: of all that happened, each once.
        work: on GPUs, dtype `WORK`, in order of start.
        host: on threads of the host, dtype `HOST`, in order of start.
        memory: allocated and reserved bytes of GPUs over time, dtype `MEMORY`.
        steps: start and end of each step of the training, float64 (n, 2), disjoint; of one thread, or as the GPU does
            them where the host runs ahead of it.
        collectives: `cause` of a kernel -> what NCCL says of it.
        products: what operations multiply, each once.
        caveats: sentences about what could not be read.
        processes: as the recording calls them.
        marks: ranges that may be steps, in order of start.
        gpus: process -> its GPUs' names, where they differ from `origin.devices`.
        counters: device and name of what was sampled on it -> moments and values, float64 (n, 2).
    """

    origin: Origin
    names: list[str]
    work: Rows
    host: Rows
    memory: Rows
    steps: Floats
    collectives: dict[int, Collective] = field(default_factory=dict)
    products: list[Matmul] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=lambda: [""])
    marks: list[StepMark] = field(default_factory=list)
    gpus: dict[int, dict[int, str]] = field(default_factory=dict)
    counters: dict[tuple[int, str], Floats] = field(default_factory=dict)

    @property
    def window(self) -> tuple[float, float]:
        """The time that is looked at: from the first step to the last one, or all that GPUs or else the host did."""
        rows = timeline.spans(self.work if len(self.work) else self.host)
        spans = self.steps if len(self.steps) else rows
        return (float(spans[:, 0].min()), float(spans[:, 1].max())) if len(spans) else (0.0, 0.0)

    @property
    def step_times(self) -> Floats:
        """How long each step takes until the next one begins, float64 (n,)."""
        return np.diff(np.r_[self.steps[:, 0], self.steps[-1:, 1]])

    @property
    def devices(self) -> list[int]:
        """The GPUs that did something."""
        return [int(device) for device in np.unique(self.work["device"])]

    def on(self, device: int) -> Rows:
        """Return the work of a GPU."""
        mine = self.work["device"] == device
        return self.work if mine.all() else np.asarray(self.work[mine])

    def multiplying(self) -> Rows:
        """Return the kernels of operations that multiply matrices, as far as shapes or types were recorded.

        What such an operation launches beside its product, a copy say, is known by name.
        """
        kinds = [names.classify(name).kind for name in self.names]
        may_multiply = np.array([kind in (Kind.MATRIX, Kind.UNKNOWN) for kind in kinds], dtype=bool)
        rows = self.work[(self.work["kind"] == DeviceWork.KERNEL) & (self.work["product"] >= 0)]
        return np.asarray(rows[may_multiply[rows["name"]]])

    def by_product(self, rows: Rows, *weights: Floats) -> Iterator[tuple[str, Matmul, list[float]]]:
        """Return the sums of weights of each name of a kernel and each product that it computes, and these two."""
        keys, groups = np.unique(rows["name"] * np.int64(len(self.products)) + rows["product"], return_inverse=True)
        sums = np.column_stack([np.bincount(groups, weights=weight, minlength=len(keys)) for weight in weights])
        for key, row in zip(keys.tolist(), sums.tolist(), strict=True):
            name, product = divmod(key, len(self.products))
            yield self.names[name], self.products[product], row

    def match_names(self, rows: Rows, *parts: str) -> Mask:
        """Return which rows have a name with one of the parts in it, whatever the case."""
        wanted = [any(part in name.lower() for part in parts) for name in self.names]
        return np.asarray(np.array(wanted, dtype=bool)[rows["name"]] if len(rows) else np.zeros(0, dtype=bool))
