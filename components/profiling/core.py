"""Train the selected model once more: first as it is, phase by phase, then with a profiler attached."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import torch

from components.profiling import instruments, sampling, traces
from nightshift.contracts.profile import Operation, Phase, PhaseName, Profile, ScoringSpeed
from nightshift.models.graph import Graph
from nightshift.models.tensors import Tensors, row_count, split_rows, take_rows
from nightshift.models.weights import identify
from nightshift.runtime.memory import peak_memory
from nightshift.tasks.base.profiling import ProfiledFit

SINGLE_CALLS = 500
MUCH_WAITING = 0.2
DOING = {
    PhaseName.READ: "reading the rows",
    PhaseName.MATRIX: "making the matrix",
    PhaseName.FIT: "the fit",
    PhaseName.EXPORT: "the export to ONNX",
    PhaseName.SCORE: "scoring the training rows",
}


@dataclass
class PhaseTimer:
    """Seconds of each phase; on the GPU a phase is an NVTX range and ends when all work handed to it is done."""

    is_cuda: bool
    seconds: dict[PhaseName, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: PhaseName) -> Iterator[None]:
        """Measure a phase."""
        started = time.perf_counter()
        with torch.cuda.nvtx.range(name) if self.is_cuda else nullcontext():
            yield
            if self.is_cuda:
                torch.cuda.synchronize()
        self.seconds[name] = time.perf_counter() - started


def measure(subject: ProfiledFit, watch: PhaseTimer, trained_sha256: str) -> tuple[Profile, bytes]:
    """Measure a model's training.

    Args:
        subject: the model.
        watch: has measured how long it took to read the rows and to make the matrix.
        trained_sha256: of the graph that the training made.

    Returns:
        the measurements, and a Chrome trace, compressed.
    """
    is_cuda = subject.device == "cuda"
    with sampling.sample_activity(sampling.library() if is_cuda else None) as activity, watch.phase(PhaseName.FIT):
        fitted = subject.fit()
    peak = _peak(subject)
    with watch.phase(PhaseName.EXPORT):
        content = fitted.graph
    graph = Graph(content)
    with watch.phase(PhaseName.SCORE):
        for batch in split_rows(subject.inputs, subject.batch_size):
            graph.score(batch)
    operations, trace = profile_fit(subject, watch)
    rows = row_count(subject.inputs)
    waiting = data_wait_share(watch.seconds)
    measurements = Profile(
        model=subject.name,
        kind=subject.kind,
        device=subject.device,
        rows=rows,
        phases=[Phase(name=name, seconds=round(seconds, 4)) for name, seconds in watch.seconds.items()],
        rows_per_second=rows / watch.seconds[PhaseName.FIT],
        data_wait_share=waiting,
        scoring=[scoring(graph, subject.inputs, 1), scoring(graph, subject.inputs, subject.batch_size)],
        activity=activity[0] if activity else None,
        peak_memory_bytes=peak,
        reproduced=identify(content) == trained_sha256,
        top_operations=operations,
        diagnosis=diagnosis(watch.seconds, operations),
        findings=traces.diagnose(trace) if is_cuda else [],
    )
    return measurements, trace


def profile_fit(subject: ProfiledFit, watch: PhaseTimer) -> tuple[list[Operation], bytes]:
    """Fit again with a profiler attached; return the operations with the largest shares, and a trace.

    PyTorch's profiler sees the GPU kernels of other libraries too; of a network it sees the first steps.
    """
    if subject.device == "cuda" or subject.is_network:
        return instruments.by_torch(subject.brief(), subject.device)
    return instruments.by_python(subject.brief(), watch.seconds)


def data_wait_share(seconds: dict[PhaseName, float]) -> float:
    """Return the share of reading, making the matrix and fitting that passes before the fit has its rows, 0..1."""
    before = seconds[PhaseName.READ] + seconds[PhaseName.MATRIX]
    return before / (before + seconds[PhaseName.FIT])


def scoring(graph: Graph, inputs: Tensors, batch: int) -> ScoringSpeed:
    """Measure calls with so many rows, after one that does not count."""
    firsts = range(0, max(row_count(inputs) - batch, 0) + 1, batch)[:SINGLE_CALLS]
    graph.score(take_rows(inputs, slice(batch)))
    started = time.perf_counter()
    rows = sum(len(graph.score(take_rows(inputs, slice(first, first + batch)))) for first in firsts)
    return ScoringSpeed(batch=batch, rows_per_second=rows / (time.perf_counter() - started))


def diagnosis(seconds: dict[PhaseName, float], operations: list[Operation]) -> str:
    """Say what the figures mean, and what would help."""
    waiting, total = data_wait_share(seconds), sum(seconds.values())
    longest = max(seconds, key=lambda name: seconds[name])
    takes = f"Of {total:.1f} s, {DOING[longest]} takes {seconds[longest] / total:.0%}"
    if waiting > MUCH_WAITING:
        return f"{takes}; the fit waits {waiting:.0%} of the time for its rows: storage nearer by would help most."
    if not operations:  # a fit on the CPU, in a run on a GPU
        return f"{takes}; no operation of it ran on the GPU."
    return f"{takes}; within the fit, {traces.shorten(operations[0].name)} takes most, {operations[0].share:.0%}."


def _peak(subject: ProfiledFit) -> int:
    """Return the highest memory use so far, in bytes."""
    if subject.device != "cuda":
        return peak_memory()
    if subject.is_network:
        return int(torch.cuda.max_memory_allocated())
    # other libraries keep in their pools what they have needed
    free, total = torch.cuda.mem_get_info()
    return int(total - free)
