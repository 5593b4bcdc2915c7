"""Weights in files beside the graph that uses them: safetensors, into which the graph points (ONNX external data).

One protobuf holds at most 2 GB. The files are those that engines load, so that a package holds its weights once.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from mmap import mmap
from typing import TYPE_CHECKING, Self

from nightshift import storage

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Weights = Mapping[str, npt.NDArray[np.float32]]

IN_GRAPH = 1 << 30  # bytes of weights up to which a graph holds them itself
SHARD = 2 << 30  # bytes of a file of weights: as many are held twice while it is written
LENGTH = 8  # bytes of a header's length; all that follows is aligned to them


@dataclass(frozen=True)
class WeightFile:
    """A file of safetensors.

    Attributes:
        name: of the file.
        tensors: by name, float32, in the order of the file.
    """

    name: str
    tensors: "Weights"

    @classmethod
    def read(cls, name: str, content: bytes | mmap) -> Self:
        """Return a file of some content, whose tensors are views of it."""
        import numpy as np  # which takes long, and most who read a manifest do without

        start = LENGTH + int.from_bytes(memoryview(content)[:LENGTH], "little")
        entries = json.loads(bytes(memoryview(content)[LENGTH:start]))
        tensors = {}
        for tensor, entry in entries.items():
            first, shape = start + entry["data_offsets"][0], entry["shape"]
            tensors[tensor] = np.frombuffer(content, "<f4", prod(shape), first).reshape(shape)
        return cls(name, tensors)

    @property
    def content(self) -> bytes:
        """What the file holds."""
        return b"".join([self._header, *(tensor.data for tensor in self.tensors.values())])

    @property
    def offsets(self) -> dict[str, int]:
        """Byte of the file at which each tensor begins."""
        return {name: len(self._header) + end - self.tensors[name].nbytes for name, end in self._ends.items()}

    @cached_property
    def _ends(self) -> dict[str, int]:
        sizes = (tensor.nbytes for tensor in self.tensors.values())
        return dict(zip(self.tensors, accumulate(sizes), strict=True))

    @cached_property
    def _header(self) -> bytes:
        entries = {
            name: {"dtype": "F32", "shape": tensor.shape, "data_offsets": [end - tensor.nbytes, end]}
            for (name, tensor), end in zip(self.tensors.items(), self._ends.values(), strict=True)
        }
        text = json.dumps(entries).encode()
        text += b" " * (-len(text) % LENGTH)
        return len(text).to_bytes(LENGTH, "little") + text


class LargeGraph(bytes):
    """An ONNX graph without its weights, for which there are files; it goes wherever the bytes of a graph go."""

    files: Sequence[WeightFile]

    def __new__(cls, content: bytes, files: Sequence[WeightFile]) -> Self:
        """Return a graph with the files that it points into."""
        graph = super().__new__(cls, content)
        graph.files = files
        return graph


def divide(name: str, tensors: "Weights", in_graph: int = IN_GRAPH, shard: int = SHARD) -> list[WeightFile]:
    """Divide a network's weights among files named after a candidate; among none where its graph can hold them.

    Args:
        name: of the candidate.
        tensors: contiguous.
        in_graph: bytes that a graph can hold.
        shard: bytes of a file, at most, unless a single tensor has more.
    """
    if sum(tensor.nbytes for tensor in tensors.values()) <= in_graph:
        return []
    shards: list[dict[str, npt.NDArray[np.float32]]] = []
    room = 0
    for key, tensor in tensors.items():
        if tensor.nbytes > room:
            shards.append({})
            room = shard
        shards[-1][key] = tensor
        room -= tensor.nbytes
    return [
        WeightFile(f"{name}-{number:05}-of-{len(shards):05}.safetensors", part)
        for number, part in enumerate(shards, start=1)
    ]


def weight_files(graph: bytes) -> Sequence[WeightFile]:
    """Return the files of a graph's weights; none where it holds them itself."""
    return graph.files if isinstance(graph, LargeGraph) else ()


def total_size(graph: bytes) -> int:
    """Return the bytes of a graph and of its weights, wherever they lie."""
    return len(graph) + sum(tensor.nbytes for file in weight_files(graph) for tensor in file.tensors.values())


def identify(graph: bytes) -> str:
    """Return the identity of a graph and of its weights, wherever they lie."""
    return combine([storage.sha256(graph), *(storage.sha256(file.content) for file in weight_files(graph))])


def combine(hashes: Sequence[str]) -> str:
    """Return the identity of a graph from the hashes of its file and of those of its weights."""
    return hashes[0] if len(hashes) == 1 else storage.fingerprint(list(hashes))
