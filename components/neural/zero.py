"""A network that DeepSpeed's ZeRO spreads over all processes: optimizer state and gradients, and parameters as well.

Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020. Its own checkpoints are
pickles, so they are ours: weights and moments in their own shapes, spread by rows, as FSDP2's are.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import Shard, distribute_tensor

from components.common.config.neural import Fit, Precision, Trainer
from components.common.errors import UserError
from components.common.registry import tracking
from components.neural.parallel import Shared, local
from components.neural.replica import Values

# DeepSpeed's calls of PyTorch, again and again
warnings.filterwarnings("ignore", r"`torch\.distributed\.\w+` is deprecated", FutureWarning)

MOMENTS = ("exp_avg", "exp_avg_sq")  # of PyTorch's Adam


@dataclass(frozen=True)
class Piece:
    """The elements of a weight that this process updates: some that follow each other once it is flattened, or none.

    Attributes:
        shape: of the whole weight.
        first: number of the first element.
        weight: float32 (elements,), as they change.
        moments: what the optimizer keeps of them, likewise; empty where a weight is not trained.
    """

    shape: torch.Size
    first: int
    weight: Tensor
    moments: Values


class Zero(Shared):
    """A network of which every process updates a piece."""

    def _distribute(self) -> None:
        dist.barrier()  # DeepSpeed's own groups do not wait as long as ours
        self.called = self._engine = engine(self.model, self.fit, self.trainer, self.device)
        self._optimizer: Any = self._engine.optimizer
        allocate(self._optimizer)
        found = {name: piece(each, self._optimizer) for name, each in self.model.named_parameters()}
        self._own = {name: each for name, each in found.items() if each}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have no step follow: each process adds to the gradients of its piece."""
        self._engine.set_gradient_accumulation_boundary(False)
        yield
        self._engine.set_gradient_accumulation_boundary(True)

    def optimizer(self) -> torch.optim.Optimizer:
        """Return what changes the weights by their gradients."""
        optimizer: torch.optim.Optimizer = self._optimizer
        return optimizer

    def clear(self) -> None:
        """Forget gradients, and where in a step the optimizer is."""
        self._optimizer.zero_grad()

    def clip(self, limit: float) -> None:
        """Leave it to the optimizer, which does it in its step."""

    def weights(self) -> Values:
        """Return the pieces of weights, and the statistics of batches, as they change."""
        return self.model.state_dict() | {name: each.weight for name, each in self._own.items()}

    def moments(self, optimizer: torch.optim.Optimizer) -> dict[str, Values]:
        """Return what the optimizer keeps of the pieces, as it changes: kind -> name of the weight -> value."""
        trained = {name: each.moments for name, each in self._own.items() if each.moments}
        step = next(iter(optimizer.state.values()))["step"]
        found = {kind: {name: moments[kind] for name, moments in trained.items()} for kind in MOMENTS}
        return found | {"step": dict.fromkeys(trained, step)}

    def saved(self, name: str, value: Tensor) -> Tensor:
        """Return one of `weights` or `moments` in the weight's own shape, spread over processes by rows."""
        if not self._is_piece(name, value):
            return value
        rows = distribute_tensor(self._gathered(name, value), self.mesh["replicate"], [Shard(0)], src_data_rank=None)
        return rows.clone()  # else the others' rows would be kept too

    def restore(self, name: str, value: Tensor, saved: Tensor) -> None:
        """Have one of `weights` or `moments` be what was loaded into `saved`; call `restored` after the last one."""
        if self._is_piece(name, value):
            first = self._own[name].first
            value.copy_(local(saved).flatten()[first : first + len(value)])

    def restored(self) -> None:
        """Have the network compute with `weights`, which were changed."""
        known, *others = (state["step"] for state in self._optimizer.state.values())
        for step in others:
            step.copy_(known)
        if self.trainer.zero == 2:
            self._optimizer.update_lp_params()
            return
        parameters: dict[str, Any] = dict(self.model.named_parameters())
        for name, each in self._own.items():
            parameters[name].ds_tensor.detach()[: len(each.weight)] = each.weight

    def whole(self) -> nn.Sequential:
        """Return the whole network, in every process, with the statistics of batches that this one has seen."""
        model, here = self.recipe.model().to(self.device), self.weights()
        for name, place in model.state_dict().items():
            place.copy_(self._gathered(name, here[name]) if name in self._own else here[name])
        return model

    def _is_piece(self, name: str, value: Tensor) -> bool:
        return name in self._own and value.dim() > 0

    def _gathered(self, name: str, value: Tensor) -> Tensor:
        """Return a whole weight, or moment, of which each process has a piece."""
        own = self._own[name]
        flat = torch.zeros(own.shape.numel(), device=self.device)
        flat[own.first : own.first + len(value)] = value
        dist.all_reduce(flat)
        return flat.view(own.shape)


