"""Flags in, a server out: see `components/serving/__init__.py`."""

import argparse
import errno
import ipaddress
import logging
import os
import socket
import threading
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from components.common import locks, storage
from components.common.contracts import package
from components.common.errors import UserError
from components.common.step import Parser, log, run
from components.serving import files, platforms
from components.serving.batching import Limits
from components.serving.platforms import Platform

if TYPE_CHECKING:
    from components.serving.versions import Current

HOST = "127.0.0.1"
PORTS = 21
GRACE_SECONDS = 5
LOCK_SECONDS = 5  # whoever looks whether a server runs holds its lock for a moment


def parser() -> Parser:
    """Return the server's flags."""
    flags = Parser("serving", "Serve a model: a registry's champion, or one package.")
    flags.add_argument("serve", nargs="?", choices=["serve"], help="what SageMaker gives a container it starts")
    flags.add_argument("--registry", help="folder of the model registry, whose champion is followed")
    flags.add_argument("--model", help="folder or URI of one model package, instead of a registry")
    flags.add_argument(
        "--name", default="model", help="the registered model, or what to call the package (%(default)s)"
    )
    flags.add_argument("--port", help=f"port to listen on; one of the next {PORTS - 1} when it is taken (8321)")
    flags.add_argument("--host", help=f"address to listen on; a container needs 0.0.0.0 ({HOST})")
    flags.add_argument("--token-file", help="file with the bearer token of requests; needed beyond this machine")
    for name, what in (("rows", "of a request and of one call of the model"), ("queue", "that may wait for a call")):
        flags.add_argument(f"--max-{name}", default=str(getattr(Limits, name)), help=f"rows {what} (%(default)s)")
    flags.add_argument("--delay-ms", default="0", help="how long a call waits for more rows (%(default)s)")
    return flags


def body(args: argparse.Namespace) -> None:
    """Serve until stopped."""
    platform = platforms.detect(os.environ, args.serve is not None)
    host = args.host or ("0.0.0.0" if platform else HOST)  # noqa: S104 a platform's container has an address of its own
    port = _number("port", args.port or str(platform.port if platform else 8321), 65535)
    token = _token(args.token_file, host, platform)
    limits = Limits(
        rows=_number("max-rows", args.max_rows), queue=_number("max-queue", args.max_queue), delay=_delay(args.delay_ms)
    )
    current = _current(args, platform, limits)
    attempts = 1 if platform else PORTS  # a platform asks the port that it has named
    try:
        with _alone(args):
            _serve(args, listen(port, attempts, host), current, limits, token, platform)
    except BlockingIOError:
        raise UserError(f"an endpoint of {args.name!r} runs already; `nightshift stop` stops it") from None


def listen(port: int, attempts: int = PORTS, host: str = HOST) -> socket.socket:
    """Listen on a port, or on the next free one of `attempts`.

    Raises:
        UserError: when all of them are taken, or the host is no address of this machine.
    """
    last = min(port + attempts - 1, 65535)
    for candidate in range(port, last + 1):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
            listener.listen(socket.SOMAXCONN)
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise UserError(
                    f"host is {host!r}, port {candidate}: {error.strerror}; "
                    f"give an address of this machine with --host, such as {HOST}, and a port that you may listen on"
                ) from None
    raise UserError(f"port is {port}, but {port} to {last} are all taken; stop what listens there")


def _current(args: argparse.Namespace, platform: Platform | None, limits: Limits) -> "Current":
    from components.serving.versions import Current, load

    model: str | None = args.model or (platform.model if platform else None)
    if bool(args.registry) == bool(model):
        raise UserError("what to serve is not clear; give --registry FOLDER with --name, or --model FOLDER")
    if model is None:
        return Current(
            partial(files.pointed_at, files.pointer_uri(args.registry, args.name)),
            partial(load, args.name, limits=limits),
            files.state_folder(args.registry, args.name),
        )
    return Current(partial(_package, model), partial(load, args.name, limits=limits))


def _package(uri: str) -> files.Pointer:
    return files.Pointer(1, uri, package.load(uri).sha256, datetime.now(UTC).isoformat(timespec="seconds"))


def _alone(args: argparse.Namespace) -> AbstractContextManager[object]:
    if not args.registry:
        return nullcontext()
    return locks.held(files.lock_path(args.registry, args.name), seconds=LOCK_SECONDS)


def _number(name: str, given: str, most: int = 1_000_000) -> int:
    if not given.isdecimal() or not 0 < int(given) <= most:
        raise UserError(f"{name} is {given!r}; give a number from 1 to {most}")
    return int(given)


def _delay(given: str) -> float:
    try:
        delay = float(given) / 1000
    except ValueError:
        delay = -1.0
    if not 0 <= delay <= 1:
        raise UserError(f"delay-ms is {given!r}; give a number from 0 to 1000")
    return delay


def _token(path: str | None, host: str, platform: Platform | None) -> str | None:
    """Read the token that requests have to bear, None where nobody else can ask, or the platform checks who does.

    Raises:
        UserError: when the file cannot be read or is empty, or there is none and other machines can ask.
    """
    if path:
        try:
            token = Path(path).read_text().strip()
        except OSError as error:
            raise UserError(f"token-file is {path!r}: {error.strerror}; give a file that holds the token") from None
        if not token:
            raise UserError(f"token-file {path!r} is empty; write a token into it, as from: openssl rand -hex 32")
        return token
    if platform is None and not _is_loopback(host):
        raise UserError(f"host is {host!r}, which other machines can reach; give --token-file FILE with a bearer token")
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _serve(
    args: argparse.Namespace,
    listener: socket.socket,
    current: "Current",
    limits: Limits,
    token: str | None,
    platform: Platform | None,
) -> None:
    import uvicorn

    from components.serving.application import Application
    from components.serving.logs import Lines

    port = listener.getsockname()[1]
    if args.registry:
        state = files.State(os.getpid(), HOST, port)
        storage.write_json(files.state_uri(args.registry, args.name), asdict(state))
        threading.Thread(target=current.follow, daemon=True).start()
    for handler in logging.getLogger().handlers:
        handler.setFormatter(Lines())
    log.info("port %d serves %s, version %d", port, args.name, current.model.pointer.version)
    application = Application(current, limits, token, platform.aliases if platform else None)
    config = uvicorn.Config(
        application,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    with closing(current):
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    run(parser(), body)
