"""What is asked of a task about its served form: requests, and what answers beside the endpoint."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nightshift.contracts.package import ModelPackage

if TYPE_CHECKING:
    from nightshift.registry import Version
    from nightshift.runtime.progress import Patience
    from nightshift.tasks.examples import ScoredExample


@dataclass(frozen=True)
class Payload:
    """The body of a request for a score, and its media type."""

    body: bytes
    media_type: str


class ExamplesTask(ABC):
    """What a server is asked."""

    def online_state(self, lake: str, use_case: str, model: ModelPackage, features: str | None = None) -> str | None:
        """Return the URI of the snapshot that a version's online state lies over; None where there is none, as here.

        Args:
            lake: root of the tables.
            use_case: its name.
            model: the version's manifest.
            features: URI of the manifest of the run's features, whose snapshot is preferred.
        """
        return None

    def from_files(self, uri: str, model: ModelPackage, online: str | None) -> "ScoredExample | None":
        """Score what the files of a model hold, or its online state; None where that is nothing, as here."""
        return None

    @abstractmethod
    def from_lake(self, uri: str, model: ModelPackage, lake: str, use_case: str) -> "tuple[ScoredExample, bytes]":
        """Score what a server without an online state can be asked, and return it as a file's bytes.

        Raises:
            UserError: when there is nothing to ask.
        """

    @abstractmethod
    def payloads(self, uri: str, model: ModelPackage, lake: str, use_case: str, most: int) -> list[Payload]:
        """Return so many requests at most.

        Raises:
            UserError: when there is nothing to ask.
        """

    @abstractmethod
    def stages(self, uri: str, model: ModelPackage, most: int) -> dict[str, Callable[[Any], Any]]:
        """Return what a server does with a body, by name, one after the other; `most` bodies are tried."""


class ServingTask:
    """What answers beside the local endpoint, such as an engine that generates text: nothing."""

    def follow(self, registry_uri: str, version: "Version", patience: "Patience") -> None:
        """Start or update it, so that it answers by a version; stop it where the version has no files for it.

        Raises:
            UserError: when it does not start with the version's files; what answered before then answers again.
            UnavailableError: when it stalls, or has ended for a reason that may pass; the same holds.
        """

    def find_url(self, registry_uri: str, name: str) -> str | None:
        """Return the URL of the running API beside a model's endpoint; None without one."""

    def stop(self, registry_uri: str, name: str) -> bool:
        """Stop it; return whether it was running."""
        return False
