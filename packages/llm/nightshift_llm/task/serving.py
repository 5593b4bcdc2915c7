"""The engine that generates text beside the local endpoint."""

from nightshift.registry import Version
from nightshift.runtime.progress import Patience
from nightshift.tasks.base import serving as base
from nightshift_llm.local import engine


class ServingTask(base.ServingTask):
    """The engine by the champion's file."""

    def follow(self, registry_uri: str, version: Version, patience: Patience) -> None:
        engine.follow(registry_uri, version, patience)

    def find_url(self, registry_uri: str, name: str) -> str | None:
        running = engine.find_running(registry_uri, name)
        return f"{running.url}/v1" if running else None

    def stop(self, registry_uri: str, name: str) -> bool:
        return engine.stop(registry_uri, name)
