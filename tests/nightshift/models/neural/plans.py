"""Train one network under every plan for so many processes, and compare with one process.

Arguments are the number of processes, and names of some of the plans. Prints a line a plan, in rank 0: its name, and by
how much weights and losses differ.
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM

from nightshift.config.neural import Trainer
from nightshift.models.neural import devices, mesh, pipeline, processes, trainer  # noqa: F401 once, for every process
from nightshift.models.neural.data import (
    GatherDataset,
    ResidentDataset,
    TrainingDataset,
    gather_resident,
    gather_together,
)
from nightshift.models.neural.parallel import local, shard
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.models.recipes import Recipe, mlp, resnet
from nightshift.models.recipes.mlp import MLP, MLPParameters
from nightshift_image_text.recipes import clip
from nightshift_llm.recipes import llama
from tests.nightshift.models.neural import forked, resumable

CPU = torch.device("cpu")
BASE = {"hidden": 8, "layers": 3, "epochs": 2, "batch_size": 32, "learning_rate": 0.02, "ema_decay": 0.9}
DECODER = {"depth": 3, "width": 32, "heads": 4, "kv_heads": 2, "batch_size": 32, "learning_rate": 0.001}
SELECTIVE = {"recompute": "selective"}  # beside one process that keeps all
PIPELINE = {"pipeline": 2}
PIECES = {"microbatches": 4}
TOGETHER = {"sync_batch_norm": True}
HELD_OUT = {"validation": 0.2, "validations": 7, "keep": "best"}
BEST = {"learning_rate": 1.0, "clip": 0.5, **HELD_OUT, **PIECES}
MEASURED = {"ddp": {}, "fsdp": {"shard": 2}, "zero-2": {"zero": 2}, "tp": {"tensor": 2}, "pp": PIPELINE}
DECAYED = {"weight_decay": 0.5}
TIED = {"pretrained": str(Path(tempfile.gettempdir(), f"plans-{os.getpid()}"))}
READ = {"pretrained_text": f"{TIED['pretrained']}-bert"}
NETWORKS = ("llama", "towers", "resnet", "mixed", "pairs")  # in the names of their plans; the others train an MLP
TRANSFORMERS = ("llama", "towers")  # whose gradients are compared
Measure = Callable[[str, dict[str, Any] | None, dict[str, Any]], dict[str, torch.Tensor]]
PLANS: dict[int, dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    2: {
        "ddp": ({}, {}),
        "ddp, accumulated, clipped": ({}, {**PIECES, "clip": 0.05}),
        "ddp, recomputed, bf16": ({}, {"recompute": "full", "precision": "bf16"}),
        "ddp, fp16": ({}, {"precision": "fp16", "clip": 0.05}),
        "ddp, weights decay": ({}, DECAYED),
        "ddp, gradients as bf16": ({"compression": "bf16"}, {}),
        "ddp, gradients by PowerSGD": ({"compression": "powersgd"}, {}),
        "ddp, gradients by PowerSGD in 7 buckets": ({"compression": "powersgd", "bucket_mb": 0.0003}, {}),
        "resnet, ddp": ({}, {**TOGETHER, "clip": 0.05}),
        "resnet, fsdp, recomputed": ({"shard": 2}, {**TOGETHER, "recompute": "full"}),
        "pairs, ddp": ({}, {"clip": 0.05, **HELD_OUT}),
        "pairs, ddp, 3 pieces, recomputed": ({}, {"microbatches": 3, "recompute": "full"}),
        "pairs, fsdp": ({"shard": 2}, HELD_OUT),
        "pairs, fsdp, 2 pieces": ({"shard": 2}, {"microbatches": 2, "clip": 0.05}),
        "pairs, zero-2, 8 pieces": ({"zero": 2}, {"microbatches": 8}),
        "towers, ddp": ({}, {}),
        "towers, ddp, 2 pieces": ({}, {"microbatches": 2, "clip": 0.05}),
        "towers, ddp, 4 pieces, sigmoid, recomputed": ({}, {**PIECES, "loss": "sigmoid", "recompute": "full"}),
        "towers, fsdp, 8 pieces, recomputed": ({"shard": 2}, {"microbatches": 8, "recompute": "full"}),
        "towers, fsdp, images alone": ({"shard": 2}, {"pairs_weight": 0}),
        "towers, fsdp, a frozen text tower": ({"shard": 2}, {**PIECES, **READ, "frozen_text": True}),
        "towers, zero-2, an adapted text tower": ({"zero": 2}, {**PIECES, **READ, "train": "lora"}),
        "fsdp": ({"shard": 2}, {}),
        "fsdp, accumulated, clipped, recomputed": ({"shard": 2}, {**PIECES, "clip": 0.05, "recompute": "full"}),
        "fsdp, mixed": ({"shard": 2}, PIECES),
        "zero-2": ({"zero": 2}, {}),
        "zero-2, accumulated, clipped, recomputed": ({"zero": 2}, {**PIECES, "clip": 0.05, "recompute": "full"}),
        "zero-2, warmed up, bf16": ({"zero": 2}, {"warmup": 0.3, "decay": "cosine", "precision": "bf16"}),
        "zero-2, mixed": ({"zero": 2}, PIECES),
        "zero-3": ({"zero": 3}, {}),
        "zero-3, accumulated, clipped, recomputed": ({"zero": 3}, {**PIECES, "clip": 0.05, "recompute": "full"}),
        "zero-3, warmed up, bf16": ({"zero": 3}, {"warmup": 0.3, "decay": "cosine", "precision": "bf16"}),
        "zero-3, mixed": ({"zero": 3}, PIECES),
        "zero-3, clipped, weights decay": ({"zero": 3}, {"clip": 0.05, **DECAYED}),
        "tp": ({"tensor": 2}, {}),
        "tp, clipped, weights decay": ({"tensor": 2}, {"clip": 0.05, **DECAYED}),
        "tp, two hidden layers, clipped": ({"tensor": 2}, {"layers": 2, "clip": 0.05}),
        "pp 1f1b": (PIPELINE, PIECES),
        "pp 1f1b, clipped": (PIPELINE, {**PIECES, "clip": 0.05}),
        "pp 1f1b, clipped, weights decay": (PIPELINE, {**PIECES, "clip": 0.05, **DECAYED}),
        **{f"{name}, best kept": (shared, BEST) for name, shared in MEASURED.items()},
        "pp interleaved": ({**PIPELINE, "schedule": "interleaved"}, PIECES),
        "pp zero-bubble": ({**PIPELINE, "schedule": "zero-bubble"}, PIECES),
        "llama, fsdp, accumulated, clipped, recomputed": ({"shard": 2}, {**PIECES, "clip": 0.05, "recompute": "full"}),
        "llama, tp, clipped": ({"tensor": 2}, {"clip": 0.05}),
        "llama, pp 1f1b": (PIPELINE, PIECES),
        "llama, cp": ({"shard": 2, "context": 2}, {"clip": 0.05}),
        "llama, adapted, tp": ({"tensor": 2}, {"clip": 0.05, **TIED, "lora_rank": 4}),
        "llama, tied, ddp": ({}, {**PIECES, "clip": 0.05, **TIED}),
        "llama, tied, fsdp": ({"shard": 2}, {"clip": 0.05, **TIED}),
        "llama, tied, tp": ({"tensor": 2}, {"clip": 0.05, **TIED}),
        "llama, tied, pp": (PIPELINE, {**PIECES, "clip": 0.05, **TIED}),
    },
    4: {
        "hsdp 2 x 2": ({"shard": 2}, {}),
        "pairs, hsdp 2 x 2": ({"shard": 2}, PIECES),
        "pairs, ddp, more pieces than rows": ({}, {"microbatches": 32}),
        "dp 2 x tp 2": ({"tensor": 2}, {"clip": 0.05}),
        "fsdp 2 x tp 2": ({"shard": 2, "tensor": 2}, PIECES),
        "pp 2 x dp 2, zero-bubble": ({**PIPELINE, "schedule": "zero-bubble"}, PIECES),
        "pp 2 x fsdp 2, interleaved": ({**PIPELINE, "shard": 2, "schedule": "interleaved"}, {**PIECES, "clip": 0.05}),
        "pp 2 x tp 2": ({**PIPELINE, "tensor": 2}, {**PIECES, "clip": 0.05}),
        "llama, fsdp 2 x tp 2": ({"shard": 2, "tensor": 2}, PIECES),
        "llama, pp 2 x fsdp 2, interleaved": ({**PIPELINE, "shard": 2, "schedule": "interleaved"}, PIECES),
    },
    8: {
        "hsdp 2 x 4": ({"shard": 4}, {}),
        "dp 4 x tp 2": ({"tensor": 2}, {"clip": 0.05}),
        "dp 2 x fsdp 2 x tp 2": ({"shard": 2, "tensor": 2}, PIECES),
        "pp 2 x dp 4": (PIPELINE, PIECES),
        "pp 2 x fsdp 4, interleaved": ({**PIPELINE, "shard": 4, "schedule": "interleaved"}, {**PIECES, "clip": 0.05}),
        "pp 2 x fsdp 2 x tp 2": ({**PIPELINE, "shard": 2, "tensor": 2}, {**PIECES, "clip": 0.05}),
        "pp 2 x dp 2 x tp 2, zero-bubble": ({**PIPELINE, "tensor": 2, "schedule": "zero-bubble"}, PIECES),
        "pp 4 x tp 2": ({"pipeline": 4, "tensor": 2}, PIECES),
        "llama, hsdp 2 x 4": ({"shard": 4}, {}),
        "llama, dp 2 x fsdp 2 x cp 2": ({"shard": 4, "context": 2}, PIECES),
        "llama, pp 2 x cp 2 x tp 2": ({**PIPELINE, "shard": 2, "context": 2, "tensor": 2}, PIECES),
        "llama, pp 2 x fsdp 4": ({**PIPELINE, "shard": 4}, {**PIECES, "clip": 0.05}),
        "llama, pp 2 x dp 2 x tp 2": ({**PIPELINE, "tensor": 2}, PIECES),
    },
}


class Mixed(MLP):
    """Begins with a convolution whose weights are channels-last, and a block that is not trained."""

    def model(self) -> nn.Sequential:
        first, *others = super().model()
        convolution = nn.Sequential(nn.Unflatten(1, (5, 1, 1)), nn.Conv2d(5, 5, 3, padding=1), nn.Flatten())
        return nn.Sequential(convolution.to(memory_format=torch.channels_last), first.requires_grad_(False), *others)


class PairParameters(MLPParameters):
    """How two towers are fitted."""

    compares_rows = True


class Towers(nn.Module):
    """Two kinds of numbers, (n, 5) each, to embeddings (n, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(5, 4), nn.Linear(5, 4)

    def forward(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"left": self.left(inputs["left"]), "right": self.right(inputs["right"])}


@dataclass(frozen=True)
class Pairs(MLP):
    """Brings pairs together, and everything else of a batch apart."""

    def model(self) -> nn.Sequential:
        return nn.Sequential(Towers())

    def loss(self, outputs: dict[str, torch.Tensor], labels: torch.Tensor) -> torch.Tensor:
        similar, own = outputs["left"] @ outputs["right"].T, torch.arange(len(labels))
        losses = [nn.functional.cross_entropy(logits, own, reduction="none") for logits in (similar, similar.T)]
        return (sum(losses) * (1 + labels)).mean()


def subject(name: str, overrides: dict[str, Any]) -> tuple[Recipe, TrainingDataset]:
    """Return the network of a plan, and its 103 rows: neither batches nor processes nor pieces divide them."""
    if name.startswith("llama"):
        return decoder(overrides)
    if name.startswith("towers"):
        return towers(overrides)
    if name.startswith("resnet"):
        return images(overrides)
    if name.startswith("pairs"):
        return pairs(overrides)
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(103, 5)).astype(np.float32)
    labels = (matrix[:, 0] * matrix[:, 1] > 0).astype(np.int8)
    recipe = (Mixed if "mixed" in name else MLP)(5, MLPParameters.model_validate(BASE | overrides))
    return recipe, ResidentDataset(*mlp.resident(matrix, labels, CPU), recipe.fit.batch_size)


