"""`model.json`: a trained model as files that run no code when they are loaded, and what it takes to serve them.

The manifest is written last and names every other file with its hash; how frames become a model's input is in
`nightshift/tabular/inputs.py`.
"""

import operator
from collections.abc import Iterable, Mapping
from datetime import date
from enum import StrEnum
from itertools import chain
from mmap import mmap
from typing import TYPE_CHECKING, Annotated, Self, TypeVar, Union

import annotated_types
from pydantic import Field, computed_field, model_validator

from nightshift import kinds, storage
from nightshift.contracts.artifact import Artifact, FoldWindow, Part, Window
from nightshift.contracts.preprocessing import (
    ClassPreprocessing,
    FileName,
    Inputs,
    Preprocessing,
    TablePreprocessing,
    TabularPreprocessing,
    TokenizedPreprocessing,
)
from nightshift.models import weights
from nightshift.models.weights import LargeGraph, WeightFile, weight_files
from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    import pandas as pd

    AnyPreprocessing = Preprocessing
else:  # the preprocessing of the installed kinds
    AnyPreprocessing = Union[tuple(kind.preprocessing_class for kind in kinds.load_kinds().values())]  # noqa: UP007

MANIFEST = "model.json"
REFERENCE = "reference.parquet"
REASONS = "reasons.safetensors"  # by which scores of the selected candidate are explained, where it has any
INPUT = "inputs"
OUTPUT = "score"
GREEDY = "greedy"  # output of language models' graphs: 1 where a token is the likeliest; no part of the signature
EMBEDDING = "embedding"  # what graphs of networks give besides, for drift; no part of the signature

Size = Annotated[int, annotated_types.Ge(0)]


P = TypeVar("P", bound=Preprocessing)


def _is_absent(value: object) -> bool:
    return value is None


class Format(StrEnum):
    """Formats of a package's files; none of them can run code."""

    ONNX = "onnx"
    SAFETENSORS = "safetensors"
    JSON = "json"
    PARQUET = "parquet"
    GGUF = "gguf"
    USEARCH = "usearch"


class Datatype(StrEnum):
    """Types of a tensor's values, as the Open Inference Protocol calls them."""

    FP32 = "FP32"
    INT32 = "INT32"
    UINT8 = "UINT8"
    BYTES = "BYTES"

    @property
    def dtype(self) -> str:
        """What NumPy calls numbers of this type."""
        return self.lower().replace("fp", "float")


class File(Part):
    """A file of the package."""

    name: FileName = Field(description="its name in the package's folder")
    sha256: str = Field(description="hash of its bytes")
    size: Size = Field(description="bytes")
    format: Format

    @classmethod
    def describe(cls, name: str, data: bytes, kind: Format) -> Self:
        """Describe a file of some bytes."""
        return cls(name=name, sha256=storage.sha256(data), size=len(data), format=kind)


class Tensor(Part):
    """A named tensor, as the Open Inference Protocol describes it."""

    name: str
    datatype: Datatype
    shape: list[int] = Field(description="-1: any number")

    @classmethod
    def of_rows(cls, datatype: Datatype, *shape: int, name: str = INPUT) -> Self:
        """Return an input of any number of rows, each of a shape."""
        return cls(name=name, datatype=datatype, shape=[-1, *shape])


class NamedGraph(Part):
    """A part of every graph of the package, which takes some of its inputs and gives some of its outputs."""

    inputs: list[str] = Field(min_length=1, description="names of the signature's inputs that it takes")
    outputs: list[str] = Field(min_length=1, description="names of the signature's outputs that it gives")


