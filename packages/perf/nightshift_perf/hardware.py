"""What GPUs can do at most, from the dated table `hardware.yaml`."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError, nearest

TABLE = Path(__file__).with_name("hardware.yaml")


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU.

    Attributes:
        name: its row of the table.
        architecture: of the maker, such as `hopper`.
        peaks: precision (`bf16`, `tf32` ...) -> FLOP/s of dense matrix products.
        memory: bytes.
        bandwidth: of its memory, bytes/s.
        link: to the other GPUs of its node, bytes/s in each direction.
        date: when the row was checked, YYYY-MM-DD.
        source: where the figures come from.
    """

    name: str
    architecture: str
    peaks: Mapping[str, float]
    memory: float
    bandwidth: float
    link: float
    date: str
    source: str

    def peak(self, precision: str) -> float:
        """Return the FLOP/s of a precision.

        Raises:
            UserError: when it computes in others only.
        """
        if precision not in self.peaks:
            raise UserError(f"precision is {precision!r}; {self.name} has {', '.join(self.peaks)}: choose one of these")
        return self.peaks[precision]


@functools.cache
def gpus() -> dict[str, Gpu]:
    """Return the table's rows by name."""
    rows = strict_yaml.load_document(TABLE.read_text())
    return {name: Gpu(name=name, **row | {"memory": row["memory"] * 2**30}) for name, row in rows.items()}


def gpu(name: str) -> Gpu:
    """Return a row.

    Raises:
        UserError: when there is none of that name.
    """
    known = gpus()
    if name not in known:
        raise UserError(f"GPU {name!r} is not known; known: {', '.join(known)}{nearest(name, known)}")
    return known[name]
