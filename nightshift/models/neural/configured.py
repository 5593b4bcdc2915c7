"""A network as a config describes it; no library is imported."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ConfiguredNetwork:
    """A network of a config, trained on random rows.

    Attributes:
        kind: its recipe's.
        shape: what the recipe has beside its parameters, by name.
        parameters: all of them, with those that the config leaves out.
    """

    kind: str
    shape: Mapping[str, int]
    parameters: Mapping[str, Any]
