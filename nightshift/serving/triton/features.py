"""The feature step without Triton: turns rows as JSON, images or texts into the graphs' inputs."""

import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nightshift.contracts import package
from nightshift.contracts.package import INPUT
from nightshift.contracts.preprocessing import Inputs, TablePreprocessing
from nightshift.http.errors import RequestError
from nightshift.models.tensors import Tensors
from nightshift.runtime.step import log
from nightshift.serving.feature_encoder import FeatureEncoder
from nightshift.serving.payloads import decode
from nightshift.tabular.online.embedded import Embedded
from nightshift.tabular.online.follower import Follower

if TYPE_CHECKING:
    from nightshift.serving.items.schema import ItemSchema

CHECK_SECONDS = 60.0  # between checks for a newer snapshot


class FeatureStep(Protocol):
    """Turns a request's rows, each an object in JSON, or an image file, a text or both, into the graph's inputs."""

    def transform(self, tensors: Mapping[str, Sequence[bytes]]) -> Tensors:
        """Return the graph's inputs by name, (rows, ...) each, of its signature's types.

        Args:
            tensors: a request's tensors by name: `row`, or fields of items.

        Raises:
            RequestError: when a row cannot be scored.
            UserError: when an event is refused.
        """

    def commit(self) -> None:
        """Make the transformed events durable; only then may they be answered."""

    def close(self) -> None:
        """Close the files."""


class StatelessStep:
    """A step that keeps nothing of a row."""

    def commit(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class NamedFeatureStep(StatelessStep):
    """Rows are named features."""

    def __init__(self, inputs: Inputs, max_rows: int) -> None:
        self._encoder = FeatureEncoder(inputs, max_rows)

    def transform(self, tensors: Mapping[str, Sequence[bytes]]) -> Tensors:
        """Return the graph's input; see `FeatureStep`."""
        (rows,) = tensors.values()
        return {INPUT: self._encoder.encode({"instances": [decode(row) for row in rows]})}


class ItemStep(StatelessStep):
    """Rows are images, texts or items of several fields."""

    def __init__(self, items: "ItemSchema") -> None:
        self._items = items

    def transform(self, tensors: Mapping[str, Sequence[bytes]]) -> Tensors:
        """Return the graph's inputs; see `FeatureStep`."""
        from nightshift.serving.items.schema import FieldContents

        return self._items.decode(
            {
                name: FieldContents(rows, [f"{name}[{number}]" for number in range(len(rows))])
                for name, rows in tensors.items()
            }
        )


class EventStep:
    """Rows are raw events, kept in the online state, which moves to newer snapshots by itself.

    Args:
        inputs: inputs of the model.
        max_rows: most rows of a request.
        uri: snapshot with the model's windows.
        folder: folder of the state; one process may open it.

    Raises:
        UserError: when the snapshot has other inputs than the model, or another process has opened the folder.
    """

    def __init__(self, inputs: TablePreprocessing, max_rows: int, uri: str, folder: str) -> None:
        self._inputs, self._encoder = inputs, FeatureEncoder(inputs, max_rows)
        self._follower = Follower(folder, uri, inputs, partial(Embedded, Path(folder)))
        self._store = self._follower.store
        self._closing = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def transform(self, tensors: Mapping[str, Sequence[bytes]]) -> Tensors:
        """Return the graph's input; see `FeatureStep`."""
        (rows,) = tensors.values()
        raw, reader = [_decode_object(row) for row in rows], self._follower.reader
        events, categories = [reader.read(event) for event in raw], [reader.categories(event) for event in raw]
        return {INPUT: self._encoder.encode_columns(self._store.take(events), categories)}

    def commit(self) -> None:
        """Make the transformed events durable."""
        self._store.commit()

    def close(self) -> None:
        """Commit, and close the state."""
        self._closing.set()
        self._store.close()

    def renew(self) -> None:
        """Move to a newer snapshot, if there is one."""
        self._follower.renew(self._inputs)

    def _follow(self) -> None:
        while not self._closing.wait(CHECK_SECONDS):
            try:
                self.renew()
            except Exception:  # the state keeps its snapshot
                log.exception("the online state stays over its snapshot")


def open_step(folder: str, max_rows: int, uri: str = "", state: str = "") -> FeatureStep:
    """Return the feature step of a package.

    Args:
        folder: folder of its manifest.
        max_rows: most rows of a request.
        uri: snapshot for raw events; empty: rows are named features, images or texts.
        state: folder of the online state over the snapshot.
    """
    model = package.load(folder)
    if not isinstance(model.preprocessing, Inputs):
        from nightshift.serving.items.loader import load_schema

        return ItemStep(load_schema(model, folder))
    return EventStep(model.tabular, max_rows, uri, state) if uri else NamedFeatureStep(model.inputs, max_rows)


def _decode_object(row: bytes) -> dict[str, Any]:
    columns = decode(row)
    if not isinstance(columns, dict):
        raise RequestError("row", columns, "an object of columns")
    return columns
