"""Starts, updates, checks and stops the local server; its files lie in `<registry>/endpoint/<name>/`."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from nightshift import registry, release, storage
from nightshift.contracts import state as kept
from nightshift.contracts.loadtest import ServerSettings
from nightshift.errors import UnavailableError, UserError
from nightshift.interpreter import isolate
from nightshift.progress import Patience, Progress, cpu_seconds
from nightshift.serving import files
from nightshift.serving.files import Challenger, Pointer, State
from nightshift.step import USER_ERROR, log
from nightshift.storage import locks
from nightshift.tasks.examples import ScoredExample

PORT = 8321
PATIENCE = Patience()
CALL_SECONDS = 10
BUSY = (http.client.TOO_MANY_REQUESTS, http.client.SERVICE_UNAVAILABLE)
STOP_SECONDS = 15
TOLERANCE = 1e-6
NONE: Mapping[str, str] = {}


def check(state: kept.State) -> None:
    """Check that a model of this registry can be served from this machine if that is wanted.

    Raises:
        UserError: when the target is `local` and the registry is no folder.
    """
    if state.target is kept.DeploymentTarget.LOCAL and registry.is_remote(state.registry):
        raise UserError(
            f"target is 'local', but registry {state.registry} is a server; "
            "give a folder as registry, or target 'register-only'"
        )


def start_or_update(
    state: kept.State,
    version: registry.Version,
    expected: ScoredExample,
    port: int = PORT,
    challenger: Challenger | None = None,
    patience: Patience = PATIENCE,
) -> State:
    """Have the local endpoint serve a version, and check by calling it that it does.

    Args:
        state: where the registry lies, a folder, and the lake, which takes the prediction log.
        version: what is to be served.
        expected: a request and the score that this version must answer with.
        port: where the first server of a use case listens, or on the next free port; later ones keep theirs.
        challenger: what answers a share of the entities beside it.
        patience: how long the server is waited for.

    Raises:
        UserError: when the server does not start or does not serve this version; then everything is as before.
        UnavailableError: when it gets no further, or has ended for a reason that may pass; the same then.
    """
    root, name = registry.root(state.registry), version.name
    uri = files.pointer_uri(root, name)
    with registry.exclusive(root):
        before = storage.read_bytes(uri) if storage.exists(uri) else None
        since = _since(root, version)
        pointer = Pointer(version.version, version.uri, version.sha256, since, expected.snapshot, challenger)
        storage.write_json(uri, asdict(pointer))
        try:
            start = _Start(port, storage.join(state.lake, name, "predictions"), patience)
            return _check_answer(root, name, pointer, expected, start)
        except BaseException:
            _put_back(root, name, before)
            raise


def running(registry_uri: str, name: str) -> State | None:
    """Return where the server of a model listens, or None when none of ours is running."""
    root = registry.root(registry_uri)
    uri = files.state_uri(root, name)
    # one that is just starting holds the lock before it has written where it listens
    return _state(uri) if locks.is_held(files.lock_path(root, name)) else None


def _state(uri: str) -> State | None:
    return State(**storage.read_json(uri)) if storage.exists(uri) else None


def find_version(registry_uri: str, name: str) -> int | None:
    """Return the version that the endpoint of a model serves, or served when it was stopped; None without one."""
    uri = files.pointer_uri(registry.root(registry_uri), name)
    return files.pointed_at(uri).version if storage.exists(uri) else None


def beside(registry_uri: str, version: registry.Version) -> Challenger | None:
    """Return the challenger that answers beside a version, None where the version does not answer or answers alone."""
    uri = files.pointer_uri(registry.root(registry_uri), version.name)
    pointer = files.pointed_at(uri) if storage.exists(uri) else None
    return pointer.challenger if pointer and pointer.version == version.version else None


def stop(registry_uri: str, name: str | None = None) -> list[str]:
    """End the server of a model, or of all models of a registry.

    Returns:
        names of the models whose server was running.
    """
    root = registry.root(registry_uri)
    wanted = [name] if name else storage.names(storage.join(root, "endpoint"))
    with registry.exclusive(root):
        return [model for model in wanted if _stop(root, model)]


def _stop(root: str, name: str) -> bool:
    state = running(root, name)
    if state is None:
        return False
    os.kill(state.pid, signal.SIGTERM)
    if not _within(STOP_SECONDS, lambda: running(root, name) is None):
        os.kill(state.pid, signal.SIGKILL)
    return True


class _Start(NamedTuple):
    """What a server is started with: where it listens, and the folder of its prediction log; and its time for that."""

    port: int
    predictions: str
    patience: Patience


def _check_answer(root: str, name: str, pointer: Pointer, expected: ScoredExample, start: _Start) -> State:
    waited = Progress(start.patience)
    state = _serving(root, name, pointer, start, waited)
    # a share of the entities is the challenger's, perhaps this one
    headers = {"X-Model-Version": str(pointer.version)}
    seconds = min(CALL_SECONDS, start.patience.still)
    while (reply := _call(state, "/score", seconds, expected.request, headers)) is None or reply.status in BUSY:
        _go_on(waited, root, name, pointer, state.pid)
    answer = reply.content
    if not _is_right(answer, pointer.version, expected.score):
        raise UserError(
            f"the endpoint {state.url} answered {answer} where version {pointer.version} scores {expected.score}; "
            "train and register the model again"
        )
    return state


def _is_right(answer: Any, version: int, score: float) -> bool:
    try:
        near = abs(float(answer["predictions"][0]["score"]) - score) <= TOLERANCE
        return near and bool(answer["version"] == version)
    except (LookupError, TypeError, ValueError):
        return False


def _serving(root: str, name: str, pointer: Pointer, start: _Start, waited: Progress) -> State:
    """Start the server where none is running, and wait until it answers with a version."""
    process: subprocess.Popen[bytes] | None = None
    while True:
        if process and process.poll() is not None:
            _explain_end(process.returncode, root, name)
        # asked again and again: one that was killed may hold its lock for a moment longer
        if not process and not locks.is_held(files.lock_path(root, name)):
            process = _launch(root, name, start)
        state = running(root, name)
        health = _health(state, min(CALL_SECONDS, start.patience.still)) if state else {}
        if state and health.get("wanted") == asdict(pointer):
            if health["problem"]:
                raise UserError(f"the endpoint cannot serve version {pointer.version}: {health['problem']}")
            if health["loaded"] and not health["behind"]:
                if process and state.port != start.port:
                    log.info("port %d was taken, the endpoint listens on %d", start.port, state.port)
                return state
        pid = process.pid if process else state.pid if state else None
        _go_on(waited, root, name, pointer, pid, state, health.get("loaded"), health.get("behind"))


def _health(state: State, seconds: float) -> dict[str, Any]:
    """Return what the server says of itself, nothing where it does not."""
    reply = _call(state, "/healthz", seconds)
    return reply.content if reply and reply.status == http.client.OK and isinstance(reply.content, dict) else {}


def _explain_end(code: int, root: str, name: str) -> NoReturn:
    path = _log_path(root, name)
    message = f"the endpoint did not start: {_last_line(path)}; its log is {path}"
    if code == USER_ERROR:
        raise UserError(message)
    raise UnavailableError(f"{message} (exit code {code}); run the same command again")


def _go_on(waited: Progress, root: str, name: str, pointer: Pointer, pid: int | None, *signs: object) -> None:
    """Pause a moment, as long as the server gets on: its log, what it says, or the seconds of CPU time it has taken."""
    path = _log_path(root, name)
    size = path.stat().st_size if path.exists() else 0
    # whole seconds: a server that only waits takes a little of them too
    stalled = waited.stall_reason(size, int(cpu_seconds(pid) or 0) if pid else 0, signs)
    if stalled:
        raise UnavailableError(
            f"the endpoint did not serve version {pointer.version} {stalled}; what was live before is live again; its "
            f"log is {path}; run the same command again, or `nightshift stop` ends the endpoint"
        )
    time.sleep(0.05)


def _log_path(root: str, name: str) -> Path:
    return Path(files.folder(root, name), "server.log")


def _since(root: str, version: registry.Version) -> str:
    """Return when a version became the champion; now, when it is about to."""
    record = release.read(release.ReleaseRef(root, version.name))
    is_live = record is not None and record.live.version == version.version
    since = record.live_since[version.version] if record and is_live else datetime.now(UTC)
    return since.isoformat(timespec="seconds")


def _put_back(root: str, name: str, before: bytes | None) -> None:
    if before is not None:
        storage.write_bytes(files.pointer_uri(root, name), before)
        return
    Path(files.pointer_uri(root, name)).unlink()
    _stop(root, name)


def _launch(root: str, name: str, start: _Start) -> "subprocess.Popen[bytes]":
    # the port of the last time, where clients know it; gone, so that whoever finds a state finds the new server's
    last = _state(files.state_uri(root, name))
    storage.remove(files.state_uri(root, name))
    arguments = ["--registry", root, "--name", name, "--port", str(last.port if last else start.port)]
    arguments += ["--predictions", start.predictions, *_settings(root, name).flags]
    command = [sys.executable, "-m", "nightshift.serving", *arguments]
    with open(_log_path(root, name), "ab", opener=partial(os.open, mode=0o600)) as output:
        process = subprocess.Popen(
            command,
            env=isolate(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    # it outlives us; should it end first, somebody has to take note, or it stays as a zombie
    threading.Thread(target=process.wait, daemon=True).start()
    return process


def _settings(root: str, name: str) -> ServerSettings:
    uri = files.settings_uri(root, name)
    return ServerSettings.read(uri) if storage.exists(uri) else ServerSettings()


class _Answer(NamedTuple):
    """What a route answers: the status, and its JSON."""

    status: int
    content: Any


def _call(
    state: State, path: str, seconds: float, body: object = None, headers: Mapping[str, str] = NONE
) -> _Answer | None:
    """Return what a route answers, or None when it does not."""
    connection = http.client.HTTPConnection(state.host, state.port, timeout=seconds)
    method, content = ("GET", None) if body is None else ("POST", json.dumps(body))
    try:
        connection.request(method, path, content, headers)
        answer = connection.getresponse()
        return _Answer(answer.status, json.loads(answer.read()))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
