"""Starts a server: its lock, its socket, its workers, and in each of them a model and the routes."""

import asyncio
import errno
import gc
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from functools import cache, partial

import uvloop

from nightshift import storage
from nightshift.contracts import package
from nightshift.errors import UserError
from nightshift.serving import files, http
from nightshift.serving.application import Application
from nightshift.serving.files import Pointer
from nightshift.serving.logs import Lines
from nightshift.serving.options import HOST, PORTS, Options
from nightshift.serving.predictions import Predictions
from nightshift.serving.versions import Current, load
from nightshift.serving.workers import Board, Workers
from nightshift.step import log
from nightshift.storage import locks
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.shared import Shared
from nightshift.tabular.online.store import Store

ANY_IPV6 = "::"
LOOPBACK = {"0.0.0.0": HOST, ANY_IPV6: HOST}  # noqa: S104 where this machine reaches who listens on all addresses
LOCK_SECONDS = 5  # whoever looks whether a server runs holds its lock for a moment


def serve(options: Options) -> None:
    """Serve until stopped.

    Raises:
        UserError: when there is nothing to serve, or another server serves it, or the port is taken.
    """
    load_current = _loader(options)
    with _alone(options):
        listener = listen(options.port, options.ports, options.host)
        _announce(options, listener)
        board = Board(options.workers)
        if options.workers > 1:
            Workers(board).start()
        with _loaded(options, load_current, board) as application:
            _answer(listener, application)


@contextmanager
def application(options: Options) -> Iterator[Application]:
    """Serve in another server's process: it listens, and asks the application; see `serve`."""
    load_current = _loader(options)
    with _alone(options), _loaded(options, load_current, Board()) as application:
        yield application


def listen(port: int, attempts: int = PORTS, host: str = HOST) -> socket.socket:
    """Listen on a port, or on the next free one of `attempts`.

    Raises:
        UserError: when all of them are taken, or the host is no address of this machine.
    """
    last = min(port + attempts - 1, 65535)
    for candidate in range(port, last + 1):
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == ANY_IPV6:  # IPv4 too, as containers with both are asked
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
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


def _loader(options: Options) -> Callable[[], Current]:
    """Return a function that loads the version that is to be served, and opens its online state."""
    loaded = partial(load, options.name, limits=options.limits, device=options.device)
    if options.registry is None:
        return partial(Current, cache(partial(_package, str(options.model))), loaded)
    ask = partial(files.pointed_at, files.pointer_uri(options.registry, options.name))
    ask()  # before the lock, which lies in the same folder
    return partial(Current, ask, loaded, files.state_folder(options.registry, options.name), _store(options))


def _store(options: Options) -> Callable[[Base], Store] | None:
    """Return what opens the online state of several processes, None when one of its own will do."""
    if options.redis:
        return partial(Shared, options.redis, options.name)
    return None if options.workers == 1 else _not_shared


def _not_shared(_: Base) -> Store:
    raise UserError("an online state in files has one worker; give --redis-file FILE, or --workers 1")


def _package(uri: str) -> Pointer:
    return Pointer(1, uri, package.load(uri).sha256, datetime.now(UTC).isoformat(timespec="seconds"))


def _announce(options: Options, listener: socket.socket) -> None:
    """Say where requests are answered, and by which process."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(Lines())
    if options.registry:
        host, port = listener.getsockname()[:2]
        reachable = LOOPBACK.get(host, host)
        state = files.State(os.getpid(), reachable, port)
        storage.write_json(files.state_uri(options.registry, options.name), asdict(state))


@contextmanager
def _alone(options: Options) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            if options.registry:
                path = files.lock_path(options.registry, options.name)
                stack.enter_context(locks.held(path, seconds=LOCK_SECONDS))
        except BlockingIOError:
            raise UserError(f"an endpoint of {options.name!r} runs already; `nightshift stop` stops it") from None
        yield


@contextmanager
def _loaded(options: Options, load_current: Callable[[], Current], board: Board) -> Iterator[Application]:
    """Load what is to be served, and follow it."""
    with closing(load_current()) as current, _logged(options.predictions) as predictions:
        threading.Thread(target=current.follow, args=(board.serve,), daemon=True).start()
        yield Application(current, options.limits, options.token, options.aliases, board, predictions)


def _logged(folder: str | None) -> AbstractContextManager[Predictions | None]:
    return closing(Predictions(folder)) if folder else nullcontext()


def _answer(listener: socket.socket, application: Application) -> None:
    gc.collect()
    gc.freeze()  # what is loaded stays: a collection looks at what requests leave only
    gc.set_threshold(50_000)  # requests create no reference cycles, so collections are rare and cheap
    model = application.model
    log.info("port %d serves %s, version %d", listener.getsockname()[1], model.name, model.pointer.version)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(http.serve(application, listener))