def engine(model: nn.Module, fit: Fit, trainer: Trainer, device: torch.device) -> Any:
    """Return DeepSpeed's engine of a network, which it takes apart.

    Raises:
        UserError: when DeepSpeed is not installed.
    """
    # else it takes a GPU where there is one; and it imports MLflow, which would report that it is used
    os.environ.update(tracking.SETTINGS | dict(os.environ), DS_ACCELERATOR=device.type)
    try:
        import deepspeed
    except ImportError:
        raise UserError(
            f"task.trainer.zero: is {trainer.zero}, and DeepSpeed is missing; in the checkout run "
            "pip install -e '.[deepspeed]', or write shard: the number of processes"
        ) from None
    deepspeed.ops.__compatible_ops__ = {}  # else it compiles one that exchanges gradients on the CPU
    model.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]  # it cannot flatten channels-last
    adam = torch.optim.Adam(model.parameters(), lr=fit.learning_rate, fused=True)
    made, *_ = deepspeed.initialize(model=model, optimizer=adam, config=settings(fit, trainer))
    made.set_gradient_accumulation_boundary(True)
    return made


def settings(fit: Fit, trainer: Trainer) -> dict[str, Any]:
    """Return DeepSpeed's config."""
    elements = max(1, int(trainer.bucket_mb * 2**20 / 4))
    return {
        "train_micro_batch_size_per_gpu": 1,  # it has to be there, and rows are ours to share
        "gradient_clipping": fit.clip,
        "zero_allow_untested_optimizer": True,  # PyTorch's Adam
        "torch_autocast": {
            "enabled": fit.precision is Precision.BF16,
            "dtype": "bfloat16",
            "lower_precision_safe_modules": [],  # of these, gradients would be exchanged as bf16
        },
        "zero_optimization": {
            "stage": trainer.zero,
            "reduce_bucket_size": elements,
            "allgather_bucket_size": elements,
            "stage3_prefetch_bucket_size": elements,
            "stage3_param_persistence_threshold": 0,  # small weights are spread too
            "memory_efficient_linear": False,  # replaces a function of PyTorch's for the rest of the process
        },
    }


def allocate(optimizer: Any) -> None:
    """Have Adam's state be there before its first step, since a checkpoint may be loaded into it."""
    flats = "single_partition_of_fp32_groups", "fp32_partitioned_groups_flat"  # of stage 2, of stage 3
    for flat in next(getattr(optimizer, name) for name in flats if hasattr(optimizer, name)):
        moments = {kind: torch.zeros_like(flat) for kind in MOMENTS}
        optimizer.state[flat] = {"step": torch.zeros((), device=flat.device), **moments}


def piece(parameter: Any, optimizer: Any) -> Piece | None:
    """Return this process's piece of a parameter; None of one that all processes have."""
    return cut(parameter, optimizer) if hasattr(parameter, "ds_id") else in_a_row(parameter, optimizer)


def in_a_row(parameter: Any, optimizer: Any) -> Piece | None:
    """Return a piece in stage 2, where all trained weights form one row, which is cut into equal parts."""
    if not parameter.requires_grad:
        return None
    mapping = parameter._hp_mapping
    if mapping is None:
        nothing = torch.zeros(0, device=parameter.device)
        return Piece(parameter.shape, 0, nothing, dict.fromkeys(MOMENTS, nothing))
    flat, place = optimizer.single_partition_of_fp32_groups[mapping.param_group_index], mapping.hp_fragment_address
    own = slice(place.start, place.start + place.numel)
    moments = {kind: optimizer.state[flat][kind][own] for kind in MOMENTS}
    return Piece(parameter.shape, mapping.lp_fragment_address.start, flat.detach()[own], moments)


def cut(parameter: Any, optimizer: Any) -> Piece:
    """Return a piece in stage 3, where each weight is cut into equal parts, of which the last ones are padded."""
    first = min(dist.get_rank() * parameter.partition_numel(), parameter.ds_numel)
    own = slice(parameter.ds_numel - first)
    if not parameter.requires_grad:
        return Piece(parameter.ds_shape, first, parameter.ds_tensor.detach()[own], {})
    weight = optimizer.get_local_fp32_param(parameter).detach()[own]
    moments = {kind: optimizer.get_local_fp32_param(parameter, kind)[own] for kind in MOMENTS}
    return Piece(parameter.ds_shape, first, weight, moments)
