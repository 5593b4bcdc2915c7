"""What operations of PyTorch multiply, by the shapes and types that `record_shapes=True` writes."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from nightshift_perf.traces.trace import Matmul

PRECISIONS = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "signed char": "int8",
    "c10::Float8_e4m3fn": "fp8", "c10::Float8_e4m3fnuz": "fp8", "c10::Float8_e5m2": "fp8",
    "c10::Float8_e5m2fnuz": "fp8", "c10::Float4_e2m1fn_x2": "fp4",
}  # fmt: skip
WIDTHS = {"fp32": 4, "fp64": 8, "fp16": 2, "bf16": 2, "int8": 1, "fp8": 1, "fp4": 0.5}
# operation -> which of its inputs it multiplies
OPERANDS: dict[str, Callable[[Any], tuple[list[int], list[int]]]] = {
    "aten::mm": lambda shapes: (shapes[0], shapes[1]),
    "aten::bmm": lambda shapes: (shapes[0], shapes[1]),
    "aten::_scaled_mm": lambda shapes: (shapes[0], shapes[1]),
    "aten::_int_mm": lambda shapes: (shapes[0], shapes[1]),
    "aten::addmm": lambda shapes: (shapes[1], shapes[2]),
    "aten::_addmm_activation": lambda shapes: (shapes[1], shapes[2]),
    "aten::baddbmm": lambda shapes: (shapes[1], shapes[2]),
}
# operations that multiply, but as often as their shapes alone do not tell (strides, masks, lengths)
UNCOUNTED = ("convolution", "attention_forward", "attention_backward", "_attention", "grouped_mm")


def count(name: str, shapes: Any, types: Any) -> Matmul | None:
    """Return what a matrix product multiplies; None of other operations, and where nothing was recorded.

    (m, k) x (k, n) takes 2 m k n floating-point operations and has to read both and to write (m, n).
    """
    pick = OPERANDS.get(name)
    if pick is None:
        return _guess_product(name, types)
    try:
        left, right = pick(shapes)
        if left[-1] != right[-2] or not all(isinstance(size, int) for size in (*left, *right)):
            return None
    except (TypeError, IndexError):  # shapes were not recorded, or are not what these operations have
        return None
    precision = _precision(types)
    moved = prod(left) + prod(right) + prod([*left[:-1], right[-1]])
    return Matmul(2.0 * prod(left) * right[-1], float(WIDTHS.get(precision, 4) * moved), precision)


def _guess_product(name: str, types: Any) -> Matmul | None:
    if not name.startswith("aten::") or not name.endswith(UNCOUNTED):
        return None
    precision = _precision(types)
    return Matmul(0.0, 0.0, precision) if precision else None


def _precision(types: Any) -> str:
    """Return the precision of the first operand whose type is known; empty where none is."""
    listed: Sequence[Any] = types if isinstance(types, list) else ()
    return next((PRECISIONS[kind] for kind in listed if isinstance(kind, str) and kind in PRECISIONS), "")
