"""Starts, updates, checks and stops the local server that scores; its files lie in `<registry>/endpoint/<name>/`."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, NoReturn

from nightshift import registry, storage, tasks
from nightshift.contracts import package
from nightshift.contracts.loadtest import ServerSettings
from nightshift.contracts.state import DeploymentTarget, State
from nightshift.local import processes
from nightshift.registry import release_record
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.interpreter import isolate
from nightshift.runtime.progress import Patience, Progress, cpu_seconds
from nightshift.runtime.step import log
from nightshift.serving import files, released
from nightshift.serving.files import Challenger, DeploymentPointer, RunningServer
from nightshift.storage import locks
from nightshift.tasks.examples import ScoredExample

PORT = 8321
PATIENCE = Patience()
CALL_SECONDS = 10
ABSENT = (
    "no endpoint is running here: one that starts serves version {number}; "
    "another target (state.serving) does after the next `nightshift run release`"
)
BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)
TOLERANCE = 1e-6


def check(state: State) -> None:
    """Check that a local target has a registry on this machine.

    Raises:
        UserError: when the target is `local` and the registry is not a folder.
    """
    if state.target is DeploymentTarget.LOCAL and registry.is_remote(state.registry):
        raise UserError(
            f"target is 'local', but registry {state.registry} is a server; "
            "give a folder as registry, or target 'register-only'"
        )


def start_or_update(
    state: State,
    version: registry.Version,
    expected: ScoredExample,
    port: int = PORT,
    challenger: Challenger | None = None,
    patience: Patience = PATIENCE,
) -> RunningServer:
    """Make the local endpoint serve a version, check its answer, and update what the task runs beside it.

    Args:
        state: locations of the registry, a folder, and of the lake, for the prediction log.
        version: the version to serve.
        expected: a request with this version's score.
        port: port of a use case's first server, else the next free one; later servers keep theirs.
        challenger: version that answers a share of the entities.
        patience: limits of the wait for the server.

    Raises:
        UserError: when a server does not start or does not serve this version; the old version then serves again.
        UnavailableError: when it stalls, or has ended for a reason that may pass; the old version then serves again.
    """
    root, name = registry.root(state.registry), version.name
    uri = files.pointer_uri(root, name)
    with registry.lock(root):
        before = storage.read_bytes(uri) if storage.exists(uri) else None
        since = _find_champion_start(root, version)
        pointer = DeploymentPointer(
            version.version,
            version.uri,
            version.sha256,
            since,
            expected.snapshot,
            challenger,
            registry.read_holder(root),
        )
        storage.write_json(uri, asdict(pointer))
        try:
            start = _Start(port, _find_log(state, name), patience)
            server = _check_answer(root, name, pointer, expected, start)
            tasks.find(package.load(version.uri).kind).serving.follow(root, version, patience)
            return server
        except BaseException:
            _restore_pointer(root, name, before)
            raise


def await_released(registry_uri: str, name: str, patience: Patience = PATIENCE) -> RunningServer | None:
    """Wait until a running endpoint serves what the release record says; return it, None without one.

    Raises:
        UnavailableError: when it stalls; it still follows the record later.
    """
    progress = Progress(patience)
    while server := find_running(registry_uri, name):
        pointer = released.read_pointer(registry.root(registry_uri), name)
        health = _read_health(server, min(CALL_SECONDS, patience.still))
        if _serves(health, pointer):
            return server
        if stalled := progress.stall_reason(int(cpu_seconds(server.pid) or 0), health.get("loaded")):
            raise UnavailableError(
                f"the release record names version {pointer.version}, but {server.url} did not serve it {stalled}: "
                f"{health.get('problem') or 'it does not answer'}; its log is {_log_path(registry_uri, name)}"
            )
        time.sleep(0.05)
    return None


def run(state: State, name: str, port: int = PORT) -> NoReturn:
    """Become the endpoint's server, for a supervisor that restarts it whenever it dies.

    Args:
        state: locations of the registry, a folder, and of the lake, for the prediction log.
        name: the registered model.
        port: port of a use case's first server; later servers keep theirs.

    Raises:
        UserError: when the endpoint runs already, or nothing was ever deployed to it.
    """
    root = registry.root(state.registry)
    if server := find_running(root, name):
        raise UserError(f"an endpoint of {name!r} runs already, process {server.pid}; `nightshift stop` stops it")
    released.read_pointer(root, name)
    command = _prepare(root, name, _Start(port, _find_log(state, name), PATIENCE))
    os.execve(command[0], command, isolate(os.environ))  # noqa: S606 it needs no shell


def find_running(registry_uri: str, name: str) -> RunningServer | None:
    """Return the running server of a model; None without one."""
    root = registry.root(registry_uri)
    uri = files.state_uri(root, name)
    # a starting server holds its lock before it writes its address
    return _read_server(uri) if locks.is_held(files.lock_path(root, name)) else None


def _read_server(uri: str) -> RunningServer | None:
    return RunningServer(**storage.read_json(uri)) if storage.exists(uri) else None


def find_version(registry_uri: str, name: str) -> int | None:
    """Return the version of a model's endpoint, running or stopped; None without an endpoint."""
    pointer = _find_pointer(registry_uri, name)
    return pointer.version if pointer else None


