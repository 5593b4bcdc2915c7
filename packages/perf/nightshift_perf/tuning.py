"""With which settings does a network train fastest? Variants are measured beside what is there, in turn.

One axis after the other: each of its values runs in processes of its own (`neural/trial.py`) beside the best
so far, stretch by stretch in turn, and seconds per row of the one are divided by the other's. The gate of speed
(`nightshift/stats/performance.py`) says when a variant is faster and not by chance; the fastest of an axis is taken.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, NamedTuple, Self

from nightshift.config.neural import Compile, Compression, PipelineSchedule, Precision, Recompute, Trainer
from nightshift.contracts.verdict import Decision
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift.runtime.errors import UserError
from nightshift.runtime.interpreter import isolate

MOST = 120  # pairs of a comparison that stays undecided
PROCESSES = "processes"
ENDED = "it ended; what it says stands above"

Value = float | str | bool


@dataclass(frozen=True)
class Variant:
    """How a network is trained.

    Attributes:
        parameters: all of the candidate's.
        trainer: the section `task.trainer`, whole.
        processes: how many torchrun starts.
    """

    parameters: Mapping[str, Any]
    trainer: Mapping[str, Any]
    processes: int = 1

    def value(self, axis: str) -> Any:
        """Return what an axis is set to."""
        if axis == PROCESSES:
            return self.processes
        if axis in self.trainer:
            return self.trainer[axis]
        return self.parameters[axis]

    def with_value(self, axis: str, value: Value) -> "Variant":
        """Return the variant with an axis set to another value."""
        if axis == PROCESSES:
            return replace(self, processes=int(value))
        if axis in self.trainer:
            return replace(self, trainer={**self.trainer, axis: value})
        return replace(self, parameters={**self.parameters, axis: value})


@dataclass(frozen=True)
class TuningSetting:
    """What is the same for every variant.

    Attributes:
        device: `cpu` or `cuda`.
        network: what is trained.
        rows: of the data, which are drawn at random.
        axes: to go along, in this order.
        processes: numbers of them to try.
        batch_sizes: to try; another size is another training, so none is tried that was not asked for.
        cores: of this machine.
    """

    device: str
    network: ConfiguredNetwork
    rows: int
    axes: Sequence[str]
    processes: Sequence[int] = (1,)
    batch_sizes: Sequence[int] = ()
    cores: int = field(default_factory=lambda: count_cores())


def count_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0))


def check_processes(trainer: Trainer, counts: Iterable[int]) -> None:
    """Refuse numbers of processes that a layout does not divide.

    Raises:
        UserError: with the layout.
    """
    sharing = trainer.sharing
    for count in counts:
        if count % sharing:
            layout = trainer.describe_layout()
            raise UserError(
                f"--processes is {count}, and task.trainer ({layout}) has {sharing} share a network; give multiples"
            )


def _threads(now: Variant, on: TuningSetting) -> Iterable[Value]:
    return (1, max(1, on.cores // now.processes)) if on.device == "cpu" else ()


def _precisions(_: Variant, on: TuningSetting) -> Iterable[Value]:
    # processors have no fp16 arithmetic to speak of
    return [precision.value for precision in Precision if on.device == "cuda" or precision is not Precision.FP16]


def _compile_modes(now: Variant, on: TuningSetting) -> Iterable[Value]:
    has_graphs = on.device == "cuda" and now.processes == now.value("microbatches") == 1
    return [mode.value for mode in Compile if has_graphs or mode is not Compile.CUDA_GRAPHS]


def _microbatches(now: Variant, _: TuningSetting) -> Iterable[Value]:
    # more of them fill a pipeline; elsewhere they only save memory
    pieces = int(now.value("microbatches"))
    return (2 * pieces, 4 * pieces) if now.trainer["pipeline"] > 1 and now.processes > 1 else (1,)


def _schedules(now: Variant, _: TuningSetting) -> Iterable[Value]:
    # zero-bubble does without FSDP
    allowed = [one.value for one in PipelineSchedule if now.trainer["shard"] == 1 or one.value != "zero-bubble"]
    return allowed if now.trainer["pipeline"] > 1 and now.processes > 1 else ()


def _buckets(now: Variant, _: TuningSetting) -> Iterable[Value]:
    return (Trainer().bucket_mb, 4 * Trainer().bucket_mb) if _replicates(now) else ()


def _compression(now: Variant, _: TuningSetting) -> Iterable[Value]:
    # PowerSGD is another training
    return (Compression.NONE.value, Compression.BF16.value) if _replicates(now) else ()


def _replicates(now: Variant) -> bool:
    """Return whether every process has a whole network, and exchanges gradients."""
    layout = Trainer.parse_value(dict(now.trainer))
    return layout.sharing == 1 and not layout.zero and now.processes > 1


# what to try of each; images and texts are decoded by the features step, so there are no workers to try
AXES: dict[str, Callable[[Variant, TuningSetting], Iterable[Value]]] = {
    PROCESSES: lambda _, on: on.processes,
    "threads": _threads,
    "precision": _precisions,
    "channels_last": lambda _, on: (True, False) if "side" in on.network.shape else (),
    "compile": _compile_modes,
    "recompute": lambda _, __: (Recompute.NONE.value,),
    "microbatches": _microbatches,
    "schedule": _schedules,
    "bucket_mb": _buckets,
    "compression": _compression,
    "batch_size": lambda _, on: on.batch_sizes,
}


class Stretch(NamedTuple):
    """Some steps of a training: rows, seconds, and CPU seconds of all processes."""

    rows: int
    seconds: float
    cpu_seconds: float


class VariantProcess:
    """The processes that train a variant, a stretch at a time.

    Attributes:
        variant: what they train.
        flops: floating-point operations per row.
        gpu: the driver's name of it; empty on the CPU.
        arithmetic: in what it multiplies, as the hardware table names it.
        has_ended: whether they have ended before they were told to.
    """

    def __init__(self, variant: Variant, setting: TuningSetting) -> None:
        self.variant, self.setting, self.has_ended = variant, setting, False

    def __enter__(self) -> Self:
        setting = self.setting
        request = {"device": setting.device, "rows": setting.rows}
        request |= {"kind": setting.network.kind, "shape": dict(setting.network.shape)}
        request |= {"parameters": dict(self.variant.parameters), "trainer": dict(self.variant.trainer)}
        arguments = [*launcher(self.variant.processes), "nightshift.models.neural.trial", json.dumps(request)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # an interrupt ends it by the end of its input
            env=environment(self.variant.processes),
        )
        try:
            answer = self._answer()
        except UserError:
            self.__exit__()
            raise
        self.flops, self.gpu, self.arithmetic = float(answer["flops"]), str(answer["gpu"]), str(answer["arithmetic"])
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def stretch(self) -> Stretch:
        """Train for a stretch."""
        return Stretch(**self._request(""))

    def trace(self, path: str) -> None:
        """Train for a stretch under torch.profiler, whose trace is then at a path that ends with `.json.gz`."""
        self._request(path)

    def _request(self, line: str) -> dict[str, Any]:
        assert self._process.stdin
        with suppress(BrokenPipeError):  # the answer says it
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout
        answers = (parsed for line in self._process.stdout if (parsed := parse_answer(line)))
        answer = next(answers, {"refused": ENDED})
        if "refused" in answer:
            self.has_ended = True
            raise UserError(answer["refused"])
        return answer


def parse_answer(line: str) -> dict[str, Any]:
    """Return the JSON object that a line is; empty for another one, which a library or a compiler has printed."""
    try:
        answer = json.loads(line)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def environment(processes: int) -> dict[str, str]:
    """Return the environment variables of so many processes."""
    quiet = {"KINETO_LOG_LEVEL": "99"}  # the profiler's level, else it prints when it starts
    # torchrun sets it too, with a warning
    return isolate(quiet | ({"OMP_NUM_THREADS": "1"} if processes > 1 else {}) | os.environ)


def launcher(processes: int) -> list[str]:
    """Return the words between `python -m` and a module that start so many processes on this machine."""
    arguments = ["nightshift.models.neural", "--standalone", "--nproc-per-node", str(processes), "-m"]
    return arguments if processes > 1 else []


@dataclass(frozen=True)
class Speed:
    """How fast a variant is.

    Attributes:
        rows: per second.
        flops: floating-point operations per second.
        used: of what the device could do at most, 0..1: of the GPUs' peak in that precision, of the CPU's time; None
            where the hardware table has no such GPU, or no such precision of it.
    """

    rows: float
    flops: float
    used: float | None


@dataclass(frozen=True)
class VariantComparison:
    """Two variants, measured in turn.

    Attributes:
        ratios: of pairs: how many times as long the one before took per row.
        decision: of the gate of speed on the one before: it fails when that is slower.
        before: its speed.
        after: the other one's.
    """

    ratios: Sequence[float]
    decision: Decision
    before: Speed
    after: Speed

    @property
    def is_faster(self) -> bool:
        """Whether the other one is faster, and not by chance."""
        return self.decision is Decision.FAIL

    @property
    def gain(self) -> float:
        """How many more rows the other one trains in the same time, as a share."""
        return median(self.ratios) - 1


@dataclass(frozen=True)
class Tried:
    """A value of an axis: how it compares with the best before, or why nobody knows."""

    axis: str
    value: Value
    comparison: VariantComparison | None = None
    refused: str = ""

    @property
    def gain(self) -> float:
        """What it wins, 0 where it is not faster for sure."""
        return self.comparison.gain if self.comparison and self.comparison.is_faster else 0.0


@dataclass(frozen=True)
class Tuned:
    """What came of it.

    Attributes:
        best: the fastest variant.
        changes: axis -> its value there, where it differs from what was given.
        total: the given variant beside it; None where nothing is faster.
    """

    best: Variant
    changes: dict[str, Value]
    total: VariantComparison | None

    @property
    def is_faster(self) -> bool:
        """Whether the best variant is faster than the given one, and not by chance."""
        return self.total is not None and self.total.is_faster


Start = Callable[[Variant], VariantProcess]


def tune(initial: Variant, search: "Search") -> Tuned:
    """Look for the fastest variant, along one axis after the other.

    Raises:
        UserError: when the initial variant cannot run.
    """
    best = initial
    wins: dict[str, Tried] = {}
    for axis in search.setting.axes:
        winner = max(search.along(axis, best), key=lambda tried: tried.gain, default=None)
        if winner and winner.gain:
            best, wins[axis] = best.with_value(axis, winner.value), winner
    total = next((winner.comparison for winner in wins.values()), None)
    if len(wins) > 1:
        with search.start(initial) as first, search.start(best) as last:
            total = search.compare(first, last)
    return Tuned(best, {axis: winner.value for axis, winner in wins.items()}, total)


class Search:
    """Comparisons that share one rate of false alarms.

    Args:
        start: starts the processes of a variant.
        setting: what all variants share.
        report: is called with each variant that was tried.
    """

    def __init__(self, start: Start, setting: TuningSetting, report: Callable[[Tried], object]) -> None:
        self.start, self.setting, self._report = start, setting, report
        self._number = 0

    def along(self, axis: str, best: Variant) -> list[Tried]:
        """Compare each value of an axis that is worth a try with the best variant so far."""
        values = [value for value in dict.fromkeys(AXES[axis](best, self.setting)) if value != best.value(axis)]
        if not values:
            return []
        with self.start(best) as now:
            return [self._try_value(axis, value, now) for value in values]

    def compare(self, now: VariantProcess, other: VariantProcess) -> VariantComparison:
        """Measure two variants in turn until it is clear whether the other one is faster, or for `MOST` pairs.

        Every second pair begins with the other one, so that being first is no advantage. The other one is taken for
        faster, though it is not by more than the gate's tolerance, with a probability that over any number of
        comparisons adds up to the gate's.
        """
        from nightshift.stats import performance  # NumPy, which the command line does without

        self._number += 1
        alpha = performance.FALSE_ALARMS / (self._number * (self._number + 1))
        stretches: dict[VariantProcess, list[Stretch]] = {now: [], other: []}
        ratios: list[float] = []
        decision = Decision.UNDECIDED
        while decision is Decision.UNDECIDED and len(ratios) < MOST:
            for side in (now, other) if len(ratios) % 2 else (other, now):
                stretches[side].append(side.stretch())
            ratios.append(_per_row(stretches[now][-1]) / _per_row(stretches[other][-1]))
            decision = performance.decide(ratios, alpha)
        return VariantComparison(ratios, decision, speed(now, stretches[now]), speed(other, stretches[other]))

    def _try_value(self, axis: str, value: Value, now: VariantProcess) -> Tried:
        try:
            with self.start(now.variant.with_value(axis, value)) as other:
                tried = Tried(axis, value, self.compare(now, other))
        except UserError as error:
            whose = "the best so far has ended beside it: " if now.has_ended else ""
            tried = Tried(axis, value, refused=f"{whose}{error}")
        self._report(tried)
        return tried


def speed(side: VariantProcess, stretches: Sequence[Stretch]) -> Speed:
    """Return how fast a variant is, by the median of its stretches."""
    rows = 1 / median(map(_per_row, stretches))
    flops = rows * side.flops
    if not side.gpu:
        cores = side.setting.cores
        return Speed(rows, flops, median(stretch.cpu_seconds / stretch.seconds for stretch in stretches) / cores)
    from nightshift_perf.traces import ceiling  # NumPy as well

    gpu = ceiling.find(side.gpu)
    peak = gpu.peaks.get(side.arithmetic) if gpu else None
    return Speed(rows, flops, flops / (peak * side.variant.processes) if peak else None)


def _per_row(stretch: Stretch) -> float:
    return stretch.seconds / stretch.rows
