"""The device of a `--device` flag, and PyTorch's global settings while a network is trained."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils import deterministic

from nightshift.config.neural import Precision
from nightshift.runtime.errors import UserError, suggest_install


def torch_device(name: str) -> torch.device:
    """Return the device of a `--device` flag.

    Raises:
        UserError: when it is `cuda` and PyTorch has no GPU. There is no fallback.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError(
            f"--device cuda: PyTorch {torch.__version__} finds no GPU; {suggest_install('gpu')} on a machine "
            "with one, or run with --device cpu"
        )
    return torch.device(name)


def wait(device: torch.device) -> None:
    """Wait until a GPU has done what it was given; a CPU has."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def arithmetic(model: nn.Module, precision: Precision) -> str:
    """Return what a network multiplies in on a GPU, as the hardware table names it.

    Convolutions of float32 are TF32 there unless PyTorch is told otherwise; products of matrices are not.
    """
    if precision is not Precision.FLOAT32:
        return precision.value
    is_exact = torch.backends.cudnn.conv.fp32_precision == "ieee"  # type: ignore[attr-defined]
    convolves = any(isinstance(module, nn.Conv2d) for module in model.modules())
    return "tf32" if convolves and not is_exact else "fp32"


@contextmanager
def reproducible(seed: int, threads: int) -> Iterator[None]:
    """Make what runs inside depend on the seed only; restores PyTorch's global settings."""
    # cuBLAS repeats its results only with this, which it reads when it starts
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    # else PyTorch fills all memory that it allocates, 8 % of ResNet-50's step; nothing here reads it unwritten
    deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
        torch.set_num_threads(before)


@contextmanager
def exact() -> Iterator[None]:
    """Have a GPU compute in float32 what runs inside: its convolutions are TF32 otherwise, and products if so set.

    See https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices.
    """
    settings: list[Any] = [torch.backends.cudnn.conv, torch.backends.cuda.matmul]  # type: ignore[attr-defined]
    before = [setting.fp32_precision for setting in settings]
    try:
        for setting in settings:
            setting.fp32_precision = "ieee"
        yield
    finally:
        for setting, precision in zip(settings, before, strict=True):
            setting.fp32_precision = precision
