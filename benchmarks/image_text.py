"""Ten steps of a ViT-B/16 beside a BERT-base, with weights by chance: tokens a second, and the share of the peak.

    python -m benchmarks.image_text [--device cuda] [--batch 256] [--pieces 1] [--peak 989] [--small]

A pair is 197 patches of an image of 224 pixels and 77 tokens. `--peak` is the device's in dense bf16, in TFLOP/s: 989
for H100 and H200, as NVIDIA states. `--small` is a network of two layers, to try the command on a CPU.
"""

import argparse
import tempfile
import time
from typing import Any

import torch
from transformers import BertConfig, BertModel

from benchmarks import figures
from nightshift.models.neural import devices
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift_image_text.recipes import clip

STEPS, WARM_UP = 10, 3
SHAPE = {"side": 224, "channels": 3, "length": 77, "vocabulary": 30_522, "pad": 0, "findings": 14}
BASE = {"width": 768, "layers": 12, "heads": 12, "patch": 16}
SMALL = {"width": 64, "layers": 2, "heads": 2, "patch": 32}


def measure_steps(device: str, parameters: dict[str, Any], text: BertConfig, peak: float) -> dict[str, Any]:
    """Return what ten steps took, after three that do not count."""
    with tempfile.TemporaryDirectory() as folder:
        BertModel(text, add_pooling_layer=False).save_pretrained(folder)
        recipe = clip.build("", SHAPE, {**parameters, "pretrained_text": folder})
        chosen = devices.torch_device(device)
        with devices.reproducible(0, recipe.fit.threads):
            rows = recipe.random_rows((STEPS + WARM_UP) * recipe.fit.batch_size, chosen)
            training = NetworkTraining(Replica(recipe, chosen), rows)
    batches = training.batches()
    for _ in range(WARM_UP):
        training.step(next(batches)).item()
    started = time.perf_counter()
    losses = [training.step(batch) for batch, _ in zip(batches, range(STEPS), strict=False)]
    assert torch.stack(losses).isfinite().all()  # waits for the device too
    pairs = STEPS * recipe.fit.batch_size / (time.perf_counter() - started)
    tokens = (SHAPE["side"] // recipe.fit.patch) ** 2 + 1 + SHAPE["length"]
    share = pairs * recipe.flops() / (peak * 1e12)
    return {"pairs/s": pairs, "tokens/s": pairs * tokens, "GFLOP a pair": recipe.flops() / 1e9, "share of peak": share}


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.image_text", description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--pieces", type=int, default=1)
    parser.add_argument("--peak", type=float, default=989)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    sizes = SMALL if args.small else BASE
    text = BertConfig(
        hidden_size=sizes["width"],
        intermediate_size=4 * sizes["width"],
        num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"],
    )
    fit = {"batch_size": args.batch, "microbatches": args.pieces, "precision": "bf16", "epochs": 1}
    figures.publish("image-text-steps", [measure_steps(args.device, {**sizes, **fit}, text, args.peak)])


if __name__ == "__main__":
    main()
