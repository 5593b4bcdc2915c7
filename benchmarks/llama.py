"""A Llama of a billion parameters on one GPU: trained on the King James Bible, and decoding.

    python -m benchmarks.llama TEXT [parity] [training] [decoding] [recomputation] [--depth 16] [--device cuda]

TEXT is a file of documents with an empty line between them, such as what `benchmarks.king_james` trains on.
Tokens are bytes; the embeddings are those of a vocabulary of Llama's size, so that the work is that of any text.
"""

import argparse
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks import figures, planned
from benchmarks.timing import wait_for_gpu
from nightshift.config.neural import Recompute, Trainer
from nightshift.models.neural import devices, processes
from nightshift.models.neural.data import BatchShare, ResidentDataset
from nightshift.models.neural.trainer import NetworkTraining
from nightshift_llm.recipes import llama
from nightshift_llm.recipes.llama import Llama
from nightshift_perf import hardware
from nightshift_perf.planning.layout import Cluster

VOCABULARY, START = 128_256, 256
STEPS, WARM = 200, 50
TOKENS = 16_384  # tokens of a step
HELD_OUT = 16  # the last rows
VARIANTS = ((2048, "default"), (2048, "none"))  # length of a row, compile
LENGTH = 2048
DECODED = 256
NATS_PER_BIT = float(np.log(2))


