"""The model registry: MLflow, in a local folder or behind an http(s):// tracking server.

A local folder holds `mlflow.db` (SQLite) and `artifacts/`; `mlflow ui --backend-store-uri
sqlite:///<folder>/mlflow.db` shows it. A version is a copy of a model's files, so it outlives the run
that made it. The alias `champion` marks the live version for people and other tools; which one that is stands in the
release record (see `release.py`). Whatever asks a server that does not answer raises `UnavailableError`.
"""

import atexit
import functools
import getpass
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.common import locks, storage
from components.common.contracts import package
from components.common.contracts.package import ModelPackage
from components.common.errors import UnavailableError, UserError, may_pass, nearest

if TYPE_CHECKING:
    from mlflow import MlflowClient

CHAMPION = "champion"
REMOVED = "removed"
MODEL = "model"
CARD = "model_card.md"
LOCK_SECONDS = 120
DIALECT = "sqlite+pysqlite"  # of what begins with sqlite:///, MLflow makes the parent folder, quoted as it is there
# MLflow reads these when it is imported; seven retries would keep a user waiting for minutes
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
}


@dataclass(frozen=True)
class Version:
    """A registered version of a model.

    Attributes:
        name: the registered model, which is the use case.
        version: its number, from 1.
        uri: folder of its files (see `package.py`) inside the registry.
        sha256: identity of the model, `ModelPackage.sha256`.
        tags: lineage, and who registered it and when.
        source: what the registry calls the folder, where `uri` is a copy that was downloaded from it; else empty.
    """

    name: str
    version: int
    uri: str
    sha256: str
    tags: dict[str, str]
    source: str = ""


def is_remote(registry: str) -> bool:
    """Return whether a registry is a tracking server and not a folder.

    Raises:
        UserError: when it is neither.
    """
    scheme = registry.split("://", 1)[0] if "://" in registry else ""
    if scheme not in ("", "http", "https"):
        raise UserError(f"registry is {registry!r}; give a local folder or the http(s):// URL of a tracking server")
    return bool(scheme)


def names(registry: str) -> list[str]:
    """Return the names of all registered models."""
    if _is_empty(registry):
        return []
    with _open(registry) as client:
        return sorted(model.name for model in client.search_registered_models())


def existing(registry: str) -> list[str]:
    """Return the names of the registered models.

    Raises:
        UserError: when nothing is registered.
    """
    known = names(registry)
    if not known:
        raise UserError(f"registry {registry} holds no model yet; `nightshift run` registers one")
    return known


def one(registry: str, name: str | None) -> str:
    """Return the registered model of a name; the only one where it is left out.

    Raises:
        UserError: when there is no such model, or none is named where there are several.
    """
    known = existing(registry)
    if name is None and len(known) == 1:
        return known[0]
    if name not in known:
        raise UserError(f"--name is {name!r}; registered models: {', '.join(known)}{nearest(name or '', known)}")
    return str(name)


def versions(registry: str, name: str) -> list[Version]:
    """Return all versions of a model, oldest first; none when the model is not known."""
    if _is_empty(registry):
        return []
    with _open(registry) as client:
        return _versions(client, registry, name)


def alias(registry: str, name: str) -> int | None:
    """Return the number of the version with the alias `champion`, None when there is none."""
    if _is_empty(registry):
        return None
    with _open(registry) as client:
        model = _model(client, name)
        number = model.aliases.get(CHAMPION) if model else None
        return int(number) if number else None


def set_alias(registry: str, name: str, version: int) -> None:
    """Give a version the alias `champion`."""
    with _open(registry) as client:
        from mlflow.exceptions import MlflowException

        with suppress(MlflowException):  # two that set it for the first time both insert it, and one of them fails
            client.set_registered_model_alias(name, CHAMPION, str(version))
            return
        client.set_registered_model_alias(name, CHAMPION, str(version))


