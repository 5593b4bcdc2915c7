"""The serving version, and its replacement by the next one: between two requests, or not at all."""

import asyncio
import math
import time
from collections import ChainMap
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from nightshift.contracts import package
from nightshift.contracts.package import OUTPUT, Datatype, ModelPackage, NamedGraph, Signature, Tensor, read_graph
from nightshift.contracts.preprocessing import FeatureSpec, Inputs
from nightshift.items.scorer import scores
from nightshift.models.cutting import cut_graphs
from nightshift.models.graph import PROVIDERS, Graph
from nightshift.models.tensors import Tensors, make_zeros
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import log
from nightshift.serving.assignment import is_answered
from nightshift.serving.batching import Batcher, Field, ServerLimits, Statistics
from nightshift.serving.feature_encoder import FeatureEncoder
from nightshift.serving.files import DeploymentPointer
from nightshift.serving.items.decoder import DecoderPool
from nightshift.serving.items.loader import load_answers, load_schema
from nightshift.serving.named import NamedBatcher
from nightshift.serving.online import Online
from nightshift.serving.reasons import ReasonLimits
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.embedded import Embedded
from nightshift.tabular.online.follower import Follower
from nightshift.tabular.online.store import Store
from nightshift.tabular.reasons import Explainer

POLL_SECONDS = 0.2
CHECK_SECONDS = 60  # between checks for newer snapshots or after a failure: object stores charge for listings


@dataclass(frozen=True)
class Model:
    """A version in memory.

    Attributes:
        name: registered model, or the package's name.
        pointer: the pointer to the version.
        package: manifest of the version.
        preprocessor: turns requests into the graph's inputs: encodes columns, or decodes items.
        batcher: calls the graph with batches of rows; of named graphs, the one that gives scores.
        reasons: explains scores; None: the version has no reasons.
        named: calls each named graph; none where the package has one graph.
    """

    name: str
    pointer: DeploymentPointer
    package: ModelPackage
    preprocessor: FeatureEncoder | DecoderPool
    batcher: Batcher
    reasons: ReasonLimits | None = None
    named: Sequence[NamedBatcher] = ()

    @property
    def encoder(self) -> FeatureEncoder:
        """Encoder of a model whose rows have columns."""
        assert isinstance(self.preprocessor, FeatureEncoder)
        return self.preprocessor

    @property
    def decoder(self) -> DecoderPool | None:
        """Decoder of a model whose rows are items; None: its rows have columns."""
        return self.preprocessor if isinstance(self.preprocessor, DecoderPool) else None

    @property
    def statistics(self) -> Statistics:
        """Counts of its graphs' batches."""
        return Statistics.total([graph.batcher.statistics for graph in self.named] or [self.batcher.statistics])

    async def run(self, inputs: Tensors, field: Field) -> Tensors:
        """Return what its graphs give by name: scores, or outputs of each named graph that n rows have the inputs of.

        Args:
            inputs: n rows by name.
            field: a row's index -> its name in the request.

        Raises:
            OverloadedError: when too many rows wait.
            NoScoreError: for a row without finite outputs.
        """
        if not self.named:
            return {OUTPUT: await self.batcher.score(inputs, field)}
        calls = [graph.run(inputs, field) for graph in self.named if graph.inputs <= inputs.keys()]
        return dict(ChainMap(*map(dict, await asyncio.gather(*calls))))

    @cached_property
    def forms(self) -> list[dict[str, Tensor]]:
        """Alternative sets of a request's tensors, by name: the graph's inputs, or the fields of items."""
        inputs = _index_by_name(self.package.signature.inputs)
        if self.decoder is None:
            return [inputs]
        forms = self.decoder.items.forms
        fields = [_index_by_name([_make_bytes_tensor(field.name) for field in form]) for form in forms]
        return [{name: inputs[name] for name in inputs if name in {field.input for field in f}} for f in forms] + fields

    @cached_property
    def outputs(self) -> dict[str, Tensor]:
        """The tensors of a response, by name."""
        texts = ["label"] if self.classes else []
        if self.decoder and self.decoder.answers:
            texts += self.decoder.answers.schema
        signature = self.package.signature
        tensors = signature.outputs if signature.graphs else [signature.score]
        return _index_by_name([*tensors, *map(_make_bytes_tensor, texts)])

    def find_outputs(self, names: Collection[str]) -> dict[str, Tensor]:
        """Return the tensors of the response to a request with tensors of some names."""
        if not self.decoder or not self.named:
            return self.outputs
        items, answers = self.decoder.items, self.decoder.answers
        inputs = {field.input for field in items.fields if {field.name, field.input} & {*names}}
        available = {output for graph in self.named if graph.inputs <= inputs for output in graph.outputs}
        available |= {"label"} if OUTPUT in available and self.classes else set()
        available |= {*answers.list_names(available)} if answers else set()
        return {name: tensor for name, tensor in self.outputs.items() if name in available}

    @cached_property
    def classes(self) -> list[str]:
        """What each of a row's scores is of; none where it has one."""
        return self.package.preprocessing.labels

    @cached_property
    def threshold(self) -> float:
        """Score from which a row is flagged; infinity for a model that flags nothing."""
        threshold = self.package.decision.threshold
        return math.inf if threshold is None else threshold