def find_challenger(registry_uri: str, version: registry.Version) -> Challenger | None:
    """Return the challenger of a serving version; None if the version does not serve or has none."""
    pointer = _find_pointer(registry_uri, version.name)
    return pointer.challenger if pointer and pointer.version == version.version else None


def _find_pointer(registry_uri: str, name: str) -> DeploymentPointer | None:
    root = registry.root(registry_uri)
    return released.read_pointer(root, name) if storage.exists(files.pointer_uri(root, name)) else None


def stop(registry_uri: str, name: str | None = None) -> list[str]:
    """Stop the server of a model and what its task runs beside it, or those of all models of a registry.

    Returns:
        names of the models with a stopped server.
    """
    root = registry.root(registry_uri)
    models = [name] if name else storage.names(storage.join(root, "endpoint"))
    with registry.lock(root):
        return [model for model in models if any([_stop(root, model), *_stop_beside(root, model)])]


def _stop(root: str, name: str) -> bool:
    server = find_running(root, name)
    if server is None:
        return False
    processes.end(server.pid, lambda: find_running(root, name) is None)
    return True


def _stop_beside(root: str, name: str) -> Iterator[bool]:
    # of every task: the files that would name the model's task may be gone
    return (task.serving.stop(root, name) for task in tasks.load_tasks())


@dataclass(frozen=True)
class _Start:
    """The options of a start: the server's port, the folder of its prediction log, the limits of the wait."""

    port: int
    predictions: str
    patience: Patience


def _find_log(state: State, name: str) -> str:
    return storage.join(state.lake, name, "predictions")


def _check_answer(
    root: str, name: str, pointer: DeploymentPointer, expected: ScoredExample, start: _Start
) -> RunningServer:
    progress = Progress(start.patience)
    server = _await_version(root, name, pointer, start, progress)
    # the challenger may answer this entity otherwise
    headers = {"X-Model-Version": str(pointer.version)}
    seconds = min(CALL_SECONDS, start.patience.still)
    score = partial(processes.call, server, "/score", seconds, expected.request, headers)
    while (reply := score()) is None or reply.status in BUSY:
        _pause(progress, root, name, pointer, server.pid)
    content = reply.content
    if not _is_right(content, pointer.version, expected.score):
        raise UserError(
            f"the endpoint {server.url} answered {content} where version {pointer.version} scores {expected.score}; "
            "train and register the model again"
        )
    return server


def _is_right(answer: Any, version: int, score: float) -> bool:
    try:
        near = abs(float(answer["predictions"][0]["score"]) - score) <= TOLERANCE
        return near and bool(answer["version"] == version)
    except (LookupError, TypeError, ValueError):
        return False


