"""How well does a training share its work with more processes, and what keeps it from doing better?

Every process has as many rows as one alone has (weak scaling). A step of all of them is what the slowest computes and
waits for its rows, and what the exchange of gradients adds to that.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from nightshift.contracts.profile import Finding
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift.runtime.errors import UserError
from nightshift_perf import tuning

SMALL_BUCKETS = "small-buckets"
FAULTS = ("slow-process", "starved-loader", SMALL_BUCKETS)  # the first two are of `nightshift/models/neural/shares.py`
BUCKET_MB = 0.001  # a layer each
LEAST = 2.0  # per cent of a step: what costs less is noise
SMALL = 1e6  # bytes of a piece
LONGER = 1.2  # times as long as all in one piece
BATCHES = 8  # batches of an epoch


@dataclass(frozen=True)
class ScalingSpec:
    """A training to be measured.

    Attributes:
        network: of the config.
        trainer: the section `task.trainer`, whole.
        device: `cpu` or `cuda`.
        rows: of a process and step.
        fault: one of `FAULTS`, or empty.
    """

    network: ConfiguredNetwork
    trainer: Mapping[str, Any]
    device: str
    rows: int
    fault: str = ""

    def request(self, processes: int) -> dict[str, Any]:
        """Return what so many processes are asked."""
        parameters = {**self.network.parameters, "batch_size": self.rows * processes}
        small = {"bucket_mb": BUCKET_MB} if self.fault == SMALL_BUCKETS else {}
        return {
            "device": self.device,
            "rows": BATCHES * self.rows * processes,
            "kind": self.network.kind,
            "shape": dict(self.network.shape),
            # a process has one core
            "parameters": {**parameters, "threads": 1} if self.device == "cpu" else parameters,
            "trainer": {**self.trainer, **small},
            "fault": "" if self.fault == SMALL_BUCKETS else self.fault,
        }


@dataclass(frozen=True)
class Process:
    """Seconds of a process: waiting for rows, computing with nobody, and a step with all."""

    data: float
    computing: float
    step: float

    @property
    def own(self) -> float:
        """Without the others."""
        return self.data + self.computing


@dataclass(frozen=True)
class ScalingMeasurement:
    """A training with one number of processes.

    Attributes:
        processes: what each of them takes.
        exchange: seconds in which all gradients are summed in one piece.
        pieces: in how many they are.
        size: of the gradients, bytes.
        rows: of a step, over all.
    """

    processes: Sequence[Process]
    exchange: float
    pieces: int
    size: int
    rows: int

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return mean(process.step for process in self.processes)

    @property
    def speed(self) -> float:
        """Rows per second."""
        return self.rows / self.step

    @property
    def data(self) -> float:
        """Seconds of a step in which rows are waited for."""
        return mean(process.data for process in self.processes)

    @property
    def computing(self) -> float:
        """Seconds of a step in which a process computes, in the mean."""
        return mean(process.computing for process in self.processes)

    @property
    def waiting(self) -> float:
        """Seconds of a step in which processes wait for the slowest, in the mean."""
        return max(process.own for process in self.processes) - mean(process.own for process in self.processes)

    @property
    def exchanging(self) -> float:
        """Seconds that the exchange adds to a step of the slowest: exposed communication."""
        return max(self.step - max(process.own for process in self.processes), 0.0)

    def finding(self, title: str, lost: float, evidence: str, fix: str) -> Finding:
        """Return a finding about so many seconds of a step."""
        ms, percent = round(1e3 * lost, 3), round(100 * lost / self.step, 2)
        return Finding(title=title, won_ms=ms, won_pct=percent, evidence=evidence, fix=fix)

    def efficiency(self, first: "ScalingMeasurement") -> float:
        """Return the speed of a process as a share of what it is in a smaller training."""
        return self.speed / len(self.processes) / (first.speed / len(first.processes))


def measure_scaling(job: ScalingSpec, processes: int) -> ScalingMeasurement:
    """Train for some steps with so many processes.

    Raises:
        UserError: when they cannot.
    """
    arguments = [*tuning.launcher(processes), "nightshift.models.neural.shares", json.dumps(job.request(processes))]
    options: dict[str, Any] = {"text": True, "env": tuning.environment(processes), "check": False}
    done = subprocess.run([sys.executable, "-m", *arguments], stdout=subprocess.PIPE, **options)
    answers = [parsed for line in done.stdout.splitlines() if (parsed := tuning.parse_answer(line))]
    answer: dict[str, Any] = answers[-1] if answers else {"refused": tuning.ENDED}
    if "refused" in answer:
        raise UserError(f"{processes} processes: {answer['refused']}")
    timed = [Process(*timings) for timings in answer["processes"]]
    return ScalingMeasurement(timed, answer["exchange"], answer["pieces"], answer["bytes"], answer["rows"])


def diagnose_scaling(alone: ScalingMeasurement, measurement: ScalingMeasurement) -> list[Finding]:
    """Return what keeps the processes from scaling, what would win most first; `alone` is one process."""
    findings = [_data(measurement), _straggler(measurement), _exchange(measurement), _contention(alone, measurement)]
    lost = [finding for finding in findings if (finding.won_pct or 0.0) >= LEAST]
    return sorted(lost, key=lambda finding: -(finding.won_ms or 0.0))


def _data(measurement: ScalingMeasurement) -> Finding:
    evidence = "In this time processes wait for rows and compute nothing."
    fix = "Put the data nearer by, keep it decoded (the features step does), or compute more on each row."
    return measurement.finding("The data loader", measurement.data, evidence, fix)


def _straggler(measurement: ScalingMeasurement) -> Finding:
    owns = [process.own for process in measurement.processes]
    evidence = f"Process {owns.index(max(owns))} takes {max(owns) / mean(owns) - 1:.0%} longer than the mean."
    fix = "Look at what else runs on its core or GPU and at its clocks; give every process the same work."
    return measurement.finding("A straggler", measurement.waiting, evidence, fix)


def _exchange(measurement: ScalingMeasurement) -> Finding:
    as_one = f"{measurement.size / 1e6:,.2f} MB of gradients take {1e3 * measurement.exchange:,.1f} ms in one piece"
    evidence = f"{as_one}; they go in {measurement.pieces}."
    if (
        measurement.pieces > 1
        and measurement.size < SMALL * measurement.pieces
        and measurement.exchanging > LONGER * measurement.exchange
    ):
        fix = "Raise task.trainer.bucket_mb."
        return measurement.finding("Gradients in small pieces", measurement.exchanging, evidence, fix)
    fix = "Send less: task.trainer.compression: bf16, more rows of a process, or fewer exchanges by microbatches."
    return measurement.finding("Exposed communication", measurement.exchanging, evidence, fix)


def _contention(alone: ScalingMeasurement, measurement: ScalingMeasurement) -> Finding:
    longer = max(measurement.computing - measurement.waiting - alone.computing, 0.0)
    evidence = "A process computes longer than one does alone: they share memory, caches or power."
    fix = "Try precision: bf16, which moves half as much, or fewer processes with more threads."
    return measurement.finding("Processes that slow each other down", longer, evidence, fix)
