"""The questions that are asked of a task, a class each; a task overrides what its models have."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nightshift.registry import Version
    from nightshift.runtime.progress import Patience


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
