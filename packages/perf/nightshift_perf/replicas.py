"""How well does a training share its work with more processes, and what keeps it from doing better?

Every process has as many rows as one alone has (weak scaling). The processes of the config's layout are the least that
share a network; more of them are replicas of it. A step is what a process computes and waits for its rows, the bubble
of a pipeline, what it waits for the slowest, and what the exchange between processes adds.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import mean
from typing import Any

from nightshift.config.neural import Trainer
from nightshift.config.section import MOST_EPOCHS
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift.runtime.errors import UserError
from nightshift_perf import bubbles, tuning
from nightshift_perf.bubbles import Orders, Piece

SMALL_BUCKETS = "small-buckets"
FAULTS = ("slow-process", "starved-loader", SMALL_BUCKETS)  # the first two are of `nightshift/models/neural/shares.py`
BUCKET_MB = 0.001  # a layer each
BATCHES = 8  # batches of an epoch of random rows
RANDOM_ROWS, RUN_ROWS = "nightshift.models.neural.shares", "nightshift_perf.run_rows"  # programs that measure


@dataclass(frozen=True)
class RunRows:
    """Rows of a run.

    Attributes:
        config: of the use case, whose networks are trained on them.
        features: URI of the table.
        date: the logical date, YYYY-MM-DD.
    """

    config: Mapping[str, Any]
    features: str
    date: str


@dataclass(frozen=True)
class ScalingSpec:
    """A training to be measured.

    Attributes:
        candidate: name of the network in the config.
        network: of the config.
        trainer: the section `task.trainer`, whole.
        device: `cpu` or `cuda`.
        rows: of a process and step.
        fault: one of `FAULTS`, or empty.
        run: whose rows are trained on; None: random ones.
    """

    candidate: str
    network: ConfiguredNetwork
    trainer: Mapping[str, Any]
    device: str
    rows: int
    fault: str = ""
    run: RunRows | None = None

    @cached_property
    def layout(self) -> Trainer:
        """How processes share the network."""
        return Trainer.parse_value(dict(self.trainer))

    @property
    def pieces(self) -> int:
        """Pieces of a batch."""
        return int(self.network.parameters["microbatches"])

    def parameter(self, name: str) -> str:
        """Return the key of a parameter in the config."""
        return f"task.candidates.{self.candidate}.parameters.{name}"

    @property
    def share(self) -> int:
        """Rows of a step in a process of the layout, of which others have the same."""
        return self.rows * self.layout.pipeline * self.layout.tensor * self.layout.context

    def request(self, processes: int) -> dict[str, Any]:
        """Return what so many processes are asked."""
        return {
            "device": self.device,
            "rows": BATCHES * self.rows * processes,
            "kind": self.network.kind,
            "shape": dict(self.network.shape),
            "parameters": self.parameters(processes),
            "trainer": {**self.trainer, **({"bucket_mb": BUCKET_MB} if self.fault == SMALL_BUCKETS else {})},
            "fault": "" if self.fault == SMALL_BUCKETS else self.fault,
        }

    def run_request(self, run: RunRows, processes: int) -> dict[str, Any]:
        """Return what so many processes are asked about a training with a run's rows."""
        request = self.request(processes)
        task = run.config["task"]
        candidate = {
            **task["candidates"][self.candidate],
            "parameters": request["parameters"] | {"epochs": MOST_EPOCHS},
        }
        candidates = {**task["candidates"], self.candidate: candidate}
        config = {**run.config, "task": {**task, "candidates": candidates, "trainer": request["trainer"]}}
        common = {name: request[name] for name in ("device", "fault")} | {"candidate": self.candidate}
        return common | {"config": json.dumps(config), "features": run.features, "date": run.date}

    def parameters(self, processes: int) -> dict[str, Any]:
        """Return the network's parameters for so many processes."""
        parameters = {**self.network.parameters, "batch_size": self.rows * processes}
        if processes == 1:
            parameters["microbatches"] = min(self.pieces, self.rows)  # fewer rows would be padded
        # a process has one core
        return {**parameters, "threads": 1} if self.device == "cpu" else parameters


@dataclass(frozen=True)
class Process:
    """Seconds of a step in a process.

    Attributes:
        loading: waiting for rows.
        computing: with nobody.
        step: with all.
        queued: in which it could compute and had no core.
        pieces: what its stages of a pipeline compute.
    """

    loading: float
    computing: float
    step: float
    queued: float = 0.0
    pieces: Sequence[Piece] = ()


@dataclass(frozen=True)
class Gradients:
    """What processes that replicate a whole network exchange.

    Attributes:
        exchange: seconds in which all are summed in one piece.
        half_exchange: seconds for half of them.
        buckets: pieces in which they are exchanged.
        bytes: of all.
    """

    exchange: float
    half_exchange: float
    buckets: int
    bytes: int


