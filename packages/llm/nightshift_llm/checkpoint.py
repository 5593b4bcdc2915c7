"""A folder as `transformers` writes it: `config.json`, and safetensors in one file or in shards, read by tensor."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.runtime.errors import UserError

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
STORED = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # bfloat16 is the upper half of float32

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class StoredTensor:
    """Where a tensor lies.

    Attributes:
        file: that holds it.
        offset: of its first byte.
        stored: `F32`, `F16` or `BF16`.
        shape: its shape.
    """

    file: Path
    offset: int
    stored: str
    shape: tuple[int, ...]

    def read(self) -> Floats:
        """Return its values; only this tensor is read."""
        values = np.memmap(self.file, np.dtype(STORED[self.stored]), "r", self.offset, self.shape)
        widened = (values.astype(np.uint32) << 16).view(np.float32) if self.stored == "BF16" else values
        return np.asarray(widened, dtype=np.float32)


@dataclass(frozen=True)
class Checkpoint:
    """A model's config and tensors.

    Attributes:
        folder: where it lies.
        config: fields of `config.json`.
        tensors: by name.
    """

    folder: Path
    config: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]

    def field(self, name: str) -> Any:
        """Return a field of the config.

        Raises:
            UserError: when it is missing.
        """
        if self.config.get(name) is None:
            raise UserError(f"{self.folder / CONFIG}: {name} is missing; write the model with save_pretrained")
        return self.config[name]

    def tensor(self, name: str) -> Floats:
        """Return a tensor's values.

        Raises:
            UserError: when it is missing.
        """
        if name not in self.tensors:
            raise UserError(f"{self.folder} has no tensor {name!r}; write the model with save_pretrained")
        return self.tensors[name].read()


def read_checkpoint(folder: Path) -> Checkpoint:
    """Read the config and where the tensors lie.

    Raises:
        UserError: when a file is missing, or weights are of another type than float32, float16 and bfloat16.
    """
    files = _weight_files(folder)
    tensors = {name: tensor for file in files for name, tensor in _read_header(file).items()}
    return Checkpoint(folder, read_json(folder / CONFIG), tensors)


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object of a model's folder.

    Raises:
        UserError: when the file is missing or no JSON.
    """
    try:
        value: dict[str, Any] = json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{file} is missing; name a folder that save_pretrained wrote, with its tokenizer") from None
    except ValueError as error:
        raise UserError(f"{file} is no JSON ({error}); write the model with save_pretrained") from None
    return value


def _weight_files(folder: Path) -> list[Path]:
    # beside a file with all weights an index is an earlier model's, and transformers does not read it either
    if (folder / WEIGHTS).exists() or not (folder / INDEX).exists():
        return [folder / WEIGHTS]
    files = read_json(folder / INDEX).get("weight_map")
    if not isinstance(files, dict):
        raise UserError(f"{folder / INDEX}: weight_map is missing; write the model with save_pretrained")
    return [folder / name for name in sorted(set(files.values()))]


def _read_header(file: Path) -> dict[str, StoredTensor]:
    """Return a file's tensors: after 8 bytes with its length comes a JSON object with type, shape and offsets."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(length))
    except FileNotFoundError:
        raise UserError(f"{file} is missing; weights are read from safetensors files only") from None
    header.pop("__metadata__", None)
    return {name: _locate(file, name, entry, 8 + length) for name, entry in header.items()}


def _locate(file: Path, name: str, entry: Mapping[str, Any], start: int) -> StoredTensor:
    if entry["dtype"] not in STORED:
        raise UserError(f"{file}: {name} is of type {entry['dtype']}; allowed are {', '.join(STORED)}: save it so")
    return StoredTensor(file, start + entry["data_offsets"][0], entry["dtype"], tuple(entry["shape"]))
