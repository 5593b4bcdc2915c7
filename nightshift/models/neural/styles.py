"""How a module is laid out over the processes that share each layer, beside PyTorch's own styles."""

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, distribute_module
from torch.distributed.tensor.parallel import ParallelStyle


class Replicated(ParallelStyle):
    """Every process along `tensor` has the whole of a module, and computes the whole."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        replicated = [Replicate()]
        module.register_forward_pre_hook(
            lambda _, inputs: tuple(DTensor.from_local(value, device_mesh, replicated) for value in inputs)
        )
        module.register_forward_hook(lambda _, __, output: output.to_local())
        return distribute_module(module, device_mesh)