class Signature(Part):
    """What every graph of the package takes and gives."""

    inputs: list[Tensor]
    outputs: list[Tensor]
    graphs: dict[str, NamedGraph] = Field(
        {},
        description="name -> part of the graph that is called where a request has its inputs; each output is of one "
        "of them; absent where a request has all inputs",
        exclude_if=operator.not_,
    )

    @model_validator(mode="after")
    def _check_graphs(self) -> Self:
        if not self.graphs:
            return self
        for field, tensors in (("inputs", self.inputs), ("outputs", self.outputs)):
            names = [name for graph in self.graphs.values() for name in getattr(graph, field)]
            known = {tensor.name for tensor in tensors}
            if set(names) != known or (field == "outputs" and len(names) > len(known)):
                allowed = f"the signature's, {', '.join(sorted(known))}, each output of one graph"
                raise ValueError(f"graphs: their {field} are {', '.join(names)}; allowed: {allowed}")
        return self

    def select(self, name: str) -> Self:
        """Return the signature of a named graph alone."""
        graph = self.graphs[name]
        inputs = [tensor for tensor in self.inputs if tensor.name in graph.inputs]
        outputs = [tensor for tensor in self.outputs if tensor.name in graph.outputs]
        return type(self)(inputs=inputs, outputs=outputs)

    @property
    def score(self) -> Tensor:
        """The output that holds the scores; there may be others."""
        return next(output for output in self.outputs if output.name == OUTPUT)

    @classmethod
    def of_scores(cls, *inputs: Tensor, classes: int | None = None) -> Self:
        """Return the signature of a graph of some inputs -> `score` (n,), or (n, classes)."""
        shape = [-1] if classes is None else [-1, classes]
        return cls(inputs=list(inputs), outputs=[Tensor(name=OUTPUT, datatype=Datatype.FP32, shape=shape)])


class PredictionInterval(Part):
    """From a score to the range in which the label lies, by bins of the score; see `nightshift/stats/conformal.py`."""

    coverage: float = Field(description="share of labels within, above 0 and below 1")
    edges: list[float] = Field(description="scores at which the next bin begins, ascending; one less than bins")
    below: list[float] = Field(description="added to the score for the low end, a number a bin")
    above: list[float] = Field(description="added to the score for the high end, a number a bin")


class DecisionRule(Part):
    """From scores to a decision."""

    threshold: float | None = Field(description="score from which an event is flagged; null: by classes, or a number")
    interval: PredictionInterval | None = Field(
        None, description="around scores that are numbers; absent of others", exclude_if=_is_absent
    )
    thresholds: list[float] = Field(
        [],
        description="score of each class from which a row has it, where a row has any number of classes; absent of "
        "others",
        exclude_if=operator.not_,
    )

    @property
    def is_multilabel(self) -> bool:
        """Whether a row has any number of classes."""
        return bool(self.thresholds)


class PackagedCandidate(Part):
    """A trained candidate."""

    kind: str = Field(description="as in the config")
    parameters: dict[str, float | int | str | bool] = Field(description="as in the config")
    inputs: list[str] = Field(
        [],
        description="columns that its graph uses; absent where it uses all",
        exclude_if=operator.not_,
    )
    members: list[str] = Field([], description="candidates that it averages; absent without", exclude_if=operator.not_)
    choices: dict[str, float] = Field(
        {},
        description="what validation rows have said: rounds of trees, weights of members, or the step whose weights "
        "were kept and its loss; absent without",
        exclude_if=operator.not_,
    )
    file: FileName = Field(description="its graph")
    weights: list[FileName] = Field([], description="files of the weights that its graph does not hold itself")
    validation: dict[str, float | None] = Field(description="metrics on the validation days, fitted on earlier ones")
    seconds: float = Field(description="time its fit took")
    losses: list[tuple[int, float]] = Field(
        default_factory=list, description="step, and mean loss of the steps since the point before; of networks"
    )
    validation_losses: list[tuple[int, float]] = Field(
        [],
        description="step, and loss after it of the rows that its training held out; absent without",
        exclude_if=operator.not_,
    )


class Optimized(Part):
    """How the selected candidate's graph was changed after its training."""

    form: str = Field(description="how it was made: `graph`, `int8 dynamic`, `int8 static`")
    original_sha256: str = Field(description="identity of the model before")


class Lineage(Part):
    """What a model was made from; no part of its identity."""

    events_sha256: str = Field(description="identity of the events table")
    features_sha256: str = Field(description="identity of the features table")
    train: FoldWindow = Field(description="days it was fitted on")
    validation: FoldWindow = Field(description="days on which the candidate was selected")
    reference: Window | None = Field(
        None, description="days and rows of the sample that drift is measured against; null: of the training days"
    )
    days: dict[date, Size] = Field(
        {}, description="rows of each day of the features table that it was made from; a weekday's level is theirs"
    )
    selected_by: str = Field(description="the metric that selected the candidate")
    reason: str = Field(description="why this candidate, a sentence")
    constant: list[str] = Field(description="inputs that are the same in every training row")
    unlearned: list[str] = Field([], description="classes that no training row has; none where a task has no classes")
    device: str = Field(description="`cpu` or `cuda`")
    seed: int
    code_version: str = Field(description="version of the code that trained it")
    optimized: Optimized | None = Field(None, description="null where the graph is the one that was trained")


