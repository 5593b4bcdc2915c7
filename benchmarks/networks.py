"""ResNet-50 at 224 pixels and BERT-base at 128 tokens, with weights by chance: other forms of them, and served.

    python -m benchmarks.networks [forms] [served] [triton] [loader]

Forms and servers are asked in turn, a row a call, and each ratio is of medians of the same run. What a form does to the
accuracy depends on the weights, so the step `optimization` judges it; here stands by how much probabilities move. Our
server and the real Triton score the same INT8 package.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from benchmarks import figures
from benchmarks.timing import in_turn
from components.optimization import forms
from components.optimization.forms import Form
from nightshift.config import parse
from nightshift.config.images import ImageTaskConfig
from nightshift.config.texts import TextTaskConfig
from nightshift.contracts import package
from nightshift.contracts.package import OUTPUT, DecisionRule, ModelPackage
from nightshift.items import images
from nightshift.items.shards import Shards
from nightshift.models.graph import Graph
from nightshift.models.tensors import by_name
from nightshift.serving.items.loader import load_schema
from nightshift.serving.triton.config import TritonSettings
from nightshift.serving.triton.repository import PublishRequest, publish
from nightshift.tasks import onnx_export
from nightshift.tasks.classification.kinds import candidates
from nightshift.tasks.images import candidates as training
from nightshift.tasks.texts import candidates as texts
from nightshift.tasks.texts import onnx_export as texts_export
from nightshift_testkit import packages, triton
from nightshift_testkit.processes import wait_until
from nightshift_testkit.servers import free_port
from pipelines import configs

ROUNDS, SAMPLE = 20, 16
FILES, BATCH = 256, 32
WORDS = "the night shift trains a model on what came in during the day and tells in the morning how good it is "

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BenchmarkNetwork:
    """A shipped config's network, bodies that each ask for a score, and rows to calibrate with."""

    name: str
    task: ImageTaskConfig | TextTaskConfig
    graph: bytes
    bodies: Sequence[bytes]
    media_type: str
    sample: Array

    def manifest(self) -> ModelPackage:
        """Return the network's package without its files."""
        signature = candidates(self.task.kind).signature
        return packages.manifest(
            {"network": self.graph},
            signature=signature(self.task),
            preprocessing=candidates(self.task.kind).preprocessing(self.task),
            decision=DecisionRule(threshold=None),
        )

    def in_int8(self) -> "BenchmarkNetwork":
        """Return it in the INT8 form that is made for its operations."""
        is_static = isinstance(self.task, ImageTaskConfig)
        graph = forms.int8_static(self.graph, by_name(self.sample)) if is_static else forms.int8_dynamic(self.graph)
        return replace(self, name=f"{self.name}, INT8", graph=graph)


def resnet50() -> BenchmarkNetwork:
    task = parse(configs.load("resnet50")).task
    recipe = training.recipe(task, "resnet50")
    torch.manual_seed(0)
    graph = onnx_export.images(recipe.model().eval(), recipe)
    pixels = np.random.default_rng(0).integers(0, 256, (SAMPLE, task.side, task.side, 3), dtype=np.uint8)
    files = [jpeg(np.asarray(Image.fromarray(picture).resize((500, 375)))) for picture in pixels]
    return BenchmarkNetwork("ResNet-50, 224 px", task, graph, files, "image/jpeg", pixels)


def bert_base() -> BenchmarkNetwork:
    task = parse(configs.load("bert")).task
    recipe = texts.recipe(task, "bert")
    torch.manual_seed(0)
    graph = texts_export.transformer(recipe.model().eval(), recipe)
    tokens = np.random.default_rng(0).integers(2, recipe.vocabulary, (SAMPLE, task.length), dtype=np.int32)
    bodies = [(WORDS[shift:] + WORDS * 10).encode() for shift in range(SAMPLE)]
    return BenchmarkNetwork("BERT-base, 128 tokens", task, graph, bodies, "text/plain", tokens)


NETWORKS = (resnet50, bert_base)


def measure_forms(network: BenchmarkNetwork) -> None:
    """Every form that ONNX Runtime can make, at one row and one thread."""
    candidates = [
        Form("original", Graph(network.graph), network.graph),
        *forms.make_forms(network.graph, by_name(network.sample)),
    ]
    running = {form.name: form.graph.score for form in candidates if form.graph}
    seconds = in_turn({name: partial(score, network.sample[:1]) for name, score in running.items()})
    scores = {name: np.concatenate([score(row[None]) for row in network.sample]) for name, score in running.items()}
    rows = [
        {
            "form": name,
            "ms": 1e3 * seconds[name],
            "original / form": seconds["original"] / seconds[name],
            "probabilities move by at most": float(np.abs(scores[name] - scores["original"]).max()),
        }
        for name in running
    ]
    missing = " ".join(f"{form.name}: {form.missing}." for form in candidates if form.name not in running)
    figures.publish(f"forms-{network.task.kind}", rows, f"{network.name}, one row, one thread. {missing}")


def measure_served(network: BenchmarkNetwork) -> figures.Row:
    """The server, asked with a file or a text, beside the same work in a process."""
    body, headers = network.bodies[0], {"Content-Type": network.media_type}
    with tempfile.TemporaryDirectory() as folder, serve_model(uri := save_model(network, folder)) as ask:
        (field,), graph = load_schema(network.manifest(), uri).fields, Graph(network.graph)
        durations = in_turn(
            {
                "alone": lambda: graph.score(field.decode(body)[None]),
                "served": lambda: ask("/score", content=body, headers=headers).raise_for_status(),
            }
        )
    times = {"in process, ms": 1e3 * durations["alone"], "served, ms": 1e3 * durations["served"]}
    return {"network": network.name, **times, "served / in process": durations["served"] / durations["alone"]}