def _index_by_name(tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    return {tensor.name: tensor for tensor in tensors}


def _make_bytes_tensor(name: str) -> Tensor:
    return Tensor(name=name, datatype=Datatype.BYTES, shape=[-1])


@dataclass(frozen=True)
class Split:
    """A loaded challenger, which answers a share of the entities: customers, events, images or texts.

    Attributes:
        model: the challenger.
        share: part of the entities, above 0 and below 1.
    """

    model: Model
    share: float

    def answers(self, entity: object) -> bool:
        """Return whether the challenger answers an entity."""
        return is_answered(self.model.pointer.sha256, self.share, str(entity))

    def partition(self, champion: Model, entities: Sequence[object]) -> list[tuple[Model, list[int]]]:
        """Return each version with the indexes of its entities; a version without any is left out."""
        indexes: dict[bool, list[int]] = {False: [], True: []}
        for index, entity in enumerate(entities):
            indexes[self.answers(entity)].append(index)
        return [(model, indexes[key]) for key, model in ((False, champion), (True, self.model)) if indexes[key]]


def _list_reads(model: Model) -> list[object]:
    """Return what two versions that answer side by side have alike, since a request is read once."""
    return [model.package.preprocessing.reads, {frozenset(graph.inputs) for graph in model.named}]


def load(name: str, pointer: DeploymentPointer, limits: ServerLimits, device: str = "cpu") -> Model:
    """Load a version and call it once.

    Raises:
        UserError: when its files differ from the registered ones, its task cannot be served, or the device is missing.
    """
    manifest = package.load(pointer.uri)
    if manifest.sha256 != pointer.sha256:
        raise UserError(f"{pointer.uri} holds model {manifest.sha256[:8]}, not {pointer.sha256[:8]}; restore its files")
    content, preprocessing = read_graph(pointer.uri, manifest, manifest.selected), manifest.preprocessing
    example = make_zeros(manifest.signature.inputs)
    if manifest.signature.graphs:
        answers = load_answers(manifest, pointer.uri)
        decoder = DecoderPool(load_schema(manifest, pointer.uri), limits.queue, answers)
        named = _load_named(manifest.signature, content, partial(NamedBatcher, example=example, limits=limits), device)
        scoring = next(graph.batcher for graph in named if OUTPUT in graph.outputs)
        return Model(name, pointer, manifest, check_fields(decoder, named), scoring, named=named)
    graph = Graph(content, provider=PROVIDERS[device])
    if isinstance(preprocessing, Inputs):
        encoder = FeatureEncoder(preprocessing, limits.rows)
        reasons = _load_reasons(manifest, pointer.uri, limits)
        return Model(name, pointer, manifest, encoder, Batcher(graph.score, example, limits), reasons)
    decoder = DecoderPool(load_schema(manifest, pointer.uri), limits.queue)
    # as offline scoring does: large batches in parts
    return Model(name, pointer, manifest, decoder, Batcher(partial(scores, graph), example, limits))


def _load_named(
    signature: Signature, content: bytes, call: Callable[[Graph, NamedGraph], NamedBatcher], device: str
) -> list[NamedBatcher]:
    """Cut the named graphs of a signature, and load each; weights in files are shared."""
    return [
        call(Graph(part, provider=PROVIDERS[device]), signature.graphs[name])
        for name, part in cut_graphs(content, signature).items()
    ]


def check_fields(decoder: DecoderPool, named: Sequence[NamedBatcher]) -> DecoderPool:
    """Return the decoder of items each of which has inputs of a named graph.

    Raises:
        UserError: when an item may have fields that no graph takes.
    """
    for form in decoder.items.forms:
        if not any(graph.inputs <= {field.input for field in form} for graph in named):
            fields = " and ".join(repr(field.name) for field in form)
            raise UserError(f"no graph of the model takes an item of {fields} alone; add one to the signature's graphs")
    return decoder


def _load_reasons(manifest: ModelPackage, uri: str, limits: ServerLimits) -> ReasonLimits | None:
    return ReasonLimits(Explainer.load(uri, manifest), limits.reasons_ms) if manifest.reasons else None


class ModelManager:
    """Holds the serving version and replaces it whole: a request sees one version from start to end.

    Attributes:
        model: the serving version.
        split: the challenger with its share of the entities; None: there is none.
        online: state that raw events need; None where the pointer names no snapshot.
        wanted: the pointer that was read last.
        loaded: the pointer that is served, with its snapshot and challenger.
        problem: why `wanted` is not served; None when it is.
    """

    def __init__(
        self,
        read_pointer: Callable[[], DeploymentPointer],
        load: Callable[[DeploymentPointer], Model],
        folder: str = "",
        store: Callable[[Base], Store] | None = None,
    ) -> None:
        """Load the version of the pointer.

        Args:
            read_pointer: reads the pointer; called repeatedly.
            load: loads a version.
            folder: folder of the online state and of copies of its snapshots.
            store: opens the online state over a snapshot; None: this process keeps it in the folder.
        """
        self._read_pointer, self._load, self._folder = read_pointer, load, folder
        self._open = store or partial(Embedded, Path(folder))
        self.wanted = read_pointer()
        self.problem: str | None = None
        self.online: Online | None = None
        self._next_check = 0.0  # time of the monotonic clock
        self.model = load(self.wanted)
        self.split = self._load_split(self.model)
        self._models = [self.model]
        self._last_find: tuple[FeatureSpec | None, Model, Model] = None, self.model, self.model
        self._follow_snapshot(self.model)
        self.loaded = self.wanted

    def refresh(self) -> None:
        """Read the pointer, and load its version if it is a new one; a failed load is tried again."""
        try:
            if self.online:
                self.online.probe()
            self._take_over(self._poll_pointer())
        except Exception as error:  # whatever is wrong with the new version, the old one keeps serving
            self._report(f"{type(error).__name__}: {error}")

    def follow(self, report: Callable[[object], None]) -> None:
        """Follow the pointer until the process ends.

        Args:
            report: called with the served pointer, or None while it lags behind.
        """
        while True:
            report(None if self.problem else replace(self.loaded, since="", trial=None))
            time.sleep(POLL_SECONDS)
            self.refresh()

    def close(self) -> None:
        """Close the online state."""
        if self.online is not None:
            self.online.close()
            self.online = None

    def find(self, version: str) -> Model | None:
        """Return a serving version by its number; None when it does not serve."""
        return next((model for model in self.list_answering(None) if str(model.pointer.version) == version), None)

    def list_answering(self, pinned: Model | None) -> list[Model]:
        """Return the versions that may answer a request: the pinned one, or the champion and its challenger."""
        split = self.split
        return [pinned] if pinned else [self.model, *([split.model] if split else [])]

    def find_split(self, model: Model) -> Split | None:
        """Return the challenger beside a version; None once another version has taken over."""
        split = self.split  # read before the version: the next one brings its own
        return split if model is self.model else None

    def find_by_features(self, spec: FeatureSpec) -> Model:
        """Return the version whose features are these.

        While a snapshot with others takes over, two versions serve; otherwise it is `model`.
        """
        newest = self.model
        # cached: comparing features takes as long as scoring
        last_spec, last_newest, model = self._last_find
        if last_spec is not spec or last_newest is not newest:
            model = next(model for model in (newest, *self._models) if model.package.tabular.features == spec)
            self._last_find = spec, newest, model
        return model

    def _poll_pointer(self) -> DeploymentPointer:
        try:
            return self._read_pointer()
        except Exception:
            self._next_check = 0.0  # as soon as the pointer can be read again
            raise

    def _take_over(self, wanted: DeploymentPointer) -> None:
        if wanted != self.wanted:
            # in this order: an old problem is never the new version's
            self.problem, self.wanted = None, wanted
        elif time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + CHECK_SECONDS
        if wanted == self.loaded:
            self._renew_snapshot()
        else:
            self._replace(self._load(wanted))
            self.loaded = wanted
            log.info("serving version %d", wanted.version)
        self.problem = None

    def _load_split(self, model: Model) -> Split | None:
        """Load a version's challenger.

        Raises:
            UserError: when its files are wrong, or its inputs differ from the version's.
        """
        named = model.pointer.challenger
        if named is None:
            return None
        pointer = replace(model.pointer, version=named.version, uri=named.uri, sha256=named.sha256, challenger=None)
        challenger = self._load(pointer)
        if _list_reads(challenger) != _list_reads(model):
            raise UserError(
                f"version {named.version} has other inputs than version {model.pointer.version}, so a request cannot "
                "be read for both; release it with `release: {shares: []}`"
            )
        return Split(challenger, named.share)

    def _replace(self, model: Model) -> None:
        split = self._load_split(model)
        self._models = [model, self.model]
        self._follow_snapshot(model)
        self.split = None  # at no moment another version's challenger
        self.model = model
        self.split = split

    def _follow_snapshot(self, model: Model) -> None:
        """Move the online state to the version's snapshot, unless its own is as new and serves the version."""
        uri = model.pointer.snapshot
        if uri is None:
            self.close()
        elif self.online:
            self.online.follower.follow(uri, model.package.tabular)
        else:
            self.online = Online(Follower(self._folder, uri, model.package.tabular, self._open))

    def _renew_snapshot(self) -> None:
        """Move to a newer snapshot: a run may write one without a deployment."""
        if self.online and (uri := self.online.follower.renew(self.model.package.tabular)):
            log.info("the online state lies over %s", uri)

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            log.error("still serving version %d: %s", self.model.pointer.version, problem)
        self.problem = problem

    def labels(self) -> tuple[dict[str, str], bool]:
        """Return the serving version's labels for Prometheus, and whether another version should serve."""
        model = self.model
        labels = {"version": str(model.pointer.version), "candidate": model.package.selected}
        return labels | {"sha256": model.pointer.sha256}, self.problem is not None

    def health(self) -> dict[str, Any]:
        """Return the serving version, the wanted one, and the problem of loading it or of the online state."""
        problem = self.problem or (self.online.problem if self.online else None)
        status = "degraded" if problem else "ok"
        serving = self.model.pointer.version
        loaded = self.loaded == self.wanted
        return {
            "status": status,
            "version": serving,
            "wanted": asdict(self.wanted),
            "loaded": loaded,
            "problem": problem,
        }