def recipe(arguments: argparse.Namespace, length: int, **fit: Any) -> Llama:
    """Return the network: its shape but for the vocabulary is that of Llama 3.2 1B, with fewer units between layers."""
    heads = arguments.width // 64
    shape = {"depth": arguments.depth, "width": arguments.width, "kv_heads": max(1, heads // 4)}
    sizes = {"batch_size": max(1, arguments.tokens // length), "epochs": 1000}
    values = {**shape, **sizes, "warmup": 0.001, "learning_rate": 0.0003, "clip": 1.0, **fit}
    return llama.build("parameters", {"vocabulary": arguments.vocabulary, "start": START, "length": length}, values)


def read_rows(text: Path, length: int) -> Tensor:
    """Return a text's documents one after the other, each begun by `START`, in rows of int32 (n, length + 1)."""
    documents = text.read_bytes().split(b"\n\n")
    tokens = np.concatenate([[START, *document] for document in documents]).astype(np.int32)
    rows = np.lib.stride_tricks.sliding_window_view(tokens, length + 1)[::length]
    return torch.from_numpy(rows.copy())


def measure_training(arguments: argparse.Namespace) -> None:
    """Steps of `TOKENS` tokens, beside the peak of the GPU and what is published of torchtitan."""
    rows: list[figures.Row] = []
    for length, compiled in VARIANTS:
        rows.append(train(arguments, recipe(arguments, length, compile=compiled, precision="bf16")))
        print(rows[-1], flush=True)
        torch.cuda.empty_cache()
    note = (
        f"{arguments.tokens:,} tokens a step, bf16, parameters and Adam in float32. A step's operations are counted as "
        "torchtitan counts them, with all pairs of a row's tokens, though none attends to another document; "
        "'weights alone' leaves attention out. torchtitan's own Llama 3.1 8B with 8,192 tokens reaches 33 % and, "
        "compiled, 39 % on 8 H100 of 500 W (benchmarks/llama3_h100_202412_torchtitan.md)."
    )
    figures.publish("llama-training", rows, note)


def measure_recomputation(arguments: argparse.Namespace) -> None:
    """Steps in two pieces, with what is computed again backward, beside the planner."""
    rows: list[figures.Row] = []
    for extent in Recompute:
        options = {"precision": "bf16", "compile": arguments.compile, "microbatches": 2, "recompute": extent.value}
        rows.append(compare_plan(arguments, recipe(arguments, LENGTH, **options)))
        print(rows[-1], flush=True)
        if arguments.device == "cuda":
            torch.cuda.empty_cache()
    note = f"{arguments.tokens:,} tokens a step in two pieces, {LENGTH:,} a row, bf16; without what CUDA itself takes."
    figures.publish("llama-recomputation", rows, note)


def compare_plan(arguments: argparse.Namespace, architecture: Llama) -> figures.Row:
    """Return what a training takes, and what the planner says of it."""
    expected = planned.plan_training(architecture, Trainer(), Cluster(hardware.gpu(arguments.gpu), 1, 1, 50e9))
    measured = train(arguments, architecture)
    memory = (expected.memory.states + expected.memory.activations) / 1e9
    return {
        "recompute": architecture.fit.recompute.value,
        "tokens/s": measured["tokens/s"],
        "planned tokens/s": round(expected.throughput),
        "of the peak": measured["of the peak"],
        "peak GB": measured["peak GB"],
        "planned GB": memory,
        "off by": f"{memory / measured['peak GB'] - 1:+.1%}" if measured["peak GB"] else None,
        "bits a byte, after": measured["after"],
    }


def train(arguments: argparse.Namespace, architecture: Llama) -> figures.Row:
    """Take the steps of one variant; the first ones do not count."""
    device, length = torch.device(arguments.device), architecture.length
    tokens = read_rows(arguments.text, length).to(device)
    weights = torch.full((len(tokens), length), 1 / length, device=device)
    unseen, seen = slice(-HELD_OUT, None), slice(None, -HELD_OUT)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with devices.reproducible(0, arguments.threads):
        replica = processes.replica(architecture, Trainer(), device)
        data = ResidentDataset(tokens[seen], weights[seen], architecture.fit.batch_size)
        training = NetworkTraining(replica, data)
        batches = training.batches()
        before = bits(training, tokens[unseen])
        wait_for_gpu(lambda: take_steps(training, batches, arguments.warm))
        began = time.perf_counter()
        wait_for_gpu(lambda: take_steps(training, batches, arguments.steps - arguments.warm))
        seconds = time.perf_counter() - began
        after = bits(training, tokens[unseen])
    steps = (arguments.steps - arguments.warm) * architecture.fit.batch_size
    alone = (
        6 * length * sum(value.numel() for name, value in replica.model.named_parameters() if "embedding" not in name)
    )
    peak = hardware.gpu(arguments.gpu).peaks["bf16"] if device.type == "cuda" else float("nan")
    return {
        "tokens a row": length,
        "compile": architecture.fit.compile.value,
        "tokens/s": round(steps * length / seconds),
        "TFLOP/s": architecture.flops() * steps / seconds / 1e12,
        "of the peak": f"{architecture.flops() * steps / seconds / peak:.1%}",
        "weights alone": f"{alone * steps / seconds / peak:.1%}",
        "peak GB": torch.cuda.max_memory_allocated() / 1e9 if device.type == "cuda" else None,
        "bits a byte, before": before,
        "after": after,
        "steps": arguments.steps,
    }


def take_steps(training: NetworkTraining, batches: Iterator[BatchShare], count: int) -> None:
    """Take some steps of a training."""
    for batch in islice(batches, count):
        training.step(batch)


def bits(training: NetworkTraining, rows: Tensor) -> float:
    """Return the bits of a byte in rows that the training has not seen."""
    with torch.no_grad(), training.replica.autocast:
        nats = torch.cat([training.replica.model(row) for row in rows.split(1)])
    return nats.mean().item() / NATS_PER_BIT


def measure_parity(arguments: argparse.Namespace) -> None:
    """Nats and gradients of a small network on the GPU beside the CPU, in float32."""
    rows = read_rows(arguments.text, 512)[:4]
    weights = torch.full((4, 512), 1 / 512)
    small = argparse.Namespace(**{**vars(arguments), "depth": 4, "width": 256})
    architecture = recipe(small, 512)
    outputs = []
    for device in ("cpu", arguments.device):
        with devices.reproducible(0, arguments.threads), devices.exact():
            model = architecture.model().to(device)
            nats = model(rows.to(device))
            architecture.loss(nats, weights.to(device)).backward()
            gradients = torch.cat(
                [value.grad.flatten().cpu() for value in model.parameters() if value.grad is not None]
            )
            outputs.append((nats.detach().cpu(), gradients))
    (ours, our_gradients), (theirs, their_gradients) = outputs
    norm = our_gradients.norm()
    row = {
        "network": "4 layers of 256, 4 rows of 512 tokens, several documents a row",
        "nats differ by": (ours - theirs).abs().max().item(),
        "gradients differ by": ((our_gradients - their_gradients).norm() / norm).item(),
    }
    figures.publish("llama-parity", [row], "The largest difference of a token's nats; of gradients, of their norm.")


def measure_decoding(arguments: argparse.Namespace) -> None:
    """Tokens that `transformers` generates, beside what the memory's bandwidth allows."""
    architecture = recipe(arguments, 2048)
    with devices.reproducible(0, arguments.threads):
        causal = architecture.causal(architecture.model()).to(arguments.device, torch.bfloat16)
    rows = [decode(causal, arguments, count) for count in (1, 8, 32)]
    note = "bf16, static cache, `transformers`' compiled generation; every token reads all weights and its cache once."
    figures.publish("llama-decoding", rows, note)


def decode(causal: Any, arguments: argparse.Namespace, count: int) -> figures.Row:
    """Generate for so many prompts at once."""
    prompts = read_rows(arguments.text, 128)[:count, 1:].long().to(arguments.device)
    call = partial(
        causal.generate, prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=arguments.decoded,
        min_new_tokens=arguments.decoded, do_sample=False, cache_implementation="static",
    )  # fmt: skip
    for _ in range(2):
        wait_for_gpu(call)
    began = time.perf_counter()
    wait_for_gpu(call)
    seconds = time.perf_counter() - began
    shape = causal.config
    read = 2 * sum(value.numel() for name, value in causal.named_parameters() if "embed_tokens" not in name)
    cache = 4 * shape.num_hidden_layers * shape.num_key_value_heads * shape.head_dim * (128 + arguments.decoded / 2)
    speed = count * arguments.decoded / seconds
    on_gpu = arguments.device == "cuda"
    bandwidth = hardware.gpu(arguments.gpu).bandwidth if on_gpu else float("nan")
    most = count * bandwidth / (read + count * cache)
    return {"prompts": count, "tokens/s": round(speed), "bandwidth allows": most, "of it": f"{speed / most:.0%}"}


MEASUREMENTS = {"parity": measure_parity, "training": measure_training, "decoding": measure_decoding}
MEASUREMENTS["recomputation"] = measure_recomputation

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llama", description=__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("measurements", nargs="*", default=list(MEASUREMENTS), metavar="measurement")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--gpu", default="h100-80gb", help="row of packages/perf/nightshift_perf/hardware.yaml")
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--warm", type=int, default=WARM)
    parser.add_argument("--decoded", type=int, default=DECODED)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--compile", choices=("none", "default"), default="default", help="for `recomputation`")
    arguments = parser.parse_args()
    for name in arguments.measurements:
        MEASUREMENTS[name](arguments)
