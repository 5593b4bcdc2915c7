"""Watches: what happens to the objects that somebody has asked for."""

import threading
import time
from collections.abc import Iterator
from typing import Any

from nightshift_testkit.cluster.kinds import Json
from nightshift_testkit.cluster.problems import StatusError
from nightshift_testkit.cluster.selectors import Selection
from nightshift_testkit.cluster.store import Change, ResourceStore

LOOK = 1.0  # seconds between two looks whether the server stops or the time is over


def watched(store: ResourceStore, request: Any, stopped: threading.Event) -> Iterator[Json]:
    """Yield a watch's events, first the objects that are there when it names no version."""
    selection, since = request.selection, request.query.get("resourceVersion", "")
    seconds = float(request.query.get("timeoutSeconds") or 3600)
    deadline = time.monotonic() + seconds
    with store.changed:
        version = int(since) if since not in ("", "0") else store.version
        present = [] if since not in ("", "0") else store.copies(request.kind, request.namespace)
    for value in present:
        if value in selection:
            yield {"type": "ADDED", "object": value}
    while not stopped.is_set() and time.monotonic() < deadline:
        try:
            changes = _next(store, version, min(LOOK, deadline - time.monotonic()))
        except StatusError as error:
            yield {"type": "ERROR", "object": error.status()}
            return
        for change in changes:
            version = change.version
            if change.kind == request.kind and request.namespace in ("", change.last["metadata"].get("namespace")):
                yield from _events(change, selection)


def _next(store: ResourceStore, version: int, seconds: float) -> list[Change]:
    with store.changed:
        store.changed.wait_for(lambda: store.version > version, max(0.0, seconds))
        return store.since(version)


def _events(change: Change, selection: Selection) -> Iterator[Json]:
    """One that comes to match is new for who watches, one that no longer does is gone."""
    was = change.before is not None and change.before in selection
    is_ = change.after is not None and change.after in selection
    if was or is_:
        kind = ("MODIFIED" if was else "ADDED") if is_ else "DELETED"
        meta = change.last["metadata"] | {"resourceVersion": str(change.version)}
        yield {"type": kind, "object": change.last | {"metadata": meta}}
