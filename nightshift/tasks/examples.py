"""What a version is asked to see whether it answers as its files do without a server, and how a person asks it."""

import json
import shlex
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ScoredExample:
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
    def deployment_event(self) -> dict[str, Any]:
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
