"""Compression of the gradients that replicas exchange, and what it remembers from step to step."""

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd

from nightshift.models.neural.replica import Values

UNCOMPRESSED_STEPS = 2


class PowerSGD:
    """PowerSGD of rank 1 (Vogels et al., 2019) whose memory can be saved.

    PyTorch keeps the memory by bucket. DDP fills other buckets after its first step, which is also the first step of a
    resumed training, so here it is kept by parameter and moves along.

    Args:
        model: whose gradients are compressed.
        group: of the processes that exchange them.
    """

    def __init__(self, model: nn.Module, group: dist.ProcessGroup) -> None:
        self.state = power_sgd.PowerSGDState(group, start_powerSGD_iter=UNCOMPRESSED_STEPS)
        self._owner = f"{group.rank()}-of-{group.size()}"  # an error is one process's own
        self._trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
        self._names = {value: name for name, value in self._trained.items()}
        self._buckets: dict[int, list[str]] = {}
        self._errors = {name: torch.zeros_like(value).detach().flatten() for name, value in self._trained.items()}
        drawn = torch.Generator().manual_seed(0)  # alike in every process, whatever the buckets
        self._factors = {
            name: torch.randn(columns(value), generator=drawn).to(value)
            for name, value in self._trained.items()
            if is_compressed(value)
        }

    def memory(self) -> Values:
        """Return errors and factors, by this process and parameter; what is written into them counts."""
        for number in list(self._buckets):
            self._empty(number)
        errors = {f"{self._owner}.error.{name}": value for name, value in self._errors.items()}
        return errors | {f"{self._owner}.factor.{name}": value for name, value in self._factors.items()}

    def fill(self, bucket: dist.GradBucket) -> None:  # type: ignore[name-defined]
        """Move the memory of a bucket's parameters to where PyTorch expects it."""
        number, names = bucket.index(), [self._names[parameter] for parameter in bucket.parameters()]
        if self._buckets.get(number) == names:
            return
        for other, parameters in list(self._buckets.items()):
            if other == number or not set(parameters).isdisjoint(names):
                self._empty(other)
        self._buckets[number] = names
        compressed = self._compressed(names)
        state, none = self.state, bucket.buffer()[:0]
        state.error_dict[number] = torch.cat([self._errors[name] for name in names])
        state.q_memory_dict[number] = torch.cat([none, *(self._factors[name] for name in compressed)])
        rows = sum(self._trained[name].shape[0] for name in compressed)
        state.p_memory_dict[number] = bucket.buffer().new_empty(rows)  # each step overwrites it

    def _empty(self, number: int) -> None:
        """Take the memory out of a bucket."""
        names = self._buckets.pop(number)
        compressed = self._compressed(names)
        sizes = [self._trained[name].numel() for name in names]
        self._errors |= zip(names, torch.split(self.state.error_dict[number], sizes), strict=True)
        if compressed:
            sizes = [columns(self._trained[name]) for name in compressed]
            self._factors |= zip(compressed, torch.split(self.state.q_memory_dict[number], sizes), strict=True)

    def _compressed(self, names: list[str]) -> list[str]:
        """Return which of a bucket's parameters are compressed, in PyTorch's order: by the first of their shape."""
        by_shape: dict[tuple[int, int], list[str]] = {}
        for name in names:
            if name in self._factors:
                value = self._trained[name]
                by_shape.setdefault((value.shape[0], columns(value)), []).append(name)
        return [name for alike in by_shape.values() for name in alike]


def columns(parameter: Tensor) -> int:
    """Return the columns of a parameter as a matrix, whose rows are its first axis."""
    return parameter.numel() // parameter.shape[0]


def is_compressed(parameter: Tensor) -> bool:
    """Return whether PyTorch compresses a gradient: with at least its default of half the numbers saved."""
    rows = parameter.shape[0]
    return 2 * (rows + columns(parameter)) < parameter.numel()


def as_power_sgd(
    compression: PowerSGD,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[Tensor]:
    """Average gradients by PowerSGD, on the CPU a bucket at a time.

    It exchanges twice for a bucket, the second time once the first is done: in which order threads of gloo begin those
    of several buckets differs from process to process, and then each waits for another.
    """
    compression.fill(bucket)
    future = power_sgd.powerSGD_hook(compression.state, bucket)
    if bucket.buffer().device.type == "cpu":
        future.wait()
    return future


def as_bf16(
    group: dist.ProcessGroup,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[Tensor]:
    """Average gradients as bf16; PyTorch takes its own hook by this name on GPUs only, though gloo can do it."""
    return default_hooks.bf16_compress_hook(group, bucket)
