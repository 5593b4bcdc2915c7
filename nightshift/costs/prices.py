"""What machines cost, from the dated table `prices.yaml`."""

import datetime
import functools
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from nightshift.errors import UserError, nearest

TABLE = Path(__file__).with_name("prices.yaml")
MACHINE = "NIGHTSHIFT_MACHINE"  # machine and market that a step runs on, as its placement says: `g6.2xlarge spot`


@dataclass(frozen=True)
class Machine:
    """A kind of machine.

    Attributes:
        name: as its cloud has it.
        cloud: `aws` or `gcp`.
        region: that the prices are of.
        vcpus: its virtual CPUs.
        usd: market (`on-demand`, `spot` ...) -> US dollars an hour, None where not known.
        gpu: row of `hardware.yaml`; empty without.
        gpus: how many.
        date: of the prices.
        source: where they come from.
    """

    name: str
    cloud: str
    region: str
    vcpus: int
    usd: Mapping[str, float | None]
    gpu: str = ""
    gpus: int = 0
    date: datetime.date | None = None
    source: str = ""

    @property
    def markets(self) -> Iterator[tuple[str, float | None]]:
        """How it is named with each market -> US dollars an hour."""
        return ((f"{self.name} {market}", usd) for market, usd in self.usd.items())


@functools.cache
def machines() -> dict[str, Machine]:
    """Return the table's rows by name."""
    return {name: Machine(name, **row) for name, row in yaml.safe_load(TABLE.read_text()).items()}


def hourly(name: str, own: Mapping[str, float]) -> float | None:
    """Return what an hour of a machine costs in US dollars, None where no price is known.

    Args:
        name: machine and market, `g6.2xlarge spot`; empty where nobody has said.
        own: machine -> US dollars an hour, which go before the table.

    Raises:
        UserError: when neither has that machine.
    """
    if not name:
        return None
    known = {key: usd for machine in machines().values() for key, usd in machine.markets} | {**own}
    if name not in known:
        raise UserError(
            f"machine {name!r} has no price; known: {', '.join(known)}{nearest(name, known)}; "
            "name one of them, or give its dollars an hour in the config's costs.prices"
        )
    return known[name]


def current(usual: str | None) -> str:
    """Return the machine that this process runs on: what its placement says, else the usual one; empty when neither."""
    return os.environ.get(MACHINE) or usual or ""