def measure_triton(network: BenchmarkNetwork) -> None:
    """The same package in our server and in the real Triton: how far their scores differ."""
    with tempfile.TemporaryDirectory() as folder, serve_model(uri := save_model(network, folder)) as ask:
        publish(
            models := Path(folder, "models"), uri, PublishRequest("network", 1, settings=TritonSettings(rows=SAMPLE))
        )
        with triton.serve(Path(folder), models) as url, httpx.Client(base_url=url, timeout=60) as client:
            client.post("/v2/repository/models/network_raw/load").raise_for_status()
            ours = [scores(ask, "network", network, body) for body in network.bodies]
            theirs = [scores(client.post, "network_raw", network, body) for body in network.bodies]
    apart = np.abs(np.subtract(ours, theirs)).max()
    print(f"{network.name}: {len(ours)} requests, scores of the real Triton differ by at most {apart:.1e}")


def scores(post: Callable[..., httpx.Response], model: str, network: BenchmarkNetwork, body: bytes) -> list[float]:
    """Ask for one row by the Open Inference Protocol, whose binary tensors have a length before each element."""
    values = len(body).to_bytes(4, "little") + body
    name = candidates(network.task.kind).preprocessing(network.task).item
    tensor = {"name": name, "datatype": "BYTES", "shape": [1, 1], "parameters": {"binary_data_size": len(values)}}
    head = json.dumps({"inputs": [tensor], "outputs": [{"name": OUTPUT}]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    answer = post(f"/v2/models/{model}/infer", content=head + values, headers=headers).raise_for_status()
    return list(answer.json()["outputs"][0]["data"])


def save_model(network: BenchmarkNetwork, folder: str) -> str:
    """Write a package; return its URI."""
    uri = f"{folder}/model"
    package.save(uri, network.manifest(), {"network": network.graph}, pd.DataFrame())
    return uri


class Decoded(Dataset[Tensor]):
    """Files that are decoded when they are asked for, as most trainings do."""

    def __init__(self, files: Sequence[bytes], rules: images.Rules) -> None:
        self.files, self.rules = files, rules

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> Tensor:
        return torch.from_numpy(images.prepare_pixels(self.files[number], self.rules))


def measure_loader() -> None:
    """Epochs over shards that were decoded once, beside a DataLoader that decodes each file in every epoch."""
    task = parse(configs.load("resnet50")).task
    assert isinstance(task, ImageTaskConfig)
    random = np.random.default_rng(0)
    files = [jpeg(random.integers(0, 256, (375, 500, 3), dtype=np.uint8)) for _ in range(FILES)]
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        np.save(f"{folder}/shard.npy", np.stack([images.prepare_pixels(file, task) for file in files]))
        once = time.perf_counter() - began
        shards = Shards([np.load(f"{folder}/shard.npy", mmap_mode="r")])
        loaders = {
            workers: DataLoader(Decoded(files, task), BATCH, shuffle=True, num_workers=workers) for workers in (0, 2)
        }
        calls = {f"DataLoader, {workers} workers": partial(_epoch, loader) for workers, loader in loaders.items()}
        durations = in_turn({"shards": partial(_gather, shards), **calls}, rounds=3)
    rows = [
        {"reader": name, "images/s": round(FILES / seconds), "shards / it": seconds / durations["shards"]}
        for name, seconds in durations.items()
    ]
    note = f"{FILES} JPEG files of 500 x 375, decoded once for the shards in {once:.1f} s."
    figures.publish("image-readers", rows, note)


def _epoch(loader: DataLoader[Tensor]) -> int:
    return sum(len(batch) for batch in loader)


def _gather(shards: Shards) -> int:
    batches = np.array_split(np.random.default_rng(0).permutation(len(shards)), len(shards) // BATCH)
    return sum(len(torch.from_numpy(shards.take(batch))) for batch in batches)


def jpeg(pixels: Array) -> bytes:
    with BytesIO() as file:
        Image.fromarray(pixels).save(file, "jpeg", quality=90)
        return file.getvalue()


@contextmanager
def serve_model(uri: str) -> Iterator[Callable[..., httpx.Response]]:
    """Serve a package in a process of its own; give what asks it."""
    port = free_port()
    words = ["nightshift.serving", "--model", uri, "--name", "network", "--port", str(port)]
    process = subprocess.Popen([sys.executable, "-m", *words], stderr=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            wait_until(lambda: _answers(client), "the server answers")
            yield client.post
    finally:
        process.terminate()
        process.wait()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").is_success
    except httpx.TransportError:
        return False


def main(parts: list[str]) -> None:
    """Measure the named parts, all without any."""
    if "loader" in parts:
        measure_loader()
    rows: list[figures.Row] = []
    for make in NETWORKS:
        network = make()
        if "forms" in parts:
            measure_forms(network)
        if "served" in parts:
            rows += map(measure_served, (network, network.in_int8()))
        if "triton" in parts:
            measure_triton(network.in_int8())
    if rows:
        figures.publish("served-networks", rows, "A request with one row.")


if __name__ == "__main__":
    main(sys.argv[1:] or ["forms", "served", "triton", "loader"])
