"""Train the selected model once more: first as it is, phase by phase, then with a profiler attached."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from io import BytesIO

import torch

from components.common.config.tabular import CandidateKind, Tabular
from components.common.contracts.package import ModelPackage
from components.common.contracts.profile import TRACE, Finding, Operation, Phase, PhaseName, Profile, Scoring
from components.common.graph import Graph
from components.common.memory import peak_memory
from components.neural.recipes import mlp
from components.profiling import instruments, sampling
from components.profiling.traces import analysis, kineto
from components.profiling.traces.analysis import Known
from components.tabular.scaler import Matrix
from components.training import estimators
from components.training.estimators import Fitted, Job, Labels

PROFILED_STEPS = 60  # of the MLP: the trace of a whole fit would have millions of events
SINGLE_CALLS, BATCH = 500, 4096
MUCH_WAITING = 0.2
DOING = {
    PhaseName.READ: "reading the rows",
    PhaseName.MATRIX: "making the matrix",
    PhaseName.FIT: "the fit",
    PhaseName.EXPORT: "the export to ONNX",
    PhaseName.SCORE: "scoring the training rows",
}


@dataclass(frozen=True)
class Subject:
    """What is measured.

    Attributes:
        name: of the candidate.
        kind: of the candidate.
        job: its parameters and circumstances, those of the training.
        matrix: inputs of the training rows, float32 (n, d).
        labels: 0 or 1, int8 (n,).
    """

    name: str
    kind: CandidateKind
    job: Job
    matrix: Matrix
    labels: Labels

    @property
    def is_cuda(self) -> bool:
        """Whether it is trained on a GPU."""
        return self.job.device == "cuda"

    def fit(self) -> Fitted:
        """Fit it, as the training does."""
        return estimators.fit(self.kind, self.job, self.matrix, self.labels)


@dataclass
class Watch:
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


def selected(model: ModelPackage, task: Tabular, device: str, rows: tuple[Matrix, Labels]) -> Subject:
    """Return the selected candidate of a package, to be fitted as the training did.

    Args:
        model: names the candidate, its kind and its parameters.
        task: seed and threads.
        device: `cpu` or `cuda`.
        rows: inputs of the training rows, float32 (n, d), and their labels, int8 (n,).
    """
    candidate = model.candidates[model.selected]
    field = f"task.candidates.{model.selected}.parameters"
    job = Job(field, candidate.parameters, task.seed, task.threads, device)
    return Subject(model.selected, CandidateKind(candidate.kind), job, *rows)


def measure(subject: Subject, watch: Watch, trained_sha256: str) -> tuple[Profile, bytes]:
    """Measure a model's training.

    Args:
        subject: the model.
        watch: has measured how long it took to read the rows and to make the matrix.
        trained_sha256: of the graph that the training made.

    Returns:
        the measurements, and a Chrome trace, compressed.
    """
    with sampling.sampled(sampling.library() if subject.is_cuda else None) as activity, watch.phase(PhaseName.FIT):
        fitted = subject.fit()
    peak = _peak(subject)
    with watch.phase(PhaseName.EXPORT):
        content = fitted.graph
    graph = Graph(content)
    with watch.phase(PhaseName.SCORE):
        for first in range(0, len(subject.matrix), BATCH):
            graph.score(subject.matrix[first : first + BATCH])
    operations, trace = profiled(subject, watch)
    waiting = data_wait_share(watch.seconds)
    found = Profile(
        model=subject.name,
        kind=subject.kind,
        device=subject.job.device,
        rows=len(subject.matrix),
        phases=[Phase(name=name, seconds=round(seconds, 4)) for name, seconds in watch.seconds.items()],
        rows_per_second=len(subject.matrix) / watch.seconds[PhaseName.FIT],
        data_wait_share=waiting,
        scoring=[scoring(graph, subject.matrix, 1), scoring(graph, subject.matrix, BATCH)],
        activity=activity[0] if activity else None,
        peak_memory_bytes=peak,
        reproduced=hashlib.sha256(content).hexdigest() == trained_sha256,
        top_operations=operations,
        diagnosis=diagnosis(watch.seconds, operations),
        findings=findings(trace) if subject.is_cuda else [],
    )
    return found, trace


def profiled(subject: Subject, watch: Watch) -> tuple[list[Operation], bytes]:
    """Fit again with a profiler attached; return the operations with the largest shares, and a trace.

    PyTorch's profiler sees the GPU kernels of other libraries too; of an MLP it sees the first steps.
    """
    if subject.kind == CandidateKind.MLP:
        batch = mlp.parameters(subject.job.field, subject.job.parameters).batch_size
        rows, job = batch * PROFILED_STEPS, replace(subject.job, parameters={**subject.job.parameters, "epochs": 1})
        subject = replace(subject, job=job, matrix=subject.matrix[:rows], labels=subject.labels[:rows])
    if subject.is_cuda or subject.kind == CandidateKind.MLP:
        return instruments.by_torch(subject.fit, subject.job.device)
    # cProfile sees one thread only
    alone = replace(subject, job=replace(subject.job, threads=1))
    return instruments.by_python(alone.fit, watch.seconds)


def data_wait_share(seconds: dict[PhaseName, float]) -> float:
    """Return the share of reading, making the matrix and fitting that passes before the fit has its rows, 0..1."""
    before = seconds[PhaseName.READ] + seconds[PhaseName.MATRIX]
    return before / (before + seconds[PhaseName.FIT])


def scoring(graph: Graph, matrix: Matrix, batch: int) -> Scoring:
    """Measure calls with so many rows, after one that does not count."""
    firsts = range(0, max(len(matrix) - batch, 0) + 1, batch)[:SINGLE_CALLS]
    graph.score(matrix[:batch])
    started = time.perf_counter()
    rows = sum(len(graph.score(matrix[first : first + batch])) for first in firsts)
    return Scoring(batch=batch, rows_per_second=rows / (time.perf_counter() - started))


def diagnosis(seconds: dict[PhaseName, float], operations: list[Operation]) -> str:
    """Say what the figures mean, and what would help."""
    waiting, total = data_wait_share(seconds), sum(seconds.values())
    longest = max(seconds, key=lambda name: seconds[name])
    takes = f"Of {total:.1f} s, {DOING[longest]} takes {seconds[longest] / total:.0%}"
    if waiting > MUCH_WAITING:
        return f"{takes}; the fit waits {waiting:.0%} of the time for its rows: storage nearer by would help most."
    return f"{takes}; within the fit, {operations[0].name} takes most, {operations[0].share:.0%}."


def findings(trace: bytes) -> list[Finding]:
    """Say what a trace shows of the GPU; of the first steps, where the fit marks none."""
    return analysis.analyze([kineto.read(BytesIO(trace), TRACE)], Known()).diagnosis


def _peak(subject: Subject) -> int:
    """Return the highest memory use so far, in bytes."""
    if not subject.is_cuda:
        return peak_memory()
    if subject.kind == CandidateKind.MLP:
        return int(torch.cuda.max_memory_allocated())
    # other libraries keep in their pools what they have needed
    free, total = torch.cuda.mem_get_info()
    return int(total - free)
