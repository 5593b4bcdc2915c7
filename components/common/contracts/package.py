"""A trained model as files: ONNX graphs and JSON, loaded without pickle, scored by ONNX Runtime.

`<uri>/model.json` is written last and names everything else with its hash.
"""

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from components.common import storage
from components.common.errors import UserError

MANIFEST = "model.json"
REFERENCE = "reference.parquet"
INPUT = "inputs"
OUTPUT = "score"
MAX_CATEGORIES = 100


@dataclass(frozen=True)
class Inputs:
    """The named inputs of a model and how they become a matrix.

    Attributes:
        numeric: columns taken as they are.
        categorical: column -> the categories seen in training; one-hot, an unseen value is all zeros.
    """

    numeric: list[str]
    categorical: dict[str, list[str]]

    @classmethod
    def seen_in(cls, rows: pd.DataFrame, numeric: Iterable[str], categorical: Iterable[str]) -> Self:
        """Return the inputs with the categories that occur in some rows, the most frequent `MAX_CATEGORIES`."""
        return cls(list(numeric), {column: _categories(rows[column]) for column in categorical})

    @property
    def columns(self) -> list[str]:
        """The columns a frame must have to be scored."""
        return [*self.numeric, *self.categorical]

    def matrix(self, frame: pd.DataFrame) -> npt.NDArray[np.float32]:
        """Return the model's input, float32 of shape (rows, inputs)."""
        blocks = [frame[self.numeric].to_numpy(dtype=np.float32)]
        # in the order of their names, since that of a mapping does not survive being written as JSON
        for column, categories in sorted(self.categorical.items()):
            values = frame[column].astype(str).to_numpy()
            blocks.append((values[:, None] == np.array(categories, dtype=object)[None, :]).astype(np.float32))
        return np.hstack(blocks)


@dataclass(frozen=True)
class Package:
    """A model version: its candidates and the one selected.

    Attributes:
        inputs: the named inputs.
        selected: name of the candidate that scores.
        candidates: name -> {file, sha256, kind, parameters, validation metrics, seconds}.
        threshold: score from which an event is flagged.
        details: lineage and what the training wants to keep; JSON values.
    """

    inputs: Inputs
    selected: str
    candidates: dict[str, dict[str, Any]]
    threshold: float
    details: dict[str, Any]

    @property
    def sha256(self) -> str:
        """Identity of what scores: the inputs, the threshold and every graph."""
        graphs = {name: candidate["sha256"] for name, candidate in self.candidates.items()}
        return storage.fingerprint([asdict(self.inputs), self.selected, self.threshold, graphs])


def save(uri: str, package: Package, graphs: dict[str, bytes], reference: pd.DataFrame) -> None:
    """Write a model below a URI: the ONNX graphs, a sample of training rows with their scores, the manifest.

    Args:
        uri: folder of the model.
        package: its manifest; `candidates[name]["file"]` names the file of `graphs[name]`.
        graphs: candidate -> serialized ONNX graph, `inputs` float32 (n, d) -> `score` float32 (n,).
        reference: rows of `inputs.columns`, `label` and `score`, against which drift is measured.
    """
    for name, graph in graphs.items():
        storage.write_bytes(storage.join(uri, package.candidates[name]["file"]), graph)
    storage.write_frame(storage.join(uri, REFERENCE), reference)
    storage.write_json(storage.join(uri, MANIFEST), asdict(package) | {"sha256": package.sha256})


def load(uri: str) -> Package:
    """Read a model's manifest.

    Raises:
        UserError: when there is none.
    """
    value = storage.read_json(storage.join(uri, MANIFEST))
    value.pop("sha256")
    return Package(**value | {"inputs": Inputs(**value["inputs"])})


def read_reference(uri: str) -> pd.DataFrame:
    """Read the sample of training rows that a model carries."""
    return storage.read_frame(storage.join(uri, REFERENCE))


class Graph:
    """An ONNX graph, `inputs` float32 (n, d) -> `score` float32 (n,), run by ONNX Runtime on the CPU."""

    def __init__(self, content: bytes, threads: int = 1) -> None:
        # its wheels report their use to Microsoft unless this is there when they are imported
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])

    def score(self, matrix: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return the probability of the positive class of each row, float32 of shape (n,)."""
        (scores,) = self._session.run([OUTPUT], {INPUT: matrix})
        return np.asarray(scores, dtype=np.float32).reshape(-1)


class Scorer:
    """Scores frames with one candidate of a model.

    Raises:
        UserError: when a graph's bytes are not those the manifest names.
    """

    def __init__(self, uri: str, package: Package, candidate: str | None = None, threads: int = 1) -> None:
        entry = package.candidates[candidate or package.selected]
        content = storage.read_bytes(storage.join(uri, entry["file"]))
        if storage.sha256(content) != entry["sha256"]:
            raise UserError(f"{uri}/{entry['file']} is not the file that {MANIFEST} names; restore it or train again")
        self._inputs = package.inputs
        self._graph = Graph(content, threads)

    def score(self, frame: pd.DataFrame) -> npt.NDArray[np.float32]:
        """Return the probability of the positive class of each row, float32 of shape (rows,)."""
        return self._graph.score(self._inputs.matrix(frame))


def _categories(values: pd.Series) -> list[str]:
    # sorted first, so that among equally frequent ones the choice does not depend on the order of rows
    counts = values.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    return sorted(str(value) for value in counts.index[:MAX_CATEGORIES])
