"""What shares of their data sheets' figures GPUs reach in trainings, from `efficiency.yaml`.

No data sheet has these: they are fitted to published trainings (`published.csv`), by architecture and precision.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nightshift.runtime import strict_yaml
from nightshift_perf.hardware import Gpu

TABLE = Path(__file__).with_name("efficiency.yaml")


@dataclass(frozen=True)
class Efficiency:
    """Shares that an architecture reaches, 0..1.

    Attributes:
        products: precision -> of its peak, by wide products with weights; others than these reach bf16's share.
        attention: of the 16-bit peak, by attention.
        convolutions: of the peak, by convolutions.
        half: width of a product that reaches half of what a wide one does.
        traffic: of the memory's bandwidth, by elementwise kernels.
        links: of a link, by NCCL's collectives as bus bandwidth.
        data_exposed: of the communication between replicas, at least, that computation beside it does not hide.
        tensor_exposed: of the communication inside layers.
        is_fitted: whether points of this architecture were among those that the shares were fitted to.
    """

    products: Mapping[str, float]
    attention: float
    convolutions: float
    half: float
    traffic: float
    links: float
    data_exposed: float
    tensor_exposed: float
    is_fitted: bool = True

    def product(self, precision: str, width: float) -> float:
        """Return the share of a precision's peak that products of a width reach."""
        return self.products.get(precision, self.products["bf16"]) * width / (width + self.half)


def efficiency(gpu: Gpu) -> Efficiency:
    """Return the shares of a GPU; those of Ampere, and said to be not fitted, where its architecture has none."""
    known = efficiencies()
    return known.get(gpu.architecture) or replace(known["ampere"], is_fitted=False)


@functools.cache
def efficiencies() -> dict[str, Efficiency]:
    """Return the table's rows by architecture."""
    table: dict[str, Any] = strict_yaml.load_document(TABLE.read_text())
    rows = table.pop("architectures")
    return {name: Efficiency(**table, **row) for name, row in rows.items()}
