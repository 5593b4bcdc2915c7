"""Which version answers, and how the next one takes over: between two requests, or not at all."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from nightshift.assignment import is_answered
from nightshift.classification.scorer import scores
from nightshift.contracts import package
from nightshift.contracts.package import Datatype, ModelPackage, Tensor, read_graph
from nightshift.contracts.preprocessing import Inputs, Windows
from nightshift.errors import UserError
from nightshift.graph import PROVIDERS, Graph
from nightshift.serving.batching import Batcher, Limits
from nightshift.serving.files import Pointer
from nightshift.serving.items import tasks
from nightshift.serving.items.reader import Reader
from nightshift.serving.online import Online
from nightshift.serving.rows import Rows
from nightshift.step import log
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.embedded import Embedded
from nightshift.tabular.online.follower import Follower
from nightshift.tabular.online.store import Store
from nightshift.tensors import Array

POLL_SECONDS = 0.2
LOOK_SECONDS = 60  # for a newer snapshot, or once more at what failed: a listing of an object store has its price


@dataclass(frozen=True)
class Model:
    """A version in memory.

    Attributes:
        name: the registered model, or what the package is called.
        pointer: what was asked for.
        package: its manifest.
        takes: what turns requests into the graph's input: named columns, or images or texts.
        batcher: calls the graph.
    """

    name: str
    pointer: Pointer
    package: ModelPackage
    takes: Rows | Reader
    batcher: Batcher

    @property
    def rows(self) -> Rows:
        """What turns features into the graph's input, of a model whose rows have columns."""
        assert isinstance(self.takes, Rows)
        return self.takes

    @property
    def reader(self) -> Reader | None:
        """What turns images or texts into the graph's input; None: its rows have columns."""
        return self.takes if isinstance(self.takes, Reader) else None

    @cached_property
    def forms(self) -> list[dict[str, Tensor]]:
        """The tensors that a request has, by name: the graph's inputs, or instead the fields of items."""
        graph = _named(self.package.signature.inputs)
        return [graph, _named([_bytes(field.name) for field in self.reader.items.fields])] if self.reader else [graph]

    @cached_property
    def given(self) -> dict[str, Tensor]:
        """The tensors that are answered, by name."""
        score = self.package.signature.score
        return _named([score, _bytes("label")] if self.reader else [score])

    @cached_property
    def threshold(self) -> float:
        """The score from which a row is flagged; infinity where there is no such thing."""
        given = self.package.decision.threshold
        return math.inf if given is None else given