def _await_version(
    root: str, name: str, pointer: DeploymentPointer, start: _Start, progress: Progress
) -> RunningServer:
    """Start the server if none is running, and wait until it serves a version."""
    process: subprocess.Popen[bytes] | None = None
    while True:
        if process and process.poll() is not None:
            processes.explain_end("the endpoint", process.returncode, _log_path(root, name))
        # checked repeatedly: a killed server may hold its lock a moment longer
        if not process and not locks.is_held(files.lock_path(root, name)):
            process = _launch(root, name, start)
        server = find_running(root, name)
        health = _read_health(server, min(CALL_SECONDS, start.patience.still)) if server else {}
        if server and health.get("wanted") == asdict(pointer):
            if health["problem"]:
                raise UserError(f"the endpoint cannot serve version {pointer.version}: {health['problem']}")
            if _serves(health, pointer):
                if process and server.port != start.port:
                    log.info("port %d was taken, the endpoint listens on %d", start.port, server.port)
                return server
        pid = process.pid if process else server.pid if server else None
        _pause(progress, root, name, pointer, pid, server, health.get("loaded"), health.get("behind"))


def _serves(health: dict[str, Any], pointer: DeploymentPointer) -> bool:
    """Return whether a server and all of its workers serve the versions of a pointer."""
    return health.get("wanted") == asdict(pointer) and health["loaded"] and not health["behind"]


def _read_health(server: RunningServer, seconds: float) -> dict[str, Any]:
    """Return the server's health; empty when it does not answer."""
    reply = processes.call(server, "/healthz", seconds)
    return reply.content if reply and reply.status == HTTPStatus.OK and isinstance(reply.content, dict) else {}


def _pause(
    progress: Progress, root: str, name: str, pointer: DeploymentPointer, pid: int | None, *signs: object
) -> None:
    """Pause for a moment; raise if the server stalls: no change of its log, its health or its CPU seconds."""
    path = _log_path(root, name)
    size = path.stat().st_size if path.exists() else 0
    # whole seconds: an idle server takes a little CPU time too
    stalled = progress.stall_reason(size, int(cpu_seconds(pid) or 0) if pid else 0, signs)
    if stalled:
        raise UnavailableError(
            f"the endpoint did not serve version {pointer.version} {stalled}; the version before is live again; its "
            f"log is {path}; run the same command again, or `nightshift stop` ends the endpoint"
        )
    time.sleep(0.05)


def _log_path(root: str, name: str) -> Path:
    return Path(files.folder(root, name), "server.log")


def _find_champion_start(root: str, version: registry.Version) -> str:
    """Return the time at which a version became the champion; now, for one that is not yet."""
    record = release_record.read(release_record.ReleaseRef(root, version.name))
    is_live = record is not None and record.live.version == version.version
    since = record.live_since[version.version] if record and is_live else datetime.now(UTC)
    return since.isoformat(timespec="seconds")


def _restore_pointer(root: str, name: str, before: bytes | None) -> None:
    if before is not None:
        storage.write_bytes(files.pointer_uri(root, name), before)
        return
    Path(files.pointer_uri(root, name)).unlink()
    _stop(root, name)


def _launch(root: str, name: str, start: _Start) -> "subprocess.Popen[bytes]":
    return processes.launch(_prepare(root, name, start), _log_path(root, name))


def _prepare(root: str, name: str, start: _Start) -> list[str]:
    """Return the command of a new server, with the flags of the one before, whoever started that."""
    # keep the port that clients know; remove the file, so that it is the new server's once it exists
    last = _read_server(files.state_uri(root, name))
    storage.remove(files.state_uri(root, name))
    arguments = ["--registry", root, "--name", name, "--port", str(last.port if last else start.port)]
    arguments += ["--predictions", start.predictions, *_read_settings(root, name).flags]
    arguments += last.flags if last else ()
    return [sys.executable, "-m", "nightshift.serving", *arguments]


def _read_settings(root: str, name: str) -> ServerSettings:
    uri = files.settings_uri(root, name)
    return ServerSettings.read(uri) if storage.exists(uri) else ServerSettings()
