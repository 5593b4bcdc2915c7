"""Servers on this machine: started so that they outlive whoever starts them, called, and ended."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from nightshift.http import client
from nightshift.http.client import NO_HEADERS, ExchangeError, ServerAddress, encode_request
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.interpreter import isolate
from nightshift.runtime.step import USER_ERROR
from nightshift.serving.files import RunningServer

STOP_SECONDS = 15


class Reply(NamedTuple):
    """The response of a route: its status and JSON."""

    status: int
    content: Any


def launch(command: Sequence[str], log: Path, inherited: Sequence[int] = ()) -> "subprocess.Popen[bytes]":
    """Start a server in a session of its own.

    Args:
        command: its words.
        log: gets what it prints.
        inherited: descriptors that it keeps open.
    """
    with open(log, "ab", opener=partial(os.open, mode=0o600)) as output:
        process = subprocess.Popen(
            command,
            env=isolate(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            pass_fds=inherited,
        )
    # the server outlives this process; if it ends first, the wait prevents a zombie
    threading.Thread(target=process.wait, daemon=True).start()
    return process


def call(
    server: RunningServer, path: str, seconds: float, body: object = None, headers: Mapping[str, str] = NO_HEADERS
) -> Reply | None:
    """Call a route; return None when it does not answer with JSON."""
    address = ServerAddress(server.host, server.port)
    method, content = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
    try:
        response = client.call(address, encode_request(method, path, address.authority, content, "", headers), seconds)
        return Reply(response.status, json.loads(response.body))
    except (ExchangeError, ValueError):
        return None


def end(pid: int, has_ended: Callable[[], bool]) -> None:
    """End a server, by force if it takes long."""
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while not has_ended():
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.05)


def explain_end(what: str, code: int, log: Path) -> NoReturn:
    """Say why a server ended before it answered.

    Raises:
        UserError: when it says that the user has to fix something.
        UnavailableError: when it may start at the next attempt.
    """
    lines = log.read_text(errors="replace").strip().splitlines()
    message = f"{what} did not start: {lines[-1] if lines else 'its log is empty'}; its log is {log}"
    if code == USER_ERROR:
        raise UserError(message)
    raise UnavailableError(f"{message} (exit code {code}); run the same command again")