class ModelPackage(Artifact):
    """A model version: its files, how to feed it, how to decide by it, and what it was made from."""

    files: list[File] = Field(description="every file but this one")
    signature: Signature
    preprocessing: Annotated[AnyPreprocessing, Field(discriminator="kind")] = Field(
        description="discriminated by `kind`, one per task"
    )
    decision: DecisionRule
    selected: str = Field(description="name of the candidate that scores")
    candidates: dict[str, PackagedCandidate]
    engine_file: FileName | None = Field(
        None, description="the file by which an engine generates text, of a language model; null where there is none"
    )
    answer_files: list[FileName] = Field(
        [],
        description="files by which requests are answered besides the graph, such as an index of embeddings; absent "
        "without",
        exclude_if=operator.not_,
    )
    dropped: dict[str, str] = Field(description="candidate that was left out -> why, a sentence")
    lineage: Lineage

    @computed_field(  # type: ignore[prop-decorator]
        description="identity of what answers: signature, preprocessing, decision, every graph, the files of engine"
        " and reasons, and answer_files"
    )
    @property
    def sha256(self) -> str:
        """Identity of what answers: signature, preprocessing, decision, graphs, files of engine, reasons, answers."""
        scoring = self.model_dump(mode="json", include={"signature", "preprocessing", "decision", "selected"})
        further_names = {self.engine_file, REASONS, *self.answer_files}
        further = [file.sha256 for file in self.files if file.name in further_names]
        return storage.fingerprint([scoring, {name: self.identify_graph(name) for name in self.candidates}, *further])

    @property
    def kind(self) -> str:
        """The task it is a model of."""
        return str(self.preprocessing.model_dump(include={"kind"})["kind"])

    @property
    def tabular(self) -> TablePreprocessing:
        """How events become the input of a model whose features are made of the events before.

        Raises:
            UserError: when it is a model of another task, which whoever asks cannot use yet.
        """
        return self.preprocessing_as(TablePreprocessing)

    @property
    def classes(self) -> ClassPreprocessing:
        """How images, texts or rows become the input of a model that tells their classes apart.

        Raises:
            UserError: when it is a model of another task.
        """
        return self.preprocessing_as(ClassPreprocessing)

    @property
    def inputs(self) -> Inputs:
        """The named inputs of a model whose rows have columns.

        Raises:
            UserError: when its rows are images or texts.
        """
        return self.preprocessing_as(Inputs)

    @property
    def threshold(self) -> float:
        """The score from which a tabular model flags an event.

        Raises:
            UserError: when it is a model of another task.
        """
        self.preprocessing_as(TabularPreprocessing)
        assert self.decision.threshold is not None
        return self.decision.threshold

    def preprocessing_as(self, kind: type[P]) -> P:
        """Return how its rows become its input, of the task that a caller can do.

        Raises:
            UserError: when it is a model of another task.
        """
        if not isinstance(self.preprocessing, kind):
            raise UserError(f"the model is one of task {self.kind!r}, and this takes models of {kind.scope} only")
        return self.preprocessing

    @property
    def reasons(self) -> File | None:
        """The file by which scores are explained; None without one."""
        return next((file for file in self.files if file.name == REASONS), None)

    @property
    def vocabularies(self) -> list[str]:
        """Names of the files that turn texts into the graphs' input and back: a tokenizer's, or none."""
        return [file.name for file in self.files if file.format is Format.JSON and file.name not in self.answer_files]

    def graph(self, candidate: str) -> File:
        """Return the file of a candidate's graph."""
        return self._file(self.candidates[candidate].file)

    def graph_files(self, candidate: str) -> list[File]:
        """Return the file of a candidate's graph, then those of the weights that it does not hold itself."""
        return [self.graph(candidate), *map(self._file, self.candidates[candidate].weights)]

    def identify_graph(self, candidate: str) -> str:
        """Return the identity of a candidate's graph and weights."""
        return weights.combine([file.sha256 for file in self.graph_files(candidate)])

    def _file(self, name: str) -> File:
        return next(file for file in self.files if file.name == name)


