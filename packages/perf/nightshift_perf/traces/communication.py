"""Which kernels move data between ranks: by name, by what NCCL says of them, by operation, by stream."""

import re

import numpy as np

from nightshift_perf.traces import names
from nightshift_perf.traces.names import Kind
from nightshift_perf.traces.timeline import Mask
from nightshift_perf.traces.trace import DeviceWork, Rows, Trace

# operations of PyTorch that communicate; what else they launch, such as copies, is known by name
OPERATION = re.compile(
    r"record_param_comms|(c10d|_c10d_functional|symm_mem|deep_ep|oneccl|torch_ccl)::|[nxrg]ccl:|"
    r"(vllm|sglang|aiter)::\w*(all_reduce|all_gather|reduce_scatter)",
    re.IGNORECASE,
)

DEDICATED = 10  # times as long as it computes: a stream of communication, and not one that a fast collective shares


def communicates(trace: Trace, rows: Rows) -> Mask:
    """Return which rows of work move data between ranks.

    A kernel whose name nobody knows does when NCCL's metadata or the operation that launched it says so, or when its
    stream does little else.
    """
    kinds = [names.classify(name).kind for name in trace.names]
    is_kernel = rows["kind"] == DeviceWork.KERNEL
    known, doubtful = (
        is_kernel & np.array([kernel_kind is kind for kernel_kind in kinds], dtype=bool)[rows["name"]]
        for kind in (Kind.COMMUNICATION, Kind.UNKNOWN)
    )
    if doubtful.any():
        launched = np.isin(rows["cause"], list(trace.collectives)) | np.isin(rows["operation"], _operations(trace))
        known = known | doubtful & (launched | _on_its_streams(rows, known, is_kernel & ~known & ~doubtful))
    return np.asarray(known, dtype=np.bool_)


def _operations(trace: Trace) -> list[int]:
    talks = np.array([OPERATION.match(name) is not None for name in trace.names], dtype=bool)
    operations = trace.host["operation"][talks[trace.host["name"]]] if len(trace.host) else trace.host["operation"]
    return [int(one) for one in np.unique(operations) if one >= 0]


def _on_its_streams(rows: Rows, talks: Mask, computes: Mask) -> Mask:
    """Return which rows are on streams that do little else, as far as names tell."""
    _, streams = np.unique(rows[["process", "device", "stream"]], return_inverse=True)
    times = rows["end"] - rows["start"]
    talking, computing = (np.bincount(streams, weights=times * mask) for mask in (talks, computes))
    return np.asarray((talking > DEDICATED * computing)[streams])
