"""What a version is asked to see whether it answers as its files do without a server, and how a person asks it."""

import json
import shlex
from dataclasses import dataclass, replace
from typing import Any

from components.common import registry, storage
from components.common.contracts import package
from components.common.contracts import state as kept
from components.common.contracts.package import ModelPackage, Tabular
from components.serving import files

TRIED = 20  # items of the newest day, one of which is the example


@dataclass(frozen=True)
class Example:
    """One event, image or text, and what a version scores it, computed without the server.

    Attributes:
        name: how a request calls such events: `events`, or `instances`.
        event: its columns, its features, or the item.
        score: what the version scores it; of classes, the highest.
        snapshot: of the online state that takes such events in; None where there is none.
        file: where the item lies as a file; None where it is none.
        media_type: of the item as a file.
    """

    name: str
    event: dict[str, Any]
    score: float
    snapshot: str | None = None
    file: str | None = None
    media_type: str = "application/json"

    @property
    def request(self) -> dict[str, Any]:
        """The request that scores the event."""
        return {self.name: [self.event]}

    @property
    def shown(self) -> dict[str, Any]:
        """The event as deployment.json has it: of an item, its file."""
        return dict.fromkeys(self.event, self.file) if self.file else self.event

    def curl(self, url: str) -> str:
        """Return a shell command that scores the event."""
        media = self.media_type if self.file else "application/json"
        body = f"--data-binary {shlex.quote(f'@{self.file}')}" if self.file else f"-d {shlex.quote(self._json)}"
        return f"curl -s {url}/score -H 'Content-Type: {media}' {body}"

    @property
    def _json(self) -> str:
        return json.dumps(self.request)


def of(state: kept.State, name: str, uri: str) -> Example:
    """Score what an endpoint can be asked about a version by now.

    Args:
        state: where the lake and the registry, a folder, lie.
        name: the registered model.
        uri: folder of the version.

    Raises:
        UserError: when the lake has no image or text, or the version's task cannot be served.
    """
    from components.tabular.online import snapshot

    model = package.load(uri)
    if isinstance(model.preprocessing, Tabular):
        return of_event(uri, snapshot.newest(state.lake, name, model.preprocessing))
    found, content = _of_item(state.lake, name, uri, model)
    # beside the endpoint, for a person to send
    folder = files.folder(registry.root(state.registry), name)
    file = storage.join(folder, f"example.{found.media_type.split('/')[1]}")
    storage.write_bytes(file, content)
    return replace(found, file=file)


def without_state(lake: str, name: str, uri: str) -> Example:
    """Score what a server of one version can be asked, which keeps no online state: features, or an image or a text.

    Args:
        lake: root of the tables.
        name: the registered model.
        uri: folder of the version.

    Raises:
        UserError: as `of`.
    """
    model = package.load(uri)
    return of_event(uri) if isinstance(model.preprocessing, Tabular) else _of_item(lake, name, uri, model)[0]


def of_event(uri: str, online: str | None = None) -> Example:
    """Score one event with a model's own files: one that the online state knows, else one of its reference sample.

    Args:
        uri: folder of the model.
        online: the snapshot that the online state is to lie over; None: there is no such state.
    """
    import pandas as pd

    from components.deployment import core
    from components.tabular.inputs import Scorer
    from components.tabular.online import snapshot

    model = package.load(uri)
    known = snapshot.read(online).example if online else None
    features = known.inputs if known else core.example(model.tabular, package.read_reference(uri))
    (score,) = Scorer(uri, model).score(pd.DataFrame([features]))
    name, event = ("events", known.event) if known else ("instances", features)
    return Example(name, event, float(score), online)


def _of_item(lake: str, name: str, uri: str, model: ModelPackage) -> tuple[Example, bytes]:
    """Score an item of the newest day, the smallest of some, since platforms limit a request; return its bytes too."""
    from components.classes import contents
    from components.classes.scorer import Scorer
    from components.serving.items import tasks

    items = tasks.of(model, uri)
    content = min(items.usable(contents.newest(lake, name, items.name, TRIED)), key=len)
    score = Scorer(uri, model).score(items.seen(content)[None]).max()
    event = {items.name: items.shown(content)}
    return Example("instances", event, float(score), media_type=items.media_type(content)), content