def find(registry: str, name: str, version: int) -> Version:
    """Return one version with files that can be read at its `uri`.

    Raises:
        UserError: when there is no such version; the message lists what exists.
    """
    with _open(registry) as client:
        return _readable(registry, _version(client, registry, name, version))


def register(
    registry: str,
    name: str,
    model_uri: str,
    tags: dict[str, str],
    metrics: dict[str, float] | None = None,
    card: str = "",
) -> Version:
    """Copy a model's files into the registry as a new version; the same model again is the version it was.

    Args:
        registry: folder or URL.
        name: the registered model; made when it is new.
        model_uri: folder of the model, see `package.save`.
        tags: lineage of this version.
        metrics: shown with the MLflow run that carries the files.
        card: the model card, Markdown; kept beside the files as `model_card.md`.

    Returns:
        the version, with files that can be read at its `uri`.

    Raises:
        UserError: when a file of the model is missing or not the one its manifest names.
    """
    model = package.load(model_uri)
    with _open(registry) as client:
        known = [version for version in _versions(client, registry, name) if version.sha256 == model.sha256]
        if known:
            return _readable(registry, known[0])
        run_id = _record(client, registry, name, model, metrics or {})
        source = _store_files(client, registry, run_id, model_uri)
        if card:
            _store_card(client, registry, run_id, card)
        client.set_terminated(run_id)
        if _model(client, name) is None:
            client.create_registered_model(name)
        audit = {"sha256": model.sha256, **_audit("registered")}
        created = client.create_model_version(name, source, run_id, tags=tags | audit, await_creation_for=0)
        return _readable(registry, _version(client, registry, name, int(created.version)))


def remove(registry: str, name: str, numbers: Iterable[int]) -> None:
    """Remove versions and their files from a local registry; MLflow's records of their runs stay, as deleted.

    MLflow alone would leave the files where they are. A removal that ended in between leaves whole versions, and
    files that this finishes the next time (see `leftovers`).

    Raises:
        UserError: when there is no such version, or its files may not be removed.
    """
    if _is_empty(registry):
        return
    with _open(registry) as client:
        for number in numbers:
            run_id = client.get_model_version(name, str(number)).run_id
            for key, value in _audit(REMOVED).items():
                client.set_tag(run_id, key, value)
            client.delete_model_version(name, str(number))
        for run_id in _removed(client, name):
            storage.remove_folder(_run_folder(registry, run_id))
            client.delete_run(run_id)


def leftovers(registry: str, name: str) -> list[str]:
    """Return the folders of versions whose removal from a local registry was cut short."""
    if _is_empty(registry):
        return []
    with _open(registry) as client:
        return [_run_folder(registry, run_id) for run_id in _removed(client, name)]


def exclusive(registry: str) -> AbstractContextManager[object]:
    """Keep other processes of this machine out of a local registry; calls may be nested.

    Raises:
        UserError: on entering, when somebody else keeps it for too long or the folder is not writable.
    """
    return nullcontext() if is_remote(registry) else _locked(root(registry))


def root(registry: str) -> str:
    """Return the one absolute path of a local registry."""
    return str(Path(registry).resolve())


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            stack.enter_context(locks.nested(Path(folder) / "registry.lock", LOCK_SECONDS))
        except BlockingIOError:
            raise UserError(
                f"registry {folder} has been in use for {LOCK_SECONDS} s; wait for the other run, or stop it"
            ) from None
        except OSError as error:
            raise UserError(f"registry {folder}: {error.strerror}; give a folder that can be written to") from None
        yield


@contextmanager
def _open(registry: str) -> Iterator["MlflowClient"]:
    with exclusive(registry):
        for name, value in SETTINGS.items():
            os.environ.setdefault(name, value)
        from mlflow.exceptions import MlflowException
        from requests import RequestException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            if _is_empty(registry):
                _create(root(registry))
            yield _client(registry if is_remote(registry) else database_uri(Path(root(registry), "mlflow.db"), DIALECT))
        except (MlflowException, RequestException, SQLAlchemyError) as error:
            raise _explained(registry, error) from error