def save(
    uri: str,
    package: ModelPackage,
    graphs: Mapping[str, bytes],
    reference: "pd.DataFrame",
    files: Iterable[tuple[str, bytes]] = (),
) -> ModelPackage:
    """Write a model below a URI: its files, a sample of rows with their scores, the manifest.

    Args:
        uri: folder of the model.
        package: its manifest, which names the graphs' files.
        graphs: candidate -> serialized ONNX graph of the package's signature, with its files.
        reference: rows against which drift is measured.
        files: names and bytes of others; of those that are made as they are asked for, one is held at a time.

    Returns:
        the manifest with all files.
    """
    for name, graph in graphs.items():
        storage.write_bytes(storage.join(uri, package.candidates[name].file), graph)
    stored = ((file.name, file.content) for graph in graphs.values() for file in weight_files(graph))
    others = [write_file(uri, name, content) for name, content in chain(stored, files)]
    sample = storage.join(uri, REFERENCE)
    storage.write_frame(sample, reference)
    written = File.describe(REFERENCE, storage.read_bytes(sample), Format.PARQUET)
    complete = package.model_copy(update={"files": [*package.files, *others, written]})
    complete.write(storage.join(uri, MANIFEST))
    return complete


def write_file(uri: str, name: str, content: bytes) -> File:
    """Write a file of the model at a URI, and describe it."""
    storage.write_bytes(storage.join(uri, name), content)
    return File.describe(name, content, Format(name.rpartition(".")[2]))


def load(uri: str) -> ModelPackage:
    """Read a model's manifest.

    Raises:
        UserError: when there is none, or when it is not as it was written.
    """
    return ModelPackage.read(storage.join(uri, MANIFEST))


def copy(source: str, target: str, only: Iterable[str] | None = None) -> None:
    """Copy a model's files, or only some of them, then its manifest; no file is ever held whole.

    Raises:
        UserError: when a file is missing or not the one that the manifest names.
    """
    wanted = None if only is None else set(only)
    for file in load(source).files:
        if wanted is None or file.name in wanted:
            sha256 = storage.copy(storage.join(source, file.name), storage.join(target, file.name))
            check(storage.join(source, file.name), sha256, file)
    storage.copy(storage.join(source, MANIFEST), storage.join(target, MANIFEST))


def read_graph(uri: str, package: ModelPackage, candidate: str) -> bytes:
    """Read a candidate's graph of the model at a URI; weights in files of their own are mapped, not read.

    Raises:
        UserError: when a file is missing, or its bytes are not those the manifest names.
    """
    graph, *stored = package.graph_files(candidate)
    content = _read(uri, graph)
    mapped = [WeightFile.read(file.name, _map(uri, file)) for file in stored]
    return LargeGraph(content, mapped) if stored else content


def map_file(uri: str, package: ModelPackage, name: str) -> mmap | bytes:
    """Map a file of the model at a URI into memory; of an object store's a copy, which is gone when nobody holds it.

    Raises:
        UserError: when the manifest does not name it, it is missing, or its bytes are not those the manifest names.
    """
    file = next((file for file in package.files if file.name == name), None)
    if file is None:
        raise UserError(f"{uri} has no file {name}; train again")
    return _map(uri, file)


def read_tokenizer(uri: str, package: ModelPackage) -> bytes:
    """Read the tokenizer's file of the model of texts at a URI; empty where words are hashed.

    Raises:
        UserError: when its bytes are not those the manifest names, or it is a model of another task.
    """
    name = package.preprocessing_as(TokenizedPreprocessing).tokenizer
    return _read(uri, next(file for file in package.files if file.name == name)) if name else b""


def _read(uri: str, file: File) -> bytes:
    path = storage.join(uri, file.name)
    content = storage.read_bytes(path)
    check(path, storage.sha256(content), file)
    return content


def _map(uri: str, file: File) -> mmap | bytes:
    path = storage.join(uri, file.name)
    content = storage.map_file(path)
    check(path, storage.sha256(content), file)
    return content


def check(uri: str, sha256: str, file: File) -> None:
    """Refuse a file with another hash than the manifest gives it.

    Raises:
        UserError: when it has.
    """
    if sha256 != file.sha256:
        raise UserError(f"{uri} is not the file that {MANIFEST} names; restore it or train again")


def read_reference(uri: str) -> "pd.DataFrame":
    """Read the sample of rows that a model carries: of its training days, of images and texts of days before them."""
    return storage.read_frame(storage.join(uri, REFERENCE))
