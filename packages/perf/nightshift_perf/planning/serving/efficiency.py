"""What shares of their data sheets' figures GPUs reach while they serve, from `efficiency.yaml`."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nightshift.runtime import strict_yaml
from nightshift_perf.hardware import Gpu

TABLE = Path(__file__).with_name("efficiency.yaml")


@dataclass(frozen=True)
class ServingEfficiency:
    """Shares, 0..1, and times in seconds; `efficiency.yaml` gives the reason for each.

    Attributes:
        products: precision -> share of its peak that matrix products reach; others reach that of bf16.
        attention: share of the 16-bit peak that the attention of a prompt reaches.
        traffic: share of the memory's bandwidth.
        links: share of a link that an all-reduce reaches.
        kernel: seconds that a kernel takes at least.
        decode: seconds that the attention of decoding requests takes at least.
        collective: seconds that an all-reduce takes at least.
        prompt: seconds that the attention of a prompt takes at least.
        quantization: bytes moved per activation that is quantized to 8 bits.
        dispatch: seconds per layer that the engine adds to a first token.
        queue: doublings of the requests in flight after which a first token takes twice as long.
        is_fitted: whether points of this architecture were fitted.
    """

    products: Mapping[str, float]
    attention: float
    traffic: float
    links: float
    kernel: float
    decode: float
    collective: float
    prompt: float
    quantization: float
    dispatch: float
    queue: float
    is_fitted: bool = True


def find_efficiency(gpu: Gpu) -> ServingEfficiency:
    """Return the row of a GPU's architecture; Ampere's, marked as not fitted, where there is none."""
    rows = read_efficiencies()
    return rows.get(gpu.architecture) or replace(rows["ampere"], is_fitted=False)


@functools.cache
def read_efficiencies() -> dict[str, ServingEfficiency]:
    """Return the table's rows by architecture."""
    table: dict[str, Any] = strict_yaml.load_document(TABLE.read_text())
    rows = table.pop("architectures")
    return {name: ServingEfficiency(**table, **row) for name, row in rows.items()}