def _explained(registry: str, error: Any) -> UserError | UnavailableError:
    said = f"registry {registry}: {' '.join(str(error).split())[:300] or type(error).__name__}"
    if not is_remote(registry):
        return UserError(f"{said}; check the folder")
    health = _health(registry) if _is_passing(error) else Health.REFUSING
    if health is Health.REFUSING:
        return UserError(f"{said}; check what the server says, and the login in MLFLOW_TRACKING_USERNAME and _PASSWORD")
    if health is Health.SILENT:
        return UnavailableError(f"{said}; check that the server runs, then run the same command again")
    part = "artifact store" if "mlflow-artifacts" in str(error) else "database"
    return UnavailableError(
        f"{said}; the server runs and answers other requests, its {part} failed: look in the server's log, fix what it "
        "names (a bucket, a right to write, a full disk), then run the same command again"
    )


class Health(StrEnum):
    """What an MLflow server does with a plain question."""

    ANSWERING = "answering"
    REFUSING = "refusing"  # or it is no MLflow, such as a proxy's login
    SILENT = "silent"


def _is_passing(error: Any) -> bool:
    """Return whether a server may answer later; what never reached it counts as its silence."""
    from requests import RequestException

    if isinstance(error, RequestException):
        return error.response is None or may_pass(error.response.status_code)
    return may_pass(error.get_http_status_code())


def _health(registry: str) -> Health:
    """Ask a plain question.

    MLflow's client takes every status it does not map, and whatever is not its JSON, for an internal error.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    question = {"endpoint": "/api/2.0/mlflow/experiments/search", "method": "GET", "params": {"max_results": 1}}
    try:
        answer = http_request(get_default_host_creds(registry), raise_on_status=False, **question)
    except MlflowException:
        return Health.SILENT
    if not answer.ok:
        return Health.SILENT if may_pass(answer.status_code) else Health.REFUSING
    return Health.ANSWERING if "json" in answer.headers.get("Content-Type", "") else Health.REFUSING


def _create(folder: str) -> None:
    """Make MLflow's database as a draft: its migrations cannot be taken up where a killed process left them."""
    for left in Path(folder).glob("mlflow.db.tmp*"):  # SQLite's journal has a name of its own
        left.unlink()
    draft = Path(folder, "mlflow.db.tmp")
    _client(database_uri(draft, DIALECT)).search_experiments(max_results=1)
    draft.replace(draft.with_suffix(""))


def database_uri(file: Path, dialect: str = "sqlite") -> str:
    """Return SQLAlchemy's URI of a SQLite database, whatever its path holds."""
    from sqlalchemy import URL

    return URL.create(dialect, database=str(file.absolute())).render_as_string()


@functools.cache
def _client(tracking_uri: str) -> "MlflowClient":
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri)


def _is_empty(registry: str) -> bool:
    """Return whether nothing was ever registered, without the seconds that MLflow's first tables take."""
    return not is_remote(registry) and not Path(registry, "mlflow.db").exists()


def _model(client: "MlflowClient", name: str) -> Any:
    return next(iter(client.search_registered_models(f"name='{name}'")), None)


def _removed(client: "MlflowClient", name: str) -> list[str]:
    """Return the MLflow runs of removed versions that are not marked as deleted yet, which comes last."""
    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        return []
    used = {version.run_id for version in client.search_model_versions(f"name='{name}'")}
    tagged = client.search_runs([experiment.experiment_id], f"tags.{REMOVED}_at != ''")
    return [run.info.run_id for run in tagged if run.info.run_id not in used]


def _versions(client: "MlflowClient", registry: str, name: str) -> list[Version]:
    found = client.search_model_versions(f"name='{name}'")
    # a version without the tag was put there by somebody else, in a form we do not know
    ours = [_read(registry, entry) for entry in found if "sha256" in entry.tags]
    return sorted(ours, key=lambda version: version.version)


