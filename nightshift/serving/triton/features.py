"""The feature step without Triton: rows as JSON, images or texts in, what the graph takes out."""

import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from nightshift.contracts import package
from nightshift.contracts.preprocessing import Inputs, TabularPreprocessing
from nightshift.serving.errors import RequestError
from nightshift.serving.payloads import decode
from nightshift.serving.rows import Rows
from nightshift.step import log
from nightshift.tabular.online.embedded import Embedded
from nightshift.tabular.online.follower import Follower

if TYPE_CHECKING:
    from nightshift.serving.items.base import Items

LOOK_SECONDS = 60.0  # for a newer snapshot

Matrix = npt.NDArray[np.float32]


class Features(Protocol):
    """Turns the rows of a request, each an object in JSON, an image's file or a text, into the graph's."""

    def matrix(self, rows: Sequence[bytes]) -> npt.NDArray[Any]:
        """Return what the graph takes, (rows, ...), of the type that its signature names.

        Raises:
            RequestError: when one cannot be scored.
            UserError: when an event is refused.
        """

    def commit(self) -> None:
        """Make durable what was taken in before: then it may be answered."""

    def close(self) -> None:
        """Let go of files."""


class Stateless:
    """Nothing is kept of a row."""

    def commit(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Named(Stateless):
    """Rows are features under their names."""

    def __init__(self, inputs: Inputs, most: int) -> None:
        self._rows = Rows(inputs, most)

    def matrix(self, rows: Sequence[bytes]) -> Matrix:
        """Return what the graph takes; see `Features`."""
        return self._rows.matrix({"instances": [decode(row) for row in rows]})


class Contents(Stateless):
    """Rows are images or texts."""

    def __init__(self, items: "Items") -> None:
        self._items = items

    def matrix(self, rows: Sequence[bytes]) -> npt.NDArray[Any]:
        """Return what the graph takes; see `Features`."""
        from nightshift.serving.items.base import FieldContents

        (field,) = self._items.fields
        return field.stack(FieldContents(rows, [f"{field.name}[{number}]" for number in range(len(rows))]))


class Raw:
    """Rows are raw events, which the online state takes in; it moves on to newer snapshots by itself.

    Args:
        inputs: the model's.
        most: rows of a request.
        uri: a snapshot of the model's windows.
        folder: where the state is kept, which one process has.

    Raises:
        UserError: when the snapshot has other inputs than the model, or another process has the folder.
    """

    def __init__(self, inputs: TabularPreprocessing, most: int, uri: str, folder: str) -> None:
        self._inputs, self._rows = inputs, Rows(inputs, most)
        self._follower = Follower(folder, uri, inputs, partial(Embedded, Path(folder)))
        self._store = self._follower.store
        self._closing = threading.Event()
        threading.Thread(target=self._follow, daemon=True).start()

    def matrix(self, rows: Sequence[bytes]) -> Matrix:
        """Return what the graph takes; see `Features`."""
        raw, reader = [_object(row) for row in rows], self._follower.reader
        events, categories = [reader.read(event) for event in raw], [reader.categories(event) for event in raw]
        return self._rows.joined(self._store.take(events), categories)

    def commit(self) -> None:
        """Make durable what was taken in before."""
        self._store.commit()

    def close(self) -> None:
        """Commit, and let go of the state."""
        self._closing.set()
        self._store.close()

    def renew(self) -> None:
        """Move on to the snapshot of a later date, if there is one."""
        self._follower.renew(self._inputs)

    def _follow(self) -> None:
        while not self._closing.wait(LOOK_SECONDS):
            try:
                self.renew()
            except Exception:  # the state stays over the snapshot that it has
                log.exception("the online state stays over its snapshot")


def opened(folder: str, most: int, uri: str = "", state: str = "") -> Features:
    """Return the feature step of the manifest in a folder: of raw events over a snapshot, without one of features.

    Of images and texts it decodes and tokenizes.
    """
    model = package.load(folder)
    if not isinstance(model.preprocessing, Inputs):
        from nightshift.serving.items import tasks

        return Contents(tasks.of(model, folder))
    return Raw(model.tabular, most, uri, state) if uri else Named(model.inputs, most)


def _object(row: bytes) -> dict[str, Any]:
    found = decode(row)
    if not isinstance(found, dict):
        raise RequestError("row", found, "an object of columns")
    return found
