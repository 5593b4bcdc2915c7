"""Classify batches of random images with a small ResNet, a step a batch."""

import torch
from torch.profiler import record_function
from transformers import ResNetConfig, ResNetForImageClassification

STEPS = 8

torch.manual_seed(0)
config = ResNetConfig(embedding_size=32, hidden_sizes=[32, 64, 128, 256], depths=[1, 1, 1, 1], layer_type="basic")
model = ResNetForImageClassification(config).eval()
images = torch.rand(4, 3, 64, 64)
with torch.inference_mode():
    for step in range(STEPS):
        with record_function(f"ProfilerStep#{step}"):
            classes = model(images).logits.argmax(1)
print(f"classified {STEPS * len(images)} images, the last as {classes.tolist()}")  # noqa: T201