def _named(tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    return {each.name: each for each in tensors}


def _zeros(tensor: Tensor) -> Array:
    """Return the input of one row."""
    return np.zeros((1, *tensor.shape[1:]), tensor.datatype.dtype)


def _bytes(name: str) -> Tensor:
    return Tensor(name=name, datatype=Datatype.BYTES, shape=[-1])


@dataclass(frozen=True)
class Split:
    """A challenger that answers some of the entities: customers, events, images or texts.

    Attributes:
        model: the challenger.
        share: of the entities.
    """

    model: Model
    share: float

    def answers(self, entity: object) -> bool:
        """Return whether the challenger answers an entity."""
        return is_answered(self.model.pointer.sha256, self.share, str(entity))

    def divided(self, champion: Model, entities: Sequence[object]) -> list[tuple[Model, list[int]]]:
        """Return which version answers the entities at which places; one that answers none is left out."""
        by_challenger = [self.answers(entity) for entity in entities]
        places = {
            is_challenger: [place for place, each in enumerate(by_challenger) if each is is_challenger]
            for is_challenger in (False, True)
        }
        return [(model, places[key]) for key, model in ((False, champion), (True, self.model)) if places[key]]


def load(name: str, pointer: Pointer, limits: Limits, device: str = "cpu") -> Model:
    """Load a version and call it once.

    Raises:
        UserError: when its files are not those that were registered, its task cannot be served, or the device is
            not there.
    """
    manifest = package.load(pointer.uri)
    if manifest.sha256 != pointer.sha256:
        raise UserError(f"{pointer.uri} holds model {manifest.sha256[:8]}, not {pointer.sha256[:8]}; restore its files")
    content, made = read_graph(pointer.uri, manifest, manifest.selected), manifest.preprocessing
    graph = Graph(content, provider=PROVIDERS[device])
    example = {tensor.name: _zeros(tensor) for tensor in manifest.signature.inputs}
    if isinstance(made, Inputs):
        return Model(name, pointer, manifest, Rows(made, limits.rows), Batcher(graph.score, example, limits))
    reader = Reader(tasks.of(manifest, pointer.uri), limits.queue)
    # as they are scored offline, a part of many rows at a time
    return Model(name, pointer, manifest, reader, Batcher(partial(scores, graph), example, limits))


class Current:
    """The version that answers. It is replaced whole, so a request sees one version from start to end.

    Attributes:
        model: the version that answers.
        split: what answers some entities instead; None: nothing does.
        online: what takes raw events in; None where the pointer names no snapshot.
        wanted: what was asked for last.
        loaded: what answers, with its snapshot and challenger.
        problem: why `wanted` is not what answers; None when it is.
    """

    def __init__(
        self,
        ask: Callable[[], Pointer],
        load: Callable[[Pointer], Model],
        folder: str = "",
        store: Callable[[Base], Store] | None = None,
    ) -> None:
        """Load what is asked for.

        Args:
            ask: gives the pointer, now and again.
            load: loads a version.
            folder: where the online state and copies of its snapshots lie.
            store: opens the online state over a snapshot; None: this process keeps it in the folder.
        """
        self._ask, self._load, self._folder = ask, load, folder
        self._open = store or partial(Embedded, Path(folder))
        self.wanted = ask()
        self.problem: str | None = None
        self.online: Online | None = None
        self._looks = 0.0
        self.model = load(self.wanted)
        self.split = self._split(self.model)
        self._models = [self.model]
        self._fitting: tuple[Windows | None, Model, Model] = None, self.model, self.model
        self._follow_snapshot(self.model)
        self.loaded = self.wanted

    def refresh(self) -> None:
        """Ask which version is to be served, and load it if it is another one; what has failed is tried again."""
        try:
            if self.online:
                self.online.probe()
            self._take_over(self._asked())
        except Exception as error:  # whatever is wrong with the new version, the old one keeps serving
            self._report(f"{type(error).__name__}: {error}")

    def follow(self, serve: Callable[[object], None]) -> None:
        """Follow what is to be served for ever.

        Args:
            serve: is told what is served, None when it is not what should be.
        """
        while True:
            serve(None if self.problem else replace(self.loaded, since=""))
            time.sleep(POLL_SECONDS)
            self.refresh()

    def close(self) -> None:
        """Let go of the online state."""
        if self.online is not None:
            self.online.close()
            self.online = None

    def find(self, version: str) -> Model | None:
        """Return a version by its number, None when it does not answer."""
        models = [self.model, *([self.split.model] if self.split else [])]
        return next((model for model in models if str(model.pointer.version) == version), None)

    def beside(self, model: Model) -> Split | None:
        """Return the challenger that answers beside a version, None once another version has taken over."""
        split = self.split  # before the look at the version: the next one brings its own
        return split if model is self.model else None

    def of_windows(self, spec: Windows) -> Model:
        """Return the version for events whose features were computed with some windows.

        While a snapshot with other windows takes over, there are two versions; otherwise it is `model`.
        """
        newest = self.model
        # of the last call: comparing windows takes as long as scoring
        for_spec, for_newest, found = self._fitting
        if for_spec is not spec or for_newest is not newest:
            found = next(each for each in (newest, *self._models) if each.package.tabular.windows == spec)
            self._fitting = spec, newest, found
        return found

    def _asked(self) -> Pointer:
        try:
            return self._ask()
        except Exception:
            self._looks = 0.0  # as soon as it can be read again
            raise

    def _take_over(self, wanted: Pointer) -> None:
        if wanted != self.wanted:
            # in this order, so that an old problem is never read as the new version's
            self.problem, self.wanted = None, wanted
        elif time.monotonic() < self._looks:
            return
        self._looks = time.monotonic() + LOOK_SECONDS
        if wanted == self.loaded:
            self._renew()
        else:
            self._replace(self._load(wanted))
            self.loaded = wanted
            log.info("serving version %d", wanted.version)
        self.problem = None

    def _split(self, model: Model) -> Split | None:
        """Load the challenger that is to answer beside a version.

        Raises:
            UserError: when its files are wrong, or what is read for the version is not what it takes.
        """
        beside = model.pointer.challenger
        if beside is None:
            return None
        pointer = replace(model.pointer, version=beside.version, uri=beside.uri, sha256=beside.sha256, challenger=None)
        found = self._load(pointer)
        if found.package.preprocessing.reads != model.package.preprocessing.reads:
            raise UserError(
                f"version {beside.version} has other inputs than version {model.pointer.version}, so a request cannot "
                "be read for both; release it with `release: {shares: []}`"
            )
        return Split(found, beside.share)

    def _replace(self, model: Model) -> None:
        split = self._split(model)
        self._models = [model, self.model]
        self._follow_snapshot(model)
        self.split = None  # at no moment one that belongs beside another version
        self.model = model
        self.split = split

    def _follow_snapshot(self, model: Model) -> None:
        """Lay the online state over the version's snapshot, unless it lies over one as new that serves the version."""
        uri = model.pointer.snapshot
        if uri is None:
            self.close()
        elif self.online:
            self.online.follower.follow(uri, model.package.tabular)
        else:
            self.online = Online(Follower(self._folder, uri, model.package.tabular, self._open))

    def _renew(self) -> None:
        """Move on to the snapshot of a later date, which a run may have written that deployed nothing."""
        if self.online and (uri := self.online.follower.renew(self.model.package.tabular)):
            log.info("the online state lies over %s", uri)

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            log.error("still serving version %d: %s", self.model.pointer.version, problem)
        self.problem = problem

    def labels(self) -> tuple[dict[str, str], bool]:
        """Return the labels by which Prometheus knows what answers, and whether it is not what should."""
        model = self.model
        labels = {"version": str(model.pointer.version), "candidate": model.package.selected}
        return labels | {"sha256": model.pointer.sha256}, self.problem is not None

    def health(self) -> dict[str, Any]:
        """Return what answers, what should, and why it does not, or takes no events in."""
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
