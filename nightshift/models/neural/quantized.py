"""Frozen 4-bit matrices of pretrained networks, for training adapters (Dettmers et al., QLoRA, 2023)."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from nightshift.runtime.errors import require_extra

if TYPE_CHECKING:
    from bitsandbytes.functional import QuantState

BLOCK = 64  # values per scale


class QuantizedLinear(nn.Linear):
    """A frozen linear layer without bias whose matrix is stored as NF4, two values per byte.

    Attributes:
        packed: 4-bit indices into the code, uint8 (out_features * in_features / 2, 1).
        scales: largest absolute value of each block, float32.
        code: the 16 values of NF4, float32.
    """

    packed: Tensor
    scales: Tensor
    code: Tensor

    def __init__(self, layer: nn.Linear) -> None:
        """Quantize a layer's matrix.

        Raises:
            UserError: when bitsandbytes is not installed.
        """
        nn.Module.__init__(self)
        self.in_features, self.out_features = layer.in_features, layer.out_features
        self.register_parameter("bias", None)
        with require_extra("lora_bits: 4", "gpu"):
            from bitsandbytes import functional
        packed, state = functional.quantize_4bit(layer.weight.detach(), blocksize=BLOCK, quant_type="nf4")
        for name, value in (("packed", packed), ("scales", state.absmax), ("code", state.code)):
            self.register_buffer(name, value)

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """The dequantized matrix, float32 (out_features, in_features)."""
        from bitsandbytes import functional

        matrix: Tensor = functional.dequantize_4bit(self.packed, self._state(torch.float32))
        return matrix

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs, (..., out_features), in the precision of the inputs or of autocast."""
        from bitsandbytes import matmul_4bit  # type: ignore[attr-defined]

        device = inputs.device.type
        precision = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else inputs.dtype
        outputs: Tensor = matmul_4bit(inputs.to(precision), self.packed.t(), self._state(precision))
        return outputs

    def dequantize(self) -> nn.Linear:
        """Return a layer with the same matrix in float32."""
        layer = nn.Linear(self.in_features, self.out_features, bias=False, device="meta")
        layer.weight = nn.Parameter(self.weight)
        return layer

    def _state(self, precision: torch.dtype) -> "QuantState":
        from bitsandbytes.functional import QuantState

        shape = torch.Size((self.out_features, self.in_features))
        return QuantState(self.scales, shape, self.code, BLOCK, "nf4", precision)  # type: ignore[no-untyped-call]
