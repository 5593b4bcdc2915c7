"""How often the performance gate raises a false alarm, and how often it finds a kernel that has become slower.

The same model is measured against itself, in two processes, many times; a comparison takes a stretch of these pairs, so
its noise is this machine's own. For a slowdown the times of one kernel on one side are multiplied.
"""

import argparse
import os
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from nightshift.contracts import package
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.verdict import Decision
from nightshift.profiler.pairs import PAIRS, ROUNDS, BenchmarkProcess, ratios
from nightshift.stats import performance
from tests import packages

Pairs = dict[str, list[float]]


def model(folder: Path) -> str:
    """Write a perceptron with weights by chance, as the fraud use case's, and return its URI."""
    from benchmarks.serving.model import INPUTS, graph

    content, random = graph(), np.random.default_rng(0)
    rows = pd.DataFrame(random.random((4096, len(INPUTS))), columns=INPUTS).assign(label=0, score=0.5)
    manifest = packages.manifest({"mlp": content}, Inputs(numeric=INPUTS, categorical={}))
    package.save(str(folder), manifest, {"mlp": content}, rows)
    return str(folder)


def measure_pairs(uri: str, pairs: int) -> Pairs:
    """A round: pairs of a model and itself, in two new processes."""
    with BenchmarkProcess(uri) as one, BenchmarkProcess(uri) as other:
        return {name: list(islice(ratios(one, other, name), pairs)) for name in one.names}


def stretch(rounds: list[Pairs], random: np.random.Generator) -> Pairs:
    """What a comparison would have measured: as many rounds as it has, of each a stretch of pairs, in turn."""
    chosen = [rounds[number] for number in random.choice(len(rounds), ROUNDS, replace=False)]
    first = random.integers(len(next(iter(chosen[0].values()))) - PAIRS + 1)
    return {name: list(np.ravel([one[name][first : first + PAIRS] for one in chosen], order="F")) for name in chosen[0]}


def count_failures(rounds: list[Pairs], comparisons: int, slower: str = "", times: float = 1.1) -> int:
    """How many of so many comparisons fail."""
    random, hits = np.random.default_rng(0), 0
    for _ in range(comparisons):
        pairs = stretch(rounds, random)
        changed = {
            name: [times * ratio for ratio in ratios] if name == slower else ratios for name, ratios in pairs.items()
        }
        hits += performance.judge(changed, "").decision is Decision.FAIL
    return hits


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.performance", description=__doc__)
    parser.add_argument("--rounds", type=int, default=12, help="that are measured, with new processes each")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="that a round measures of each kernel")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        uri, started = model(Path(folder) / "model"), time.monotonic()
        rounds = [measure_pairs(uri, args.pairs) for _ in range(args.rounds)]
    took = time.monotonic() - started
    print(f"{args.rounds} rounds of {args.pairs} pairs of each kernel in {took:.0f} s, load {os.getloadavg()[0]:.0f}")
    alarms = count_failures(rounds, 200)
    print(f"nothing changed: {alarms} of 200 comparisons fail; stated: at most {performance.FALSE_ALARMS:.0%}")
    for name in rounds[0]:
        spread = np.std([np.median(one[name]) for one in rounds])
        print(f"{name} 10 % slower: found in {count_failures(rounds, 100, name)} of 100")
        print(f"    medians of single rounds, unchanged, vary by {spread:.1%}")


if __name__ == "__main__":
    main()
