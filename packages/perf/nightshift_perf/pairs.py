"""Measures two models, or two versions of the code, in turn: each in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, Self

from nightshift.runtime.errors import UserError
from nightshift.runtime.interpreter import isolate

SHORTEST = 1e-3  # seconds of a repetition: shorter calls are repeated inside it
PAIRS, ROUNDS = 400, 5  # pairs of a kernel in a round, and rounds


class BenchmarkProcess:
    """A process that times the kernels of a model."""

    def __init__(self, model: str, code: Path | None = None) -> None:
        """Start it.

        Args:
            model: URI of the package.
            code: folder of the code to measure; this one by default.
        """
        self._model = model
        self._environment = isolate(os.environ | ({"PYTHONPATH": str(code.resolve())} if code else {}))

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.kernels", self._model],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        # on one core, both sides suffer alike from what else runs there
        os.sched_setaffinity(self._process.pid, {max(os.sched_getaffinity(0))})
        try:
            self.names: list[str] = self._answer()
        except UserError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def seconds(self, name: str, calls: int) -> float:
        """Return the CPU seconds of so many calls of a kernel."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps([name, calls]) + "\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise UserError(f"{self._model} cannot be measured; what it says stands above")
        return json.loads(line)


Start = Callable[[], BenchmarkProcess]


def compare_kernels(
    baseline: Start, current: Start, pairs: int = PAIRS, rounds: int = ROUNDS
) -> dict[str, list[float]]:
    """Measure the kernels that both sides have, in rounds with new processes, whose peculiarities so even out.

    Args:
        baseline: starts that side.
        current: starts the other.
        pairs: of a kernel, in a round.
        rounds: how many.

    Returns:
        kernel -> ratios, see `ratios`, the first of every round before the second of any.
    """
    measurements: list[dict[str, list[float]]] = []
    for _ in range(rounds):
        with baseline() as theirs, current() as ours:
            shared = [name for name in ours.names if name in theirs.names]
            measurements.append({name: list(islice(ratios(theirs, ours, name), pairs)) for name in shared})
    in_turn = {name: zip(*(one[name] for one in measurements), strict=True) for name in measurements[0]}
    return {name: list(chain.from_iterable(columns)) for name, columns in in_turn.items()}


def ratios(baseline: BenchmarkProcess, current: BenchmarkProcess, name: str) -> Iterator[float]:
    """Measure a kernel on both sides in turn; yield how many times as long each repetition took as the baseline's.

    Every second pair begins with the other side, so that being first is no advantage; each side's first does not count.
    """
    calls = max(1, round(SHORTEST / max(min(baseline.seconds(name, 1) for _ in range(5)), 1e-6)))
    for side in (baseline, current):
        side.seconds(name, calls)
    for number in count():
        sides = (baseline, current) if number % 2 else (current, baseline)
        seconds = {side: side.seconds(name, calls) for side in sides}
        yield seconds[current] / seconds[baseline]
