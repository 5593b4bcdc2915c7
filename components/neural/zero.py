"""A network trained by DeepSpeed's ZeRO: every process has a piece of the optimizer's state, gradients and parameters.

Rajbhandari et al., ZeRO: Memory Optimizations Toward Training Trillion Parameter Models, 2020. A piece is some elements
in a row of each weight, flattened; no process may have any of a small one. Checkpoints are ours, not DeepSpeed's, which
are pickles: weights in their own shapes, each shared by its first dimension, as FSDP's are.
"""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import Shard, distribute_tensor

from components.common.config.neural import Fit, Precision, Trainer
from components.common.errors import UserError
from components.neural.parallel import Shared, local
from components.neural.replica import Values

if TYPE_CHECKING:
    from deepspeed import DeepSpeedEngine

# DeepSpeed's calls of PyTorch, one a gradient
warnings.filterwarnings("ignore", r"`torch\.distributed\.\w+` is deprecated", FutureWarning)

MOMENTS = ("exp_avg", "exp_avg_sq")  # of PyTorch's Adam


class Zero(Shared):
    """A network of which each process has a piece; a subclass knows where DeepSpeed keeps it."""

    def _distribute(self) -> None:
        dist.barrier()  # DeepSpeed's own groups wait half an hour only
        self.called = self._engine = engine(self.model, self.fit, self.trainer, self.device)
        self._optimizer: Any = self._engine.optimizer
        self._parameters: dict[str, Any] = {name: each for name, each in self.model.named_parameters() if self._is_split(each)}
        for flat in self._flats():  # here, since a checkpoint may be loaded into it before the first step
            moments = {kind: torch.zeros_like(flat) for kind in MOMENTS}
            self._optimizer.state[flat] = {"step": torch.zeros((), device=flat.device), **moments}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Add up gradients, of which each process keeps its piece."""
        self._engine.set_gradient_accumulation_boundary(False)
        yield
        self._engine.set_gradient_accumulation_boundary(True)

    def optimizer(self) -> torch.optim.Optimizer:
        """Return what changes the weights by their gradients."""
        optimizer: torch.optim.Optimizer = self._optimizer
        return optimizer

    def clip(self, limit: float) -> None:
        """Leave it to the optimizer's step."""

    def weights(self) -> Values:
        """Return pieces of the weights, float32 (elements,), and the statistics of batches, as they change."""
        return self.model.state_dict() | {name: self._piece(each) for name, each in self._parameters.items()}

    def moments(self, optimizer: torch.optim.Optimizer) -> dict[str, Values]:
        """Return pieces of what the optimizer keeps of the weights, and how many steps it has taken."""
        trained = {name: each for name, each in self._parameters.items() if each.requires_grad}
        step = next(iter(optimizer.state.values()))["step"]
        found = {kind: {name: self._piece(each, kind) for name, each in trained.items()} for kind in MOMENTS}
        return found | {"step": dict.fromkeys(trained, step)}

    def saved(self, name: str, value: Tensor) -> Tensor:
        """Return one of `weights` or `moments` in the weight's own shape, shared by its first dimension."""
        if not self._is_piece(name, value):
            return value
        rows = distribute_tensor(self._gathered(name, value), self.mesh["replicate"], [Shard(0)], src_data_rank=None)
        return rows.clone()  # not as a view, which would keep the whole

    def restore(self, name: str, value: Tensor, saved: Tensor) -> None:
        """Have a piece be what was loaded into `saved`; call `restored` after the last one."""
        if self._is_piece(name, value):
            start = self._first(self._parameters[name])
            value.copy_(local(saved).flatten()[start : start + len(value)])

    def restored(self) -> None:
        """Have the network compute with `weights`, which were changed."""
        first, *others = (state["step"] for state in self._optimizer.state.values())
        for step in others:
            step.copy_(first)

    def whole(self) -> nn.Sequential:
        """Return the whole network, in every process, with the statistics of batches that this one has seen."""
        model, here = self.recipe.model().to(self.device), self.weights()
        for name, place in model.state_dict().items():
            place.copy_(self._gathered(name, here[name]) if name in self._parameters else here[name])
        return model

    def _is_piece(self, name: str, value: Tensor) -> bool:
        return name in self._parameters and value.dim() > 0

    def _gathered(self, name: str, value: Tensor) -> Tensor:
        """Return the whole of what each process has a piece of."""
        parameter = self._parameters[name]
        shape, start = self._shape(parameter), self._first(parameter)
        flat = torch.zeros(shape.numel(), device=self.device)
        flat[start : start + len(value)] = value
        dist.all_reduce(flat)
        return flat.view(shape)

    def _is_split(self, parameter: nn.Parameter) -> bool:
        raise NotImplementedError

    def _flats(self) -> list[Tensor]:
        """Return what PyTorch's optimizer changes: the pieces of many weights, one after the other."""
        raise NotImplementedError

    def _shape(self, parameter: Any) -> torch.Size:
        raise NotImplementedError

    def _first(self, parameter: Any) -> int:
        """Return at which element of a weight its piece begins."""
        raise NotImplementedError

    def _piece(self, parameter: Any, moment: str | None = None) -> Tensor:
        """Return the piece of a weight or of one of its moments, (elements,), to be changed in place."""
        raise NotImplementedError


