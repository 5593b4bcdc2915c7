"""A registry behind an MLflow tracking server; MLflow, which takes seconds to import, is imported on use."""

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nightshift.contracts import package
from nightshift.registry.version import CARD, CHAMPION, MODEL, NewVersion, Version, pick, user
from nightshift.runtime.errors import UnavailableError, UserError, may_pass

if TYPE_CHECKING:
    from mlflow import MlflowClient

# read by MLflow on import; its default of seven retries takes minutes
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}


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
            client.set_terminated(run_id)
            if _model(client, new.name) is None:
                client.create_registered_model(new.name)
            tags = new.tags | {"sha256": new.package.sha256}
            return int(client.create_model_version(new.name, source, run_id, tags=tags, await_creation_for=0).version)

    def _download(self, version: Version) -> Version:
        import mlflow

        folder = tempfile.mkdtemp(prefix="nightshift-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = mlflow.artifacts.download_artifacts(artifact_uri=version.uri, dst_path=folder, tracking_uri=self.url)
        return replace(version, uri=path.rstrip("/"), source=version.uri)

    @contextmanager
    def _client(self) -> Iterator["MlflowClient"]:
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        from mlflow.exceptions import MlflowException
        from requests import RequestException

        try:
            yield _connect(self.url)
        except (MlflowException, RequestException) as error:
            raise _explain(self.url, error) from error


def _explain(registry: str, error: Any) -> UserError | UnavailableError:
    message = f"registry {registry}: {' '.join(str(error).split())[:300] or type(error).__name__}"
    health = _health(registry) if _is_passing(error) else Health.REFUSING
    if health is Health.REFUSING:
        return UserError(
            f"{message}; check what the server says, and the login in MLFLOW_TRACKING_USERNAME and _PASSWORD"
        )
    if health is Health.SILENT:
        return UnavailableError(f"{message}; check that the server runs, then run the same command again")
    part = "artifact store" if "mlflow-artifacts" in str(error) else "database"
    return UnavailableError(
        f"{message}; the server runs and answers other requests, its {part} failed: look in the server's log, fix what "
        "it names (a bucket, a right to write, a full disk), then run the same command again"
    )


class Health(StrEnum):
    """An MLflow server's reaction to a simple request."""

    ANSWERING = "answering"
    REFUSING = "refusing"  # or it is no MLflow, such as a proxy's login
    SILENT = "silent"


def _is_passing(error: Any) -> bool:
    """Return whether a later request may succeed; a request that never arrived may."""
    from requests import RequestException

    if isinstance(error, RequestException):
        return error.response is None or may_pass(error.response.status_code)
    return may_pass(error.get_http_status_code())


def _health(registry: str) -> Health:
    """Send a simple request to tell a silent server from a refusal.

    MLflow's client reports unknown statuses, and content other than its JSON, as internal errors.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    request = {"endpoint": "/api/2.0/mlflow/experiments/search", "method": "GET", "params": {"max_results": 1}}
    try:
        response = http_request(get_default_host_creds(registry), raise_on_status=False, **request)
    except MlflowException:
        return Health.SILENT
    if not response.ok:
        return Health.SILENT if may_pass(response.status_code) else Health.REFUSING
    return Health.ANSWERING if "json" in response.headers.get("Content-Type", "") else Health.REFUSING


@functools.cache
def _connect(url: str) -> "MlflowClient":
    from mlflow import MlflowClient

    return MlflowClient(url)


def _model(client: "MlflowClient", name: str) -> Any:
    return next(iter(client.search_registered_models(f"name='{name}'")), None)


def _version(entry: Any) -> Version:
    return Version(entry.name, int(entry.version), entry.source, entry.tags["sha256"], dict(entry.tags))


def _record(client: "MlflowClient", new: NewVersion) -> str:
    """Create the MLflow run with the model's files, parameters and metrics, or complete an interrupted one."""
    from mlflow.entities import Metric, Param

    experiment, run_name = _experiment(client, new.name), new.package.sha256[:8]
    # a run without a version is left by a killed registration
    runs = client.search_runs([experiment], f"attributes.run_name = '{run_name}'", max_results=1)
    run = runs[0] if runs else client.create_run(experiment, tags={"mlflow.user": user()}, run_name=run_name)
    selected = new.package.candidates[new.package.selected]
    parameters = {"candidate": new.package.selected, **selected.parameters}
    values = [*((name, value, 0) for name, value in new.metrics.items()), *(("loss", y, x) for x, y in selected.losses)]
    client.log_batch(
        run.info.run_id,
        # at the run's time: a second attempt repeats the values and adds none
        metrics=[Metric(name, value, run.info.start_time, step) for name, value, step in values],
        params=[Param(key, str(value)) for key, value in parameters.items()],
    )
    return str(run.info.run_id)


def _experiment(client: "MlflowClient", name: str) -> str:
    known = client.get_experiment_by_name(name)
    return str(known.experiment_id if known else client.create_experiment(name))


def _store_files(client: "MlflowClient", run_id: str, model_uri: str) -> str:
    with tempfile.TemporaryDirectory() as draft:
        package.copy(model_uri, draft)
        client.log_artifacts(run_id, draft, MODEL)
    return f"{client.get_run(run_id).info.artifact_uri}/{MODEL}"
