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
from pathlib import Path
from typing import Any, NamedTuple

from components.common import locks, registry, release, storage
from components.common.contracts import state as kept
from components.common.contracts.loadtest import Settings
from components.common.errors import UserError
from components.common.interpreter import isolated
from components.common.step import log
from components.deployment.examples import Example
from components.serving import files
from components.serving.files import Challenger, Pointer, State

PORT = 8321
START_SECONDS = 60
STOP_SECONDS = 15
TOLERANCE = 1e-6
NONE: Mapping[str, str] = {}


def check(state: kept.State) -> None:
    """Check that a model of this registry can be served from this machine if that is wanted.

    Raises:
        UserError: when the target is `local` and the registry is no folder.
    """
    if state.target is kept.Target.LOCAL and registry.is_remote(state.registry):
        raise UserError(
            f"target is 'local', but registry {state.registry} is a server; "
            "give a folder as registry, or target 'register-only'"
        )


def start_or_update(
    state: kept.State,
    version: registry.Version,
    expected: Example,
    port: int = PORT,
    challenger: Challenger | None = None,
) -> State:
    """Have the local endpoint serve a version, and check by calling it that it does.

    Args:
        state: where the registry lies, a folder, and the lake, which takes the prediction log.
        version: what is to be served.
        expected: a request and the score that this version must answer with.
        port: where the first server of a use case listens, or on the next free port; later ones keep theirs.
        challenger: what answers a share of the entities beside it.

    Raises:
        UserError: when the server does not start or does not serve this version; then everything is as before.
    """
    root, name = registry.root(state.registry), version.name
    uri = files.pointer_uri(root, name)
    with registry.exclusive(root):
        before = storage.read_bytes(uri) if storage.exists(uri) else None
        since = _since(root, version)
        pointer = Pointer(version.version, version.uri, version.sha256, since, expected.snapshot, challenger)
        storage.write_json(uri, asdict(pointer))
        try:
            start = _Start(port, storage.join(state.lake, name, "predictions"))
            return _checked(root, name, pointer, expected, start)
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


def pointed_at(registry_uri: str, name: str) -> int | None:
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
        return [each for each in wanted if _stop(root, each)]


def _stop(root: str, name: str) -> bool:
    state = running(root, name)
    if state is None:
        return False
    os.kill(state.pid, signal.SIGTERM)
    if not _within(STOP_SECONDS, lambda: running(root, name) is None):
        os.kill(state.pid, signal.SIGKILL)
    return True


class _Start(NamedTuple):
    """What a server is started with: where it listens, and the folder of its prediction log."""

    port: int
    predictions: str


def _checked(root: str, name: str, pointer: Pointer, expected: Example, start: _Start) -> State:
    state = _serving(root, name, pointer, start)
    # a share of the entities is the challenger's, perhaps this one
    answer = _call(state, "/score", expected.request, {"X-Model-Version": str(pointer.version)})
    right = answer and answer["version"] == pointer.version
    if not right or abs(answer["predictions"][0]["score"] - expected.score) > TOLERANCE:
        raise UserError(
            f"the endpoint {state.url} answered {answer} where version {pointer.version} scores {expected.score}; "
            "train and register the model again"
        )
    return state


def _serving(root: str, name: str, pointer: Pointer, start: _Start) -> State:
    """Start the server where none is running, and wait until it answers with a version."""
    process: subprocess.Popen[bytes] | None = None
    log_file = Path(files.folder(root, name), "server.log")
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process and process.poll() is not None:
            raise UserError(f"the endpoint did not start: {_last_line(log_file)}; its log is {log_file}")
        # asked again and again: one that was killed may hold its lock for a moment longer
        if not process and not locks.is_held(files.lock_path(root, name)):
            process = _launch(root, name, start)
        state = running(root, name)
        health = _call(state, "/healthz") if state else None
        if state and health and health["wanted"] == asdict(pointer):
            if health["problem"]:
                raise UserError(f"the endpoint cannot serve version {pointer.version}: {health['problem']}")
            if health["loaded"] and not health["behind"]:
                if process and state.port != start.port:
                    log.info("port %d was taken, the endpoint listens on %d", start.port, state.port)
                return state
        time.sleep(0.05)
    raise UserError(
        f"the endpoint did not serve version {pointer.version} within {START_SECONDS} s; its log is {log_file}; "
        "`nightshift stop` ends it"
    )


def _since(root: str, version: registry.Version) -> str:
    """Return when a version became the champion; now, when it is about to."""
    record = release.read(release.Place(root, version.name))
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
    words = ["--registry", root, "--name", name, "--port", str(last.port if last else start.port)]
    words += ["--predictions", start.predictions, *_settings(root, name).flags]
    command = [sys.executable, "-m", "components.serving", *words]
    with Path(files.folder(root, name), "server.log").open("ab") as output:
        process = subprocess.Popen(
            command,
            env=isolated(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    # it outlives us; should it end first, somebody has to take note, or it stays as a zombie
    threading.Thread(target=process.wait, daemon=True).start()
    return process


def _settings(root: str, name: str) -> Settings:
    uri = files.settings_uri(root, name)
    return Settings.read(uri) if storage.exists(uri) else Settings()


def _call(state: State, path: str, body: object = None, headers: Mapping[str, str] = NONE) -> Any:
    """Return the JSON that a route answers with, or None when it does not."""
    connection = http.client.HTTPConnection(state.host, state.port, timeout=10)
    method, content = ("GET", None) if body is None else ("POST", json.dumps(body))
    try:
        connection.request(method, path, content, headers)
        answer = connection.getresponse()
        return json.loads(answer.read()) if answer.status == http.client.OK else None
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
