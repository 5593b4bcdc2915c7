"""An online state that moves on to newer snapshots, for the model server and for Triton's feature step."""

from collections.abc import Callable
from pathlib import Path

from nightshift.contracts.preprocessing import TablePreprocessing
from nightshift.tabular.online import embedded, snapshot
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.event import EventParser
from nightshift.tabular.online.store import Store


class Follower:
    """A state over the newest snapshot that serves a model; it never goes back to an earlier date.

    Attributes:
        store: the state.
        reader: reads raw events as the snapshot describes them.
    """

    def __init__(self, folder: str, uri: str, inputs: TablePreprocessing, open_store: Callable[[Base], Store]) -> None:
        """Open the state over a snapshot, or over a newer one if it lay over that before.

        Args:
            folder: for copies of snapshots; an embedded state lies there too.
            uri: the snapshot.
            inputs: what the model makes of events.
            open_store: opens the state over a snapshot.

        Raises:
            UserError: when the snapshot has other inputs than the model, or the state cannot be opened.
        """
        self._folder = folder
        self._uri, _ = snapshot.under(embedded.last(Path(folder)), uri, inputs)
        self.store = open_store(snapshot.map_file(self._uri, folder))
        self.reader = self._parser()

    def follow(self, uri: str, inputs: TablePreprocessing) -> None:
        """Move to the snapshot of another model, unless the present one is as new and serves it.

        Raises:
            UserError: when the snapshot has other inputs than the model.
        """
        present = self.store.base.snapshot
        uri, wanted = snapshot.under(present.last, uri, inputs)
        if present.features != wanted.features or present.last < wanted.last:
            self._swap(uri)

    def renew(self, inputs: TablePreprocessing) -> str | None:
        """Move on to the snapshot of a later date; return its URI, None when there is none."""
        newer = snapshot.newer(self._uri, inputs)
        if newer:
            self._swap(newer)
        return newer

    def _swap(self, uri: str) -> None:
        self.store.swap(snapshot.map_file(uri, self._folder))
        self.reader, self._uri = self._parser(), uri

    def _parser(self) -> EventParser:
        base = self.store.base
        return EventParser(base.snapshot.events, base.layout.keeps_categories)
