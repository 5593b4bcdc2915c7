"""Reads a contract by its paths, and knows what was not read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from nightshift.runtime.errors import UserError

SHOWN = 100  # characters of a wrong value
ALLOWED: Mapping[type, str] = {str: "text", float: "a number", bool: "true or false", list: "a list", dict: "an object"}


@dataclass(frozen=True)
class ContractNode:
    """An object in a contract.

    Attributes:
        value: its keys and values.
        path: where it stands, such as `schema[0].properties[2]`; empty for the whole document.
        used: paths that were read, of the whole document.
    """

    value: Mapping[str, Any]
    path: str = ""
    used: set[str] = field(default_factory=set)

    def text(self, key: str) -> str:
        """Return a text, empty where there is none."""
        return str(self._read(key, str) or "")

    def number(self, key: str) -> float | None:
        """Return a number."""
        value: float | None = self._read(key, float)
        return value

    def flag(self, key: str) -> bool:
        """Return whether a value is true; what is missing is false."""
        return bool(self._read(key, bool))

    def values(self, key: str) -> list[Any]:
        """Return a list, whole."""
        return list(self._read(key, list) or [])

    def node(self, key: str) -> Self:
        """Return an object, empty where there is none; it counts as read by what is read of it."""
        return type(self)(self._check(key, dict) or {}, self.at(key), self.used)

    def nodes(self, key: str) -> list[Self]:
        """Return the objects of a list.

        Raises:
            UserError: naming the first entry that is none.
        """
        entries = self._check(key, list) or []
        for number, entry in enumerate(entries):
            _require(f"{self.at(key)}[{number}]", entry, dict)
        return [type(self)(entry, f"{self.at(key)}[{number}]", self.used) for number, entry in enumerate(entries)]

    def custom(self, name: str) -> Any:
        """Return a custom property by its name; None where there is none."""
        for entry in self.nodes("customProperties"):
            if entry.value.get("property") == name:
                self.used.add(entry.path)
                return entry.value.get("value")
        return None

    def at(self, key: str) -> str:
        """Return the path of a key."""
        return f"{self.path}.{key}" if self.path else key

    def ignore(self, *keys: str) -> None:
        """Have keys count as read that say nothing which the config lacks."""
        self.used.update(map(self.at, keys))

    def list_unread(self) -> Iterator[str]:
        """Yield the paths that were not read, of an object of which nothing was its own alone."""
        for key, value in self.value.items():
            yield from self._unread(self.at(key), value)

    def _unread(self, path: str, value: Any) -> Iterator[str]:
        if path in self.used:
            return
        nested = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        if not nested or not any(used.startswith((f"{path}.", f"{path}[")) for used in self.used):
            yield path
            return
        for key, entry in nested:
            yield from self._unread(f"{path}[{key}]" if isinstance(value, list) else f"{path}.{key}", entry)

    def _read(self, key: str, kind: type) -> Any:
        self.used.add(self.at(key))
        return self._check(key, kind)

    def _check(self, key: str, kind: type) -> Any:
        value = self.value.get(key)
        if value is not None:
            _require(self.at(key), value, kind)
        return value


def _require(path: str, value: Any, kind: type) -> None:
    allowed: tuple[type, ...] = (float, int) if kind is float else (kind,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        raise UserError(f"{path} is {str(value)[:SHOWN]!r}; it takes {ALLOWED[kind]}")
