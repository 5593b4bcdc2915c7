"""Prices of machines, from the dated table `prices.yaml`."""

import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError, nearest

TABLE = Path(__file__).with_name("prices.yaml")
MACHINE = "NIGHTSHIFT_MACHINE"  # machine and market of a step, set by its placement: `g6.2xlarge spot`


@dataclass(frozen=True)
class Machine:
    """A kind of machine.

    Attributes:
        name: its cloud's name for it.
        cloud: `aws` or `gcp`.
        region: region of the prices.
        vcpus: number of virtual CPUs.
        usd: market (`on-demand`, `spot` ...) -> US dollars an hour, None where not known.
        gpu: row of `hardware.yaml`; empty without a GPU.
        gpus: number of GPUs.
        date: date of the prices, YYYY-MM-DD.
        source: source of the prices.
    """

    name: str
    cloud: str
    region: str
    vcpus: int
    usd: Mapping[str, float | None]
    gpu: str = ""
    gpus: int = 0
    date: str = ""
    source: str = ""

    @property
    def markets(self) -> Iterator[tuple[str, float | None]]:
        """Pairs of machine with market, and US dollars an hour."""
        return ((f"{self.name} {market}", usd) for market, usd in self.usd.items())


@functools.cache
def read_machines() -> dict[str, Machine]:
    """Return the table's rows by name."""
    return {name: Machine(name, **row) for name, row in strict_yaml.load_document(TABLE.read_text()).items()}


def find_price(name: str, own: Mapping[str, float]) -> float | None:
    """Return the price of a machine, US dollars an hour; None if it is not known.

    Args:
        name: machine and market, `g6.2xlarge spot`; empty if the machine is unknown.
        own: machine -> US dollars an hour, which override the table.

    Raises:
        UserError: when neither has that machine.
    """
    if not name:
        return None
    known = {key: usd for machine in read_machines().values() for key, usd in machine.markets} | {**own}
    if name not in known:
        raise UserError(
            f"machine {name!r} has no price; known: {', '.join(known)}{nearest(name, known)}; "
            "name one of them, or give its dollars an hour in the config's costs.prices"
        )
    return known[name]


def find_machine(usual: str | None) -> str:
    """Return this process's machine: that of its placement, else the usual one; empty without either."""
    return os.environ.get(MACHINE) or usual or ""