@dataclass(frozen=True)
class ScalingMeasurement:
    """A training with one number of processes.

    Attributes:
        processes: what each of them takes.
        rows: of a step, over all.
        cores: that the processes have, in turn; a GPU is one.
        pipeline: processes that share the layers, one after the other.
        gradients: None where processes do not replicate the whole network.
    """

    processes: Sequence[Process]
    rows: int
    cores: int
    pipeline: int = 1
    gradients: Gradients | None = None

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return mean(process.step for process in self.processes)

    @property
    def speed(self) -> float:
        """Rows per second."""
        return self.rows / self.step

    @property
    def loading(self) -> float:
        """Seconds of a step in which rows are waited for, in the mean."""
        return mean(process.loading for process in self.processes)

    @property
    def computing(self) -> float:
        """Seconds of a step in which a process computes, in the mean."""
        return mean(map(self._compute, self.processes))

    @property
    def bubble(self) -> float:
        """Seconds of a step in which stages wait for each other, in the mean; 0 on shared cores, which others use."""
        return 0.0 if self.shares_cores else mean(self._bubbles)

    @property
    def waiting(self) -> float:
        """Seconds of a step in which processes wait for the slowest, in the mean."""
        return max(self.paths) - mean(self.paths)

    @property
    def sharing(self) -> float:
        """Seconds of a step in which processes have to wait for a core, which others use; 0 with a core for each."""
        if not self.shares_cores:
            return 0.0
        cores = [sum(self.paths[core :: self.cores]) for core in range(self._busy_cores)]
        queued = mean(process.queued for process in self.processes)
        return min(max(max(cores) - max(self.paths), queued), self._rest)

    @property
    def exchanging(self) -> float:
        """Seconds that the exchange adds to a step: exposed communication."""
        return self._rest - self.sharing

    @property
    def shares_cores(self) -> bool:
        """Whether there are more processes than cores."""
        return len(self.processes) > self.cores

    @property
    def bubble_share(self) -> float | None:
        """Share of a replay of the pipelines in which stages wait, 0..1; None without a pipeline."""
        return mean(map(bubbles.measure_bubble, self.orders)) if self.orders else None

    @cached_property
    def orders(self) -> Sequence[Orders]:
        """What the processes of each pipeline compute."""
        if self.pipeline == 1:
            return []
        # ranks go along the pipeline last, see `AXES` of `nightshift/models/neural/mesh.py`
        pipelines = len(self.processes) // self.pipeline
        return [[process.pieces for process in self.processes[first::pipelines]] for first in range(pipelines)]

    @cached_property
    def paths(self) -> Sequence[float]:
        """Seconds that a step of each process would take without the others."""
        bubble = [0.0] * len(self.processes) if self.shares_cores else self._bubbles
        alone = (process.loading + self._compute(process) for process in self.processes)
        return [seconds + waited for seconds, waited in zip(alone, bubble, strict=True)]

    def efficiency(self, first: "ScalingMeasurement") -> float:
        """Return the speed of a core as a share of what it is in a smaller training."""
        return self.speed / self._busy_cores / (first.speed / first._busy_cores)  # noqa: SLF001 of this class

    @property
    def _busy_cores(self) -> int:
        return min(len(self.processes), self.cores)

    @cached_property
    def _bubbles(self) -> Sequence[float]:
        """Seconds of a step in which each process waits for the other stages."""
        if not self.orders:
            return [0.0] * len(self.processes)
        wholes = [bubbles.replay(orders) for orders in self.orders]
        return [
            wholes[rank % len(wholes)] - bubbles.measure_work(process.pieces)
            for rank, process in enumerate(self.processes)
        ]

    @property
    def _rest(self) -> float:
        """Seconds of a step that the slowest process does not take by itself."""
        return max(self.step - max(self.paths), 0.0)

    def _compute(self, process: Process) -> float:
        if len(self.processes) == 1:
            return process.step - process.loading
        # on shared cores it waits for the other processes; else for other programs, which make it slow
        return process.computing + (0.0 if self.shares_cores else process.queued)


@dataclass(frozen=True)
class ScalingCurve:
    """Measurements of a training, by their number of processes.

    Attributes:
        job: what was measured.
        runs: by rising numbers.
    """

    job: ScalingSpec
    runs: list[ScalingMeasurement] = field(default_factory=list)

    @property
    def first(self) -> ScalingMeasurement:
        """The one that efficiency is relative to."""
        return self.runs[0]

    @property
    def last(self) -> ScalingMeasurement:
        """The one with the most processes."""
        return self.runs[-1]


def measure_scaling(job: ScalingSpec, processes: int) -> ScalingMeasurement:
    """Train for some steps with so many processes; one has the whole network.

    Raises:
        UserError: when they cannot.
    """
    request = job.run_request(job.run, processes) if job.run else job.request(processes)
    arguments = [*tuning.launcher(processes), RUN_ROWS if job.run else RANDOM_ROWS, json.dumps(request)]
    options: dict[str, Any] = {"text": True, "env": tuning.environment(processes), "check": False}
    done = subprocess.run([sys.executable, "-m", *arguments], stdout=subprocess.PIPE, **options)
    answers = [parsed for line in done.stdout.splitlines() if (parsed := tuning.parse_answer(line))]
    answer: dict[str, Any] = answers[-1] if answers else {"refused": tuning.ENDED}
    if "refused" in answer:
        raise UserError(f"{processes} processes: {answer['refused']}")
    return ScalingMeasurement(
        processes=[_parse_process(process) for process in answer["processes"]],
        rows=answer["rows"],
        cores=tuning.count_cores() if job.device == "cpu" else processes,
        pipeline=job.layout.pipeline if processes > 1 else 1,
        gradients=Gradients(**answer["gradients"]) if answer["gradients"] else None,
    )


def _parse_process(answer: Mapping[str, Any]) -> Process:
    return Process(**{**answer, "pieces": [Piece(*piece) for piece in answer["pieces"]]})