class Zero2(Zero):
    """All pieces of all weights stand in a row, which is cut into equal parts: a process may have none of a weight."""

    def restored(self) -> None:
        """Have the network compute with `weights`, which were changed."""
        super().restored()
        self._optimizer.update_lp_params()

    def _is_split(self, parameter: nn.Parameter) -> bool:
        return parameter.requires_grad

    def _flats(self) -> list[Tensor]:
        flats: list[Tensor] = self._optimizer.single_partition_of_fp32_groups
        return flats

    def _shape(self, parameter: Any) -> torch.Size:
        shape: torch.Size = parameter.shape
        return shape

    def _first(self, parameter: Any) -> int:
        return parameter._hp_mapping.lp_fragment_address.start if parameter._hp_mapping else 0

    def _piece(self, parameter: Any, moment: str | None = None) -> Tensor:
        mapping = parameter._hp_mapping
        if mapping is None:
            return torch.zeros(0, device=self.device)
        flat = self._flats()[mapping.param_group_index]
        place = mapping.hp_fragment_address
        whole: Tensor = self._optimizer.state[flat][moment] if moment else flat
        return whole.detach()[place.start : place.start + place.numel]


class Zero3(Zero):
    """Each weight is cut into equal parts, of which the last ones are padded."""

    def restored(self) -> None:
        """Have the network compute with `weights`, which were changed."""
        super().restored()
        for parameter in self._parameters.values():
            parameter.ds_tensor.data.copy_(self._padded(parameter))

    def _is_split(self, parameter: nn.Parameter) -> bool:  # noqa: ARG002
        return True

    def _flats(self) -> list[Tensor]:
        flats: list[Tensor] = self._optimizer.fp32_partitioned_groups_flat
        return flats

    def _shape(self, parameter: Any) -> torch.Size:
        shape: torch.Size = parameter.ds_shape
        return shape

    def _first(self, parameter: Any) -> int:
        first: int = min(self.index * parameter.partition_numel(), parameter.ds_numel)
        return first

    def _piece(self, parameter: Any, moment: str | None = None) -> Tensor:
        piece: Tensor = self._padded(parameter, moment)[: parameter.ds_numel - self._first(parameter)]
        return piece

    def _padded(self, parameter: Any, moment: str | None = None) -> Tensor:
        trained = parameter.requires_grad
        padded: Tensor = self._optimizer.get_local_fp32_param(parameter, moment) if trained else parameter.ds_tensor
        return padded.detach()


STAGES = {2: Zero2, 3: Zero3}


def engine(model: nn.Module, fit: Fit, trainer: Trainer, device: torch.device) -> "DeepSpeedEngine":
    """Return DeepSpeed's engine of a network, in which all processes have a piece.

    Raises:
        UserError: when DeepSpeed is not installed.
    """
    os.environ["DS_ACCELERATOR"] = device.type  # else it takes a GPU where there is one
    try:
        import deepspeed
    except ImportError:
        raise UserError(
            f"task.trainer.zero: is {trainer.zero}, and DeepSpeed is not installed; "
            "DS_BUILD_OPS=0 pip install --no-build-isolation -e '.[deepspeed]', or write shard: the number of processes"
        ) from None
    deepspeed.ops.__compatible_ops__ = {}  # else it compiles one for the CPU, and says so
    adam = torch.optim.Adam(model.parameters(), lr=fit.learning_rate, fused=True)
    made, *_ = deepspeed.initialize(model=model, optimizer=adam, config=settings(fit, trainer))
    made.set_gradient_accumulation_boundary(True)
    return made


def settings(fit: Fit, trainer: Trainer) -> dict[str, Any]:
    """Return DeepSpeed's config."""
    elements = max(1, int(trainer.bucket_mb * 2**20 / 4))
    return {
        "train_micro_batch_size_per_gpu": 1,  # it does not see batches
        "gradient_clipping": fit.clip,
        "zero_allow_untested_optimizer": True,  # PyTorch's Adam
        "torch_autocast": {
            "enabled": fit.precision is Precision.BF16,
            "dtype": "bfloat16",
            "lower_precision_safe_modules": [],  # of which gradients would be exchanged as bf16
        },
        "zero_optimization": {
            "stage": trainer.zero,
            "reduce_bucket_size": elements,
            "allgather_bucket_size": elements,
            "stage3_prefetch_bucket_size": elements,
            "stage3_param_persistence_threshold": 0,  # small ones are shared too
            "memory_efficient_linear": False,  # replaces a function of PyTorch's for the whole process
        },
    }
