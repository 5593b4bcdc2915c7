"""What tools have to know of a network to train it on rows by chance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Network:
    """A network of a config.

    Attributes:
        kind: its recipe's.
        shape: what the recipe has beside its parameters, by name.
        parameters: all of them, with those that the config leaves out.
    """

    kind: str
    shape: Mapping[str, int]
    parameters: Mapping[str, Any]
