"""The engine that generates text by the champion's file, beside the endpoint that scores; see `nightshift_llm`."""

import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path

from nightshift import registry, storage
from nightshift.contracts import package
from nightshift.local import processes
from nightshift.registry import Version
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.progress import Patience, Progress, cpu_seconds
from nightshift.runtime.step import log
from nightshift.serving import files
from nightshift.serving.files import RunningServer
from nightshift.storage import locks

HOST, PORT = "127.0.0.1", 8421
PORTS = 100
DRAIN_SECONDS = 10
CALL_SECONDS = 10
PROBE = {"prompt": "a", "max_tokens": 1}


@dataclass(frozen=True)
class RunningEngine(RunningServer):
    """Process, address and file of a running engine."""

    file: str


def find_running(registry_uri: str, name: str) -> RunningEngine | None:
    """Return the running engine of a model; None without one."""
    folder = _folder(registry_uri, name)
    # a starting engine holds its lock before its address is written
    return _read_last(folder) if locks.is_held(folder / "engine.lock") else None


def _read_last(folder: Path) -> RunningEngine | None:
    """Return what has been started last, running or not."""
    state = folder / "engine.json"
    return RunningEngine(**storage.read_json(str(state))) if state.exists() else None


def follow(registry_uri: str, version: Version, patience: Patience) -> None:
    """Have the engine of a model generate text by a version's file; stop it where the version has none.

    While files change, nobody answers for a moment: the engine keeps its port.

    Raises:
        UserError: when it does not start with the file; the engine before then answers again.
        UnavailableError: when it stalls, or has ended for a reason that may pass; the same holds.
    """
    before, name = find_running(registry_uri, version.name), version.name
    file = package.load(version.uri).engine_file
    wanted = storage.join(version.uri, file) if file else None
    # one whose start was interrupted may be running, and not answer
    if before and before.file == wanted and _is_ready(before):
        return
    stop(registry_uri, name)
    if wanted is None:
        return
    folder = _folder(registry_uri, name)
    port = last.port if (last := _read_last(folder)) else PORT
    try:
        engine = _start(folder, name, wanted, port, patience)
    except BaseException:
        if before and before.file != wanted:
            _start(folder, name, before.file, port, patience)
        raise
    log.info("%s/v1 generates text by %s", engine.url, file)


def stop(registry_uri: str, name: str) -> bool:
    """Stop the engine of a model; return whether one was running."""
    if (engine := find_running(registry_uri, name)) is None:
        return False
    processes.end(engine.pid, lambda: find_running(registry_uri, name) is None)
    return True


def _folder(registry_uri: str, name: str) -> Path:
    return Path(files.folder(registry.root(registry_uri), name))


def _start(folder: Path, name: str, file: str, port: int, patience: Patience) -> RunningEngine:
    output = folder / "engine.log"
    process, engine = _launch(folder, name, file, port)
    try:
        _await_text(process, engine, output, Progress(patience))
    except BaseException as error:
        process.kill()
        process.wait()  # until then it may keep its port
        # another process has taken the port between the look at it and llama.cpp's listener
        if isinstance(error, UserError) and _find_port(engine.port) != engine.port:
            return _start(folder, name, file, engine.port + 1, patience)
        raise
    return engine


def _launch(folder: Path, name: str, file: str, port: int) -> "tuple[subprocess.Popen[bytes], RunningEngine]":
    """Start an engine, and write down at once where it is, so that it can be stopped whatever happens here."""
    state = str(folder / "engine.json")
    # the engine holds the lock as long as it runs
    with locks.hold(folder / "engine.lock", seconds=processes.STOP_SECONDS, inheritable=True) as lock:
        storage.remove(state)
        port = _find_port(port)
        flags = {"model": file, "name": name, "host": HOST, "port": port, "drain-seconds": DRAIN_SECONDS}
        words = [word for flag, value in flags.items() for word in (f"--{flag}", str(value))]
        command = [sys.executable, "-m", "nightshift_llm.engine", *words]
        process = processes.launch(command, folder / "engine.log", [lock.fileno()])
        engine = RunningEngine(process.pid, HOST, port, file)
        storage.write_json(state, asdict(engine))
    return process, engine


def _find_port(port: int) -> int:
    """Return a port that nobody listens on, this one or a later one."""
    for candidate in range(port, port + PORTS):
        with suppress(OSError), socket.create_server((HOST, candidate)):
            return candidate
    raise UnavailableError(f"no port from {port} to {port + PORTS - 1} is free for the engine; end what listens there")


def _await_text(process: "subprocess.Popen[bytes]", engine: RunningEngine, output: Path, progress: Progress) -> None:
    """Wait until the engine generates a token."""
    while True:
        if process.poll() is not None:
            processes.explain_end("the engine", process.returncode, output)
        reply = processes.call(engine, "/v1/completions", CALL_SECONDS, PROBE)
        if reply and reply.status == HTTPStatus.OK and _is_ready(engine):
            return
        # whole seconds: an idle engine takes a little CPU time too
        if stalled := progress.stall_reason(output.stat().st_size, int(cpu_seconds(process.pid) or 0)):
            raise UnavailableError(
                f"the engine did not generate text {stalled}; its log is {output}; run the same command again"
            )
        time.sleep(0.05)


def _is_ready(engine: RunningEngine) -> bool:
    """Return whether what answers at the address has loaded the engine's file: it may be another workspace's engine."""
    reply = processes.call(engine, "/props", CALL_SECONDS)
    return reply is not None and isinstance(reply.content, dict) and reply.content.get("model_path") == engine.file
