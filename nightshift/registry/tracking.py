"""A registry behind an MLflow tracking server."""

import atexit
import shutil
import tempfile
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightshift.contracts import package
from nightshift.contracts.release_record import Release
from nightshift.registry.version import CARD, CHAMPION, MODEL, PARENT_RUN, NewVersion, Version, pick
from nightshift.tracking import live, nights, runs
from nightshift.tracking.connection import connect
from nightshift.tracking.runs import RunValues

if TYPE_CHECKING:
    from mlflow import MlflowClient


@dataclass(frozen=True)
class TrackingServer:
    """The registry of a tracking server, by its URL; see `Registry`."""

    url: str

    def names(self) -> list[str]:
        """Return the names of all registered models."""
        with self._client() as client:
            return sorted(model.name for model in client.search_registered_models())

    def versions(self, name: str) -> list[Version]:
        """Return all versions of a model, oldest first."""
        with self._client() as client:
            entries = client.search_model_versions(f"name='{name}'")
        # versions without the tag come from other tools, in unknown formats
        ours = [_version(entry) for entry in entries if "sha256" in entry.tags]
        return sorted(ours, key=lambda version: version.version)

    def find(self, name: str, number: int) -> Version:
        """Return one version; download files that only the server can read."""
        version = pick(self.versions(name), name, number)
        with self._client():
            return self._download(version) if version.uri.startswith("mlflow-artifacts:") else version

    def read_card(self, version: Version) -> str:
        """Return the model card of a version."""
        with self._client() as client, tempfile.TemporaryDirectory() as folder:
            run_id = client.get_model_version(version.name, str(version.version)).run_id
            if CARD not in {file.path for file in client.list_artifacts(run_id)}:
                return ""
            return Path(client.download_artifacts(run_id, CARD, folder)).read_text()

    def alias(self, name: str) -> int | None:
        """Return the number of the version with the alias `champion`."""
        with self._client() as client:
            model = _model(client, name)
            number = model.aliases.get(CHAMPION) if model else None
            return int(number) if number else None

    def set_alias(self, name: str, number: int) -> None:
        """Give a version the alias `champion`."""
        with self._client() as client:
            from mlflow.exceptions import MlflowException

            with suppress(MlflowException):  # two first writers at once: one fails
                client.set_registered_model_alias(name, CHAMPION, str(number))
                return
            client.set_registered_model_alias(name, CHAMPION, str(number))

    def add(self, new: NewVersion) -> int:
        """Copy a model's files into a new version and return its number."""
        with self._client() as client:
            run_id = _record(client, new)
            source = _store_files(client, run_id, new.uri)
            if new.card:
                client.log_text(run_id, new.card, CARD)
            if _model(client, new.name) is None:
                client.create_registered_model(new.name)
            tags = new.tags | {"sha256": new.package.sha256}
            version = client.create_model_version(new.name, source, run_id, tags=tags, await_creation_for=0).version
            client.set_tag(run_id, runs.VERSION, str(version))
            return int(version)

    def tag_live(self, name: str, record: Release) -> None:
        """Tag versions and their runs with the times at which they were live."""
        with self._client() as client:
            live.tag_versions(client, name, record)
            live.tag_runs(client, name, record)

    def _download(self, version: Version) -> Version:
        import mlflow

        folder = tempfile.mkdtemp(prefix="nightshift-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = mlflow.artifacts.download_artifacts(artifact_uri=version.uri, dst_path=folder, tracking_uri=self.url)
        return replace(version, uri=path.rstrip("/"), source=version.uri)

    def _client(self) -> AbstractContextManager["MlflowClient"]:
        return connect(self.url, "registry")


def _model(client: "MlflowClient", name: str) -> Any:
    return next(iter(client.search_registered_models(f"name='{name}'")), None)


def _version(entry: Any) -> Version:
    return Version(entry.name, int(entry.version), entry.source, entry.tags["sha256"], dict(entry.tags))


def _record(client: "MlflowClient", new: NewVersion) -> str:
    """Return the id of the MLflow run of the night that made a model, with what the registry has to say of it."""
    # a night that is tried again has its run already; without a night the model stands for itself
    name = new.tags.get(PARENT_RUN) or new.package.sha256[:8]
    run = nights.find_run(client, runs.find_experiment(client, new.name), name)
    runs.update(client, run, RunValues({"candidate": new.package.selected}, new.metrics))
    return str(run.info.run_id)


def _store_files(client: "MlflowClient", run_id: str, model_uri: str) -> str:
    with tempfile.TemporaryDirectory() as draft:
        package.copy(model_uri, draft)
        client.log_artifacts(run_id, draft, MODEL)
    return f"{client.get_run(run_id).info.artifact_uri}/{MODEL}"