def _version(client: "MlflowClient", registry: str, name: str, number: int) -> Version:
    everything = _versions(client, registry, name)
    for version in everything:
        if version.version == number:
            return version
    existing = ", ".join(str(version.version) for version in everything) or "none"
    raise UserError(f"model {name!r} has no version {number}; existing versions: {existing}")


def _read(registry: str, entry: Any) -> Version:
    # computed, not read from MLflow, so that a folder may be moved or mounted elsewhere
    uri = entry.source if is_remote(registry) else _artifacts(registry, entry.run_id)
    return Version(entry.name, int(entry.version), uri, entry.tags["sha256"], dict(entry.tags))


def _artifacts(registry: str, run_id: str) -> str:
    return storage.join(_run_folder(registry, run_id), "artifacts", MODEL)


def _run_folder(registry: str, run_id: str) -> str:
    return storage.join(root(registry), "artifacts", run_id)


def _readable(registry: str, version: Version) -> Version:
    """Download files that only the tracking server can read."""
    if not version.uri.startswith("mlflow-artifacts:"):
        return version
    import mlflow

    folder = tempfile.mkdtemp(prefix="nightshift-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = mlflow.artifacts.download_artifacts(artifact_uri=version.uri, dst_path=folder, tracking_uri=registry)
    return replace(version, uri=path.rstrip("/"), source=version.uri)


def _record(client: "MlflowClient", registry: str, name: str, model: ModelPackage, metrics: dict[str, float]) -> str:
    """Make the MLflow run that carries the model's files, parameters and metrics, or complete an interrupted one."""
    from mlflow.entities import Metric, Param

    experiment, run_name = _experiment(client, registry, name), model.sha256[:8]
    # without a version of this model such a run is what a registration has left that was killed
    left = client.search_runs([experiment], f"attributes.run_name = '{run_name}'", max_results=1)
    run = left[0] if left else client.create_run(experiment, tags={"mlflow.user": user()}, run_name=run_name)
    selected = model.candidates[model.selected]
    parameters = {"candidate": model.selected, **selected.parameters}
    values = [*((name, value, 0) for name, value in metrics.items()), *(("loss", y, x) for x, y in selected.losses)]
    client.log_batch(
        run.info.run_id,
        # at the run's time, so that a second attempt repeats the values instead of adding others
        metrics=[Metric(name, value, run.info.start_time, step) for name, value, step in values],
        params=[Param(key, str(value)) for key, value in parameters.items()],
    )
    return str(run.info.run_id)


def _experiment(client: "MlflowClient", registry: str, name: str) -> str:
    known = client.get_experiment_by_name(name)
    location = None if is_remote(registry) else Path(root(registry), "artifacts").absolute().as_uri()
    return str(known.experiment_id if known else client.create_experiment(name, artifact_location=location))


def _store_files(client: "MlflowClient", registry: str, run_id: str, model_uri: str) -> str:
    if not is_remote(registry):
        folder = _artifacts(registry, run_id)
        package.copy(model_uri, folder)
        return folder
    with tempfile.TemporaryDirectory() as draft:
        package.copy(model_uri, draft)
        client.log_artifacts(run_id, draft, MODEL)
    return f"{client.get_run(run_id).info.artifact_uri}/{MODEL}"


def _store_card(client: "MlflowClient", registry: str, run_id: str, card: str) -> None:
    if is_remote(registry):
        client.log_text(run_id, card, CARD)
    else:  # to where the registry's folder is now; MLflow knows only where it was made
        storage.write_bytes(storage.join(os.path.dirname(_artifacts(registry, run_id)), CARD), card.encode())


def _audit(what: str) -> dict[str, str]:
    return {f"{what}_at": datetime.now(UTC).isoformat(timespec="seconds"), f"{what}_by": user()}


def user() -> str:
    """Return who this process runs as."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"uid {os.getuid()}"
