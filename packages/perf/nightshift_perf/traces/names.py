"""What a kernel is, as far as its name tells; a name that no pattern knows is unknown, and never a no."""

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from nightshift.runtime import strict_yaml


class Kind(StrEnum):
    """What a kernel does."""

    COMMUNICATION = "communication"
    MATRIX = "matrix product"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class KernelClass:
    """What a name says of a kernel.

    Attributes:
        kind: what it does; convolutions and attention are matrix products.
        tensor_cores: whether a matrix product runs on tensor cores (AMD: matrix cores); None where the name is silent.
        precision: of its operands (`bf16`, `fp8` ...), of several the narrowest; None where the name is silent.
    """

    kind: Kind
    tensor_cores: bool | None = None
    precision: str | None = None


LOW = ("fp4", "fp8", "int8", "bf16", "fp16")  # narrower than what processors without tensor cores compute in


def _any(patterns: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


TABLE = strict_yaml.load_document(Path(__file__).with_name("names.yaml").read_text())
KINDS = [(Kind(kind), _any(patterns)) for rule in TABLE["kinds"] for kind, patterns in rule.items()]
ON, OFF = _any(TABLE["tensor cores"]), _any(TABLE["ordinary cores"])
PRECISIONS = {precision: _any([pattern]) for precision, pattern in TABLE["precisions"].items()}
TENSILE = re.compile(r"Cijk_\w{4}_\w{4}_([A-Z0-9]+)")
TENSILE_TYPES: dict[str, str] = TABLE["tensile"]
COLLECTIVES: dict[str, list[str]] = TABLE["collectives"]
MANGLED = re.compile(r"_ZN(\d.*)")  # https://itanium-cxx-abi.github.io/cxx-abi/abi.html#mangling


@functools.cache
def classify(name: str) -> KernelClass:
    """Return what a name says of a kernel."""
    kind = next((kind for kind, pattern in KINDS if pattern.search(name)), Kind.UNKNOWN)
    if kind is not Kind.MATRIX:
        return KernelClass(kind)
    precision = _precision(name)
    return KernelClass(kind, _tensor_cores(name, precision), precision)


def _precision(name: str) -> str | None:
    if tensile := TENSILE.search(name):
        types = tensile[1]
        return TENSILE_TYPES.get(types[:2]) or TENSILE_TYPES.get(types[:1])
    return next((precision for precision, pattern in PRECISIONS.items() if pattern.search(name)), None)


def _tensor_cores(name: str, precision: str | None) -> bool | None:
    if OFF.search(name):
        return False
    if ON.search(name):
        return True
    if "Cijk_" in name and re.search(r"_MT\d", name):  # Tensile names the matrix instruction, `_MI`, where it has one
        return False
    return True if precision in LOW or precision == "tf32" else None


def collective(name: str) -> str:
    """Return the collective operation of a kernel or of NCCL's own name of it, such as `all_reduce`."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    return next((key for key, parts in COLLECTIVES.items() if any(part in plain for part in parts)), "other")


def short(name: str) -> str:
    """Return a kernel's name without the return type, template arguments and parameters, for people."""
    if mangled := MANGLED.match(name):
        return "::".join(_identifiers(mangled[1]))
    plain = name.removeprefix("void ").replace("(anonymous namespace)", "anonymous")
    depth, kept = 0, []
    for letter in plain:
        depth += letter == "<"
        if not depth:
            if letter == "(":
                break
            kept.append(letter)
        depth -= letter == ">" and depth > 0
    return "".join(kept).strip() or name


def _identifiers(mangled: str) -> Iterator[str]:
    """Yield the parts of a nested name in the C++ ABI's spelling, each after its length, up to template arguments."""
    while length := re.match(r"\d+", mangled):
        end = length.end() + int(length[0])
        yield mangled[length.end() : end]
        mangled = mangled[end:]
