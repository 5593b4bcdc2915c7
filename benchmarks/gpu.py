"""What a GPU computes beside the CPU of the same machine, in ratios from one run.

    python -m benchmarks.gpu [features] [models] [scores] [--device cuda]

`nightshift perf tune --config resnet50 --device cuda` measures how fast a network trains.
"""

import argparse
import os
import time
from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd
import yaml
from sklearn.metrics import average_precision_score

from benchmarks import figures, networks
from benchmarks.features import ROOT, transactions
from benchmarks.timing import in_turn, wait_for_gpu
from nightshift import config
from nightshift.models.graph import PROVIDERS, Graph
from nightshift.tabular import frames
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.tabular import estimators
from nightshift.tasks.tabular.features import core

TIMES, ROUNDS = (1, 5), 3  # how often the published rows, of other customers and terminals each time
ROWS, WIDTH = 1_000_000, 15
PARAMETERS = {
    "xgboost": {"n_estimators": 200, "max_depth": 6},
    "mlp": {"epochs": 2, "batch_size": 4096},
    "logistic_regression": {},
    "random_forest": {"n_estimators": 50, "max_depth": 12},
}
BATCHES = (1, 32)
CORES = len(os.sched_getaffinity(0))


def measure_features(device: str) -> None:
    """The kernel of features over all published transactions, and over ten times as many."""
    handbook = config.parse(yaml.safe_load((ROOT / "pipelines" / "configs" / "handbook.yaml").read_text()))
    cpu, there = frames.backend("cpu"), frames.backend(device)
    lines, once = [], transactions()
    for times in TIMES:
        events = repeat_events(once, times)
        moved = there.from_host(events)
        calls = {
            "cpu": partial(core.features, events, handbook, cpu),
            "there": partial(wait_for_gpu, partial(core.features, moved, handbook, there)),
            "way": partial(from_host_and_back, events, handbook, there),
        }
        seconds = in_turn(calls, ROUNDS)
        ours, theirs = calls["cpu"](), there.to_host(calls["there"]())
        equal = all(np.array_equal(ours[name], theirs[name]) for name in core.numeric_inputs(handbook))
        ratios = {"CPU / GPU": seconds["cpu"] / seconds["there"], "with copies": seconds["cpu"] / seconds["way"]}
        times = {"CPU s": seconds["cpu"], "GPU s": seconds["there"]}
        lines.append({"rows": len(events), **times, **ratios, "bits": "equal" if equal else "differ"})
    figures.publish("gpu-features", lines)


def repeat_events(events: pd.DataFrame, times: int) -> pd.DataFrame:
    """Return events so many times, each time of other customers and terminals, in order of time."""
    copies = [
        events.assign(**{key: events[key] + 10_000_000 * i for key in ("customer", "terminal")}) for i in range(times)
    ]
    return pd.concat(copies, ignore_index=True).sort_values("event_time", kind="stable", ignore_index=True)


def from_host_and_back(events: pd.DataFrame, handbook: config.Config, backend: frames.Backend) -> None:
    """Compute features of rows that lie in the host's memory, and bring them there."""
    backend.to_host(core.features(backend.from_host(events), handbook, backend))


def measure_models(device: str) -> None:
    """Candidates of a table, fitted on random rows with rare positives."""
    (matrix, labels), (unseen, truth) = rows(0), rows(1)
    lines = []
    for kind, parameters in PARAMETERS.items():
        seconds, precisions = [], []
        for where in ("cpu", device):
            spec = FitSpec("parameters", {**parameters, **threads(kind)}, 0, CORES, where)
            estimators.fit(kind, spec, matrix[:10_000], labels[:10_000])  # libraries are loaded
            began = time.perf_counter()
            fitted = wait_for_gpu(partial(estimators.fit, kind, spec, matrix, labels))
            seconds.append(time.perf_counter() - began)
            precisions.append(average_precision_score(truth, Graph(fitted.graph, CORES).score(unseen)))
        times = {"CPU s": seconds[0], "GPU s": seconds[1], "CPU / GPU": seconds[0] / seconds[1]}
        quality = dict(zip(("average precision, CPU", "average precision, GPU"), precisions, strict=True))
        lines.append({"candidate": kind, **times, **quality})
    figures.publish("gpu-models", lines, f"Fits of {ROWS:,} rows with {WIDTH} inputs; {CORES} threads on the CPU.")


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return random inputs, and labels that depend on them; one in about thirty is positive."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    logit = matrix[:, 0] + matrix[:, 1] * matrix[:, 2] - 4.5
    return matrix, (rng.random(ROWS) < 1 / (1 + np.exp(-logit))).astype(np.int8)


def threads(kind: str) -> dict[str, int]:
    """Return the parameter that gives a network all cores; others are told otherwise."""
    return {"threads": CORES} if kind == "mlp" else {}


def measure_scores(device: str) -> None:
    """ResNet-50 and BERT-base by ONNX Runtime, as a server runs them."""
    lines = [row for network in networks.NETWORKS for row in score_rows(network(), device)]
    figures.publish("gpu-scores", lines, f"ONNX Runtime, float32, {CORES} threads on the CPU.")


def score_rows(network: networks.BenchmarkNetwork, device: str) -> Iterator[figures.Row]:
    """Yield a row of the table for each size of a call."""
    cpu, there = (Graph(network.graph, CORES, PROVIDERS[name]) for name in ("cpu", device))
    for batch in BATCHES:
        inputs = np.resize(network.sample, (batch, *network.sample.shape[1:]))
        seconds = in_turn({"cpu": partial(cpu.score, inputs), "there": partial(there.score, inputs)}, ROUNDS)
        moved = np.abs(cpu.score(inputs) - there.score(inputs)).max()
        times = {"CPU ms": 1e3 * seconds["cpu"], "GPU ms": 1e3 * seconds["there"]}
        ratio = seconds["cpu"] / seconds["there"]
        yield {"network": network.name, "rows a call": batch, **times, "CPU / GPU": ratio, "scores differ by": moved}


MEASUREMENTS = {"features": measure_features, "models": measure_models, "scores": measure_scores}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("measurements", nargs="*", default=list(MEASUREMENTS), metavar="measurement")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    arguments = parser.parse_args()
    for name in arguments.measurements:
        MEASUREMENTS[name](arguments.device)
