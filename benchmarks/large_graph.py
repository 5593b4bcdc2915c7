"""A language model whose weights are too many for one ONNX graph: what it takes to package, load and score it.

The package lies in the folder for temporary files and is removed. Each step is a process, since memory is compared.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from transformers import LlamaForCausalLM

from benchmarks import figures
from nightshift.contracts import package
from nightshift.models.graph import Graph
from nightshift.models.weights import divide
from nightshift.runtime.memory import peak_memory
from nightshift_llm.recipes.llama import Llama, LlamaParameters
from nightshift_llm.task import candidates, onnx_export
from nightshift_llm.task.tokens import load_tokenizer
from nightshift_testkit import packages
from tests.components.tales import task

NAME, LENGTH, THREADS = "llama", 64, 2
SHAPE = {"depth": 24, "width": 1536}
ROWS = np.random.default_rng(0).integers(1, 128, (4, LENGTH + 1)).astype(np.int32)


def main() -> None:
    """Run the steps, each in a process, and compare the scores of the last one with the network's."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure(step, folder) for step in STEPS]
        scores = [np.load(Path(folder, f"{step}.npy")) for step in STEPS]
    off = float(np.abs(scores[1] - scores[0]).max())
    note = (
        f"Random weights in float32; scores are up to {off:.0e} bits per byte off the network's. {LENGTH} tokens a row."
    )
    figures.publish("large-graph", rows, note)


def measure(step: str, folder: str) -> figures.Row:
    """Run a step in a process of its own; return its row."""
    words = [sys.executable, "-m", "benchmarks.large_graph", step, folder]
    row: dict[str, figures.Cell] = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)
    return row


def save(folder: str) -> tuple[np.ndarray, float]:
    """Package a random network; return its bits per byte of the rows, and the seconds of export and package."""
    tokenizer = load_tokenizer(task())
    recipe = Llama("", tokenizer.vocabulary, tokenizer.start, LENGTH, LlamaParameters.parse_value(SHAPE))
    torch.manual_seed(0)
    causal, tokens = LlamaForCausalLM(recipe.shape), torch.from_numpy(ROWS).long()
    visible = torch.ones_like(tokens[:, :-1])
    with torch.no_grad():
        causal.set_attn_implementation("eager")
        logits = causal(tokens[:, :-1], attention_mask=visible).logits
        nats = nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:], reduction="none").mean(1)
    started = time.perf_counter()
    files = divide(NAME, onnx_export.read_weights(causal))
    graphs = {NAME: onnx_export.export_llama(causal, LENGTH, tokenizer.byte_lengths, files)}
    candidate = packages.candidate(NAME, weights=[file.name for file in files])
    manifest = packages.manifest(graphs, candidates={NAME: candidate})
    package.save(folder, manifest, graphs, pd.DataFrame(), candidates.save_weights(causal, files))
    return nats.numpy() / np.log(2), time.perf_counter() - started


def score(folder: str) -> tuple[np.ndarray, float]:
    """Read, check and load the graph, and score the rows; return the scores and the seconds."""
    started = time.perf_counter()
    graph = Graph(package.read_graph(folder, package.load(folder), NAME), THREADS)
    return graph.score(ROWS), time.perf_counter() - started


STEPS = {"export and package": save, "read, load and score": score}


def run_step(step: str, folder: str) -> None:
    """Run a step; leave its scores in the folder and print its row."""
    scores, seconds = STEPS[step](folder)
    np.save(Path(folder, f"{step}.npy"), scores)
    model = package.load(folder)
    size = sum(file.size for file in model.graph_files(NAME)) / 1e9
    print(json.dumps({"step": step, "GB": size, "seconds": seconds, "peak memory, GB": peak_memory() / 1e9}))


if __name__ == "__main__":
    run_step(*sys.argv[1:]) if sys.argv[1:] else main()
