"""What shares of their data sheets' figures GPUs reach in trainings, from `efficiency.yaml`.

No data sheet has these: `fitting.py` fits them to published trainings (`published.csv`), by architecture and precision.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nightshift.runtime import strict_yaml
from nightshift_perf.hardware import Gpu

TABLE = Path(__file__).with_name("efficiency.yaml")
ALL = "all"  # the fit to all sources; the others are without the source that they are named after
ARCHITECTURES = ("ampere", "hopper", "blackwell")


@dataclass(frozen=True)
class Efficiency:
    """Shares that an architecture reaches, 0..1.

    Attributes:
        products: precision -> of its peak, by wide products with weights; others than these reach bf16's share.
        attention: of the 16-bit peak, by PyTorch's attention.
        megatron_attention: of it, by the attention of Transformer Engine.
        convolutions: of the peak, by convolutions.
        half: width of a product that reaches half of what a wide one does.
        traffic: of the memory's bandwidth, by elementwise kernels.
        links: of a link, by NCCL's collectives as bus bandwidth.
        data_exposed: of the communication between replicas, at least, that computation beside it does not hide.
        tensor_exposed: of the communication inside layers.
        launch: seconds that the host takes for a kernel.
        straggle: of the computation, that is waited for others with each doubling of the nodes.
        is_fitted: whether points of this architecture were among those that the shares were fitted to.
    """

    products: Mapping[str, float]
    attention: float
    megatron_attention: float
    convolutions: float
    half: float
    traffic: float
    links: float
    data_exposed: float
    tensor_exposed: float
    launch: float
    straggle: float
    is_fitted: bool = True

    def product(self, precision: str, width: float) -> float:
        """Return the share of a precision's peak that products of a width reach."""
        return self.products.get(precision, self.products["bf16"]) * width / (width + self.half)


def efficiency(gpu: Gpu, without: str = ALL) -> Efficiency:
    """Return the shares of a GPU; those of Ampere, and said to be not fitted, where its architecture has none.

    Args:
        gpu: its kind.
        without: source of published figures that the fit has not seen.
    """
    return find_row(read_table()[without], gpu)


def find_row(rows: Mapping[str, Efficiency], gpu: Gpu) -> Efficiency:
    """Return the row of a GPU's architecture; Ampere's, and said to be not fitted, where there is none."""
    return rows.get(gpu.architecture) or replace(rows["ampere"], is_fitted=False)


@functools.cache
def read_table() -> dict[str, dict[str, Efficiency]]:
    """Return the rows by architecture of each fit."""
    table: dict[str, Any] = strict_yaml.load_document(TABLE.read_text())
    return {name: build_rows(table["given"], shares) for name, shares in table["fitted"].items()}


def build_rows(fixed: Mapping[str, float], shares: Mapping[str, float]) -> dict[str, Efficiency]:
    """Return the rows by architecture of what is not fitted and what is, named as in the table."""
    common: dict[str, Any] = {name: value for name, value in {**fixed, **shares}.items() if " " not in name}
    rows = {}
    for name in ARCHITECTURES:
        own = {word.removeprefix(f"{name} "): value for word, value in shares.items() if word.startswith(f"{name} ")}
        attention = own.pop("attention")
        megatron = own.pop("megatron attention", attention)
        # Blackwell's 16-bit trainings are not published
        products = {"bf16": shares["hopper bf16"], **own}
        rows[name] = Efficiency(products=products, attention=attention, megatron_attention=megatron, **common)
    return rows