def decoder(overrides: dict[str, Any]) -> tuple[Recipe, TrainingDataset]:
    """Return a small Llama, and rows of documents with tokens of which some are not learned."""
    recipe = llama.build("", {"vocabulary": 32, "start": 0, "length": 16}, DECODER | SELECTIVE | overrides)
    drawn = torch.Generator().manual_seed(0)
    rows = torch.randint(0, 32, (103, 17), dtype=torch.int32, generator=drawn)
    weights = torch.rand(103, 16, generator=drawn).round()
    return recipe, ResidentDataset(rows, weights / weights.mean() / 16, recipe.fit.batch_size)


def pairs(overrides: dict[str, Any]) -> tuple[Recipe, TrainingDataset]:
    """Return two towers, and pairs of which one holds what the other does."""
    recipe = Pairs(5, PairParameters.model_validate(BASE | overrides))
    drawn = torch.Generator().manual_seed(0)
    left = torch.randn(103, 5, generator=drawn)
    right = left.flip(1) + torch.randn(103, 5, generator=drawn) / 10
    gather = gather_together({"left": gather_resident(left), "right": gather_resident(right)})
    return recipe, GatherDataset(gather, (left[:, 0] > 0).float(), recipe.fit.batch_size)


def towers(overrides: dict[str, Any]) -> tuple[Recipe, TrainingDataset]:
    """Return small towers, and images with reports, two of each study and four of each group."""
    shape = {"side": 16, "channels": 1, "length": 8, "vocabulary": 32, "pad": 0, "findings": 3}
    fit = {"width": 16, "heads": 2, "batch_size": 32, "group_negatives": 2, "small_side": 8, "small_share": 0.5}
    recipe = clip.build("", shape, fit | overrides)
    rows = recipe.random_rows(103, CPU)
    rows.labels[:, :2] = torch.stack([torch.arange(103) // 2, torch.arange(103) // 4], 1)
    rows.labels[::5, 2] = torch.nan
    return recipe, rows


@contextmanager
def pretrained_weights() -> Iterator[None]:
    """Have random weights where `TIED` and `READ` name them; processes of a group would not write them."""
    shape = LlamaConfig(
        vocab_size=32, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=16, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(shape).save_pretrained(TIED["pretrained"])
    text = BertConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=8,
    )  # fmt: skip
    BertModel(text, add_pooling_layer=False).save_pretrained(READ["pretrained_text"])
    yield
    for folder in (TIED["pretrained"], READ["pretrained_text"]):
        shutil.rmtree(folder)


def images(overrides: dict[str, Any]) -> tuple[Recipe, TrainingDataset]:
    """Return a small ResNet whose processes normalize together."""
    fit = {"stages": "1,1", "width": 4, "epochs": 2, "batch_size": 32}
    recipe = resnet.build("", {"side": 6, "channels": 3, "classes": 4}, fit | overrides)
    drawn = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (103, 6, 6, 3), dtype=torch.uint8, generator=drawn)
    return recipe, ResidentDataset(pixels, torch.randint(0, 4, (103,), generator=drawn), recipe.fit.batch_size)


def replicate(name: str, shared: dict[str, Any] | None, overrides: dict[str, Any]) -> tuple[Replica, TrainingDataset]:
    """The network of a plan, or this process's part of it."""
    recipe, rows = subject(name, overrides)
    alone = shared is None
    return Replica(recipe, CPU) if alone else processes.replica(recipe, Trainer.model_validate(shared), CPU), rows


def fitted(name: str, shared: dict[str, Any] | None, overrides: dict[str, Any]) -> dict[str, torch.Tensor]:
    with devices.reproducible(0, threads=1):
        replica, rows = replicate(name, shared, overrides)
        model = trainer.fit(replica, rows)
        if shared and "zero" in shared:
            check_shards(NetworkTraining(replica, rows), shared["zero"])
        return resumable.left(model)


def gradients(name: str, shared: dict[str, Any] | None, overrides: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The gradients of the first step, of which Adam's first moment has a tenth; of a pipeline, those that are here."""
    with devices.reproducible(0, threads=1):
        training = NetworkTraining(*replicate(name, shared, overrides))
        training.losses.add(1, training.step(next(training.batches())))
        moments = {key: 10 * local(value) for key, value in training.state().items() if key.endswith(".exp_avg")}
        return moments | {"logged loss": torch.tensor(training.losses.newest)}


@cache
def alone(measure: Measure, family: str, overrides: str) -> dict[str, torch.Tensor]:
    """What one process has: the same for all plans of a network, so it is trained once."""
    return measure(family, None, json.loads(overrides))


def check_shards(training: NetworkTraining, zero: int) -> None:
    """Two processes have half of the optimizer's state each; from forward to backward, weights are whole in ZeRO-2."""
    model = training.replica.model
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    shards = [
        local_size(value) for name, value in training.state().items() if name.endswith((".exp_avg", ".exp_avg_sq"))
    ]
    assert 0.4 < sum(shards) / (2 * trained) < 0.6
    model(next(training.batches()).inputs)
    assert {isinstance(weight, DTensor) for weight in model.parameters()} == {zero == 3}


def local_size(value: torch.Tensor) -> int:
    return shard(value).numel()


def main(*names: str) -> None:
    with processes.join_processes(CPU):
        plans = PLANS[dist.get_world_size()]
        for name in names or plans:
            shared, overrides = plans[name]
            single = {key: value for key, value in overrides.items() if key not in TOGETHER} | {"recompute": "none"}
            if name.startswith(("pairs", "towers")):  # beside the whole batch
                single["microbatches"] = 1
            network = next(filter(name.__contains__, NETWORKS), ""), json.dumps(single)
            if not name.startswith("towers"):  # Adam makes noise of a key's bias, whose gradient is 0, a whole step
                report(name, fitted(name, shared, overrides), alone(fitted, *network))
            if name.startswith(TRANSFORMERS):
                report(f"{name}, gradients", gradients(name, shared, overrides), alone(gradients, *network))


def report(name: str, together: dict[str, torch.Tensor], alone: dict[str, torch.Tensor]) -> None:
    """Print by how much values differ in any process at most."""
    gap = torch.stack([(value - alone[key]).abs().max() for key, value in together.items()]).max().double()
    dist.all_reduce(gap, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        print(f"{name}: {gap.item():.2g}", flush=True)


if __name__ == "__main__":
    with pretrained_weights():
        forked.run(int(sys.argv[1]), main, *sys.argv[2:])
