"""Images with reports, served: what an index of 20,000 vectors finds, and the latency of a request with both fields.

    python -m benchmarks.pairs [index] [served]

Vectors are drawn by chance, which is the hardest case for an index. The served graph is the candidate `pairs` of the
config `scans`, untrained: its weights change nothing about its time.
"""

import argparse
import json
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
from PIL import Image
from usearch.index import Index

from benchmarks import figures
from components.loadtest.server import serve
from nightshift.config import parse
from nightshift.contracts import package
from nightshift.contracts.loadtest import ServerSettings
from nightshift.contracts.package import DecisionRule
from nightshift_image_text import index, neighbors
from nightshift_image_text.config import ImageTextConfig
from nightshift_image_text.index import VectorIndex, Vectors
from nightshift_image_text.recipes import clip
from nightshift_image_text.task import candidates
from nightshift_testkit import packages
from pipelines import configs

ROWS, WIDTH, QUERIES = 20_000, 64, 1000
PAIRS = 1000  # in the indexes of the served package
REQUESTS, WARM = 300, 30
RANDOM = np.random.default_rng(0)
REPORT = "No effusion. Heart of normal size. A nodule of 4 mm in the left upper zone."


def draw_units(rows: int, width: int) -> Vectors:
    """Return vectors of unit length, (rows, width)."""
    vectors = RANDOM.normal(size=(rows, width)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def measure_index() -> list[figures.Row]:
    """Return recall and time of a search by the library's own parameters and by ours."""
    vectors, queries = draw_units(ROWS, WIDTH), draw_units(QUERIES, WIDTH)
    exact = index.find_exact(vectors, queries, index.NEAREST)
    began = time.process_time()
    content, description = index.build(vectors, queries)
    seconds = time.process_time() - began
    ours = VectorIndex(content, description)
    plain = Index(ndim=WIDTH, metric="ip", dtype="f32")
    plain.add(np.arange(ROWS), vectors)
    keys = np.atleast_2d(plain.search(queries, index.NEAREST).keys).astype(np.int64)
    return [
        {
            "parameters": "of usearch",
            "recall@10": index.measure_recall(keys, exact),
            "CPU µs a search": time_searches(lambda query: plain.search(query, index.NEAREST, threads=1), queries),
        },
        {
            "parameters": f"chosen: {description.connectivity} edges, {description.expansion_search} candidates",
            "recall@10": description.recall,
            "CPU µs a search": time_searches(lambda query: ours.search(query, index.NEAREST), queries),
            "build, CPU s": seconds,
            "MB": len(content) / 1e6,
        },
        {
            "parameters": "exact",
            "recall@10": 1.0,
            "CPU µs a search": time_searches(lambda query: index.find_exact(vectors, query, index.NEAREST), queries),
        },
    ]


def time_searches(search: Callable[[Vectors], object], queries: Vectors) -> float:
    """Return the median CPU microseconds of a search of one query: other work on the machine does not count."""
    durations = []
    for row in range(len(queries)):
        began = time.process_time()
        search(queries[row : row + 1])
        durations.append(time.process_time() - began)
    return 1e6 * float(np.median(durations))


def save_package(folder: Path) -> str:
    """Write a package of `scans` with indexes of pairs; return its folder."""
    config = parse(configs.load("scans"))
    assert isinstance(config, ImageTextConfig)
    recipe = candidates.recipe(config.task, "pairs")
    graph = clip.export(recipe.merge(recipe.model()).eval(), recipe)
    rows = pd.DataFrame({"event_id": np.arange(PAIRS).astype(str), "report": [f"{REPORT} {n}" for n in range(PAIRS)]})
    units = [draw_units(PAIRS, recipe.embedding_width) for _ in range(2)]
    files = dict(neighbors.index_pairs(rows, *units))
    manifest = packages.manifest(
        {"pairs": graph},
        signature=candidates.signature(config.task),
        preprocessing=candidates.preprocessing(config.task),
        decision=DecisionRule(threshold=None, thresholds=[0.5] * len(config.task.classes)),
        answer_files=[*files],
    )
    package.save(str(folder), manifest, {"pairs": graph}, pd.DataFrame(), files.items())
    return str(folder)


def measure_served() -> list[figures.Row]:
    """Return latencies of a lone client's requests, milliseconds."""
    buffer = BytesIO()
    Image.fromarray(RANDOM.integers(0, 256, (256, 256), dtype=np.uint8)).save(buffer, "PNG")
    fields = {"image": b64encode(buffer.getvalue()).decode(), "report": REPORT}
    shown = {"image and report": fields, **{name: {name: value} for name, value in fields.items()}}
    with (
        tempfile.TemporaryDirectory() as folder,
        serve(save_package(Path(folder)), "scans", ServerSettings()) as server,
    ):
        url = f"http://127.0.0.1:{server.port}/score"
        return [{"request": name, **time_requests(url, json.dumps(item).encode())} for name, item in shown.items()]


def time_requests(url: str, body: bytes) -> dict[str, float]:
    """Return the median and the 99th percentile of requests one after the other, milliseconds."""
    durations = []
    with httpx.Client(headers={"content-type": "application/json"}) as client:
        for _ in range(WARM + REQUESTS):
            began = time.perf_counter()
            client.post(url, content=body).raise_for_status()
            durations.append(1000 * (time.perf_counter() - began))
    p50, p99 = np.quantile(durations[WARM:], [0.5, 0.99])
    return {"p50, ms": float(p50), "p99, ms": float(p99)}


MEASURES = {"index": measure_index, "served": measure_served}


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print a table each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pairs", description=__doc__)
    parser.add_argument("measures", nargs="*", choices=[*MEASURES, []], help="what to measure (default: all)")
    for name in parser.parse_args(words).measures or MEASURES:
        for row in MEASURES[name]():
            print(json.dumps(row, ensure_ascii=False))


if __name__ == "__main__":
    main()
