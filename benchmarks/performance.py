"""How often the performance gate raises a false alarm, and how often it finds a kernel that has become slower.

The same model is measured against itself, in two processes, many times; a comparison takes a stretch of these pairs, so
its noise is this machine's own. For a slowdown the times of one kernel on one side are multiplied.
"""

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import figures
from nightshift.contracts import package
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.verdict import Decision
from nightshift.stats import performance
from nightshift_perf.pairs import PAIRS, ROUNDS, BenchmarkProcess, ratios
from nightshift_testkit import packages

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
    parser.add_argument("--rounds", type=int, default=12, help="rounds to measure, each in new processes")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs to measure per kernel and round")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        uri, started = model(Path(folder) / "model"), time.monotonic()
        rounds = [measure_pairs(uri, args.pairs) for _ in range(args.rounds)]
    took = time.monotonic() - started
    spreads = {name: np.std([np.median(one[name]) for one in rounds]) for name in rounds[0]}
    lines = [{"change": "none", "comparisons": 200, "fail": count_failures(rounds, 200)}] + [
        {"change": f"{name} 10 % slower", "comparisons": 100, "fail": count_failures(rounds, 100, name)}
        for name in spreads
    ]
    note = (
        f"{args.rounds} rounds of {args.pairs} pairs of each kernel in {took:.0f} s; stated: at most "
        f"{performance.FALSE_ALARMS:.0%} false alarms. Medians of single rounds, unchanged, vary by "
        f"{min(spreads.values()):.1%} to {max(spreads.values()):.1%}."
    )
    figures.publish("performance-gate", lines, note)


if __name__ == "__main__":
    main()
