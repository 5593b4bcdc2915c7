"""What reasons add to a request of one row, and how many rows a night explains: models of 40 inputs, three reasons."""

import http.client
import json
import sys
import tempfile
import time
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import figures
from nightshift.contracts import package
from nightshift.contracts.preprocessing import Inputs
from nightshift.tabular.reasons import Explainer
from nightshift.tasks.fitting import FitSpec, with_reasons
from nightshift.tasks.tabular import estimators
from nightshift_testkit import packages
from nightshift_testkit.processes import started, wait_until
from nightshift_testkit.servers import free_port

INPUTS, ROWS, REQUESTS, REASONS = 40, 20_000, 1000, 3
NAMES = [f"x{number}" for number in range(INPUTS)]
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "xgboost, 100 trees of depth 3": ("xgboost", {"n_estimators": 100, "max_depth": 3}),
    "xgboost, 300 trees of depth 6": ("xgboost", {"n_estimators": 300, "max_depth": 6}),
    "logistic_regression": ("logistic_regression", {}),
    "mlp, 256 hidden": ("mlp", {"hidden": 256, "layers": 1, "epochs": 1}),
}


def main() -> None:
    """Publish the milliseconds of requests with and without reasons, and the rows that a process explains a second."""
    matrix = np.random.default_rng(0).normal(size=(ROWS, INPUTS)).astype(np.float32)
    labels = (matrix[:, :5].sum(axis=1) + matrix[:, 5] * matrix[:, 6] > 2).astype(np.int8)
    rows = []
    for name in MODELS:
        with tempfile.TemporaryDirectory() as folder:
            write(folder, name, matrix, labels)
            rows.append({"model": name} | measure_requests(folder, matrix) | measure_night(folder, matrix))
    figures.publish(
        "reasons",
        rows,
        f"{REQUESTS} requests of one row with and without reasons in turn, on one connection; busy cores.",
    )


def write(folder: str, name: str, matrix: np.ndarray, labels: np.ndarray) -> None:
    """Fit a model, and write its package."""
    kind, parameters = MODELS[name]
    fitted = with_reasons(estimators.fit(kind, FitSpec("p", parameters, 0, 2, "cpu"), matrix, labels))
    manifest = packages.manifest({"all": fitted.graph}, Inputs(numeric=NAMES, categorical={}))
    package.save(folder, manifest, {"all": fitted.graph}, pd.DataFrame(), fitted.save_files())


def measure_requests(folder: str, matrix: np.ndarray) -> dict[str, float]:
    """Return percentiles of the milliseconds of requests to a server of its own."""
    port = free_port()
    command = [sys.executable, "-m", "nightshift.serving", "--model", folder, "--port", str(port)]
    with started(command):
        wait_until(lambda: ask(http.client.HTTPConnection("127.0.0.1", port), "/healthz"), "the server answers")
        connection = http.client.HTTPConnection("127.0.0.1", port)
        paths = {"without": "/score", "with": f"/score?reasons={REASONS}"}
        seconds: dict[str, list[float]] = {name: [] for name in paths}
        for row in matrix[:REQUESTS]:
            body = json.dumps({"instances": [dict(zip(NAMES, row.tolist(), strict=True))]})
            for name, path in paths.items():
                began = time.perf_counter()
                ask(connection, path, body)
                seconds[name].append(time.perf_counter() - began)
    (p50, p99), (p50_with, p99_with) = (np.percentile(values, [50, 99]) * 1000 for values in seconds.values())
    return {
        "p50, ms": p50,
        "p50 with reasons, ms": p50_with,
        "p99, ms": p99,
        "p99 with reasons, ms": p99_with,
        "p99 added, ms": p99_with - p99,
    }


def ask(connection: http.client.HTTPConnection, path: str, body: str | None = None) -> bytes:
    """Send a request, with a body if there is one, and return the answer."""
    connection.request("POST" if body else "GET", path, body, {"content-type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == http.client.OK, content
    return content


def measure_night(folder: str, matrix: np.ndarray) -> dict[str, int]:
    """Return how many rows are explained a second, their texts included."""
    explainer = Explainer.load(folder, package.load(folder))
    began = time.perf_counter()
    explainer.explain(matrix[:REQUESTS], REASONS)
    return {"rows/s of a night": round(REQUESTS / (time.perf_counter() - began))}


if __name__ == "__main__":
    main()
