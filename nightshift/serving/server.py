"""Starts a server: its lock, its socket, its workers, and in each worker a model and the routes."""

import asyncio
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
from nightshift.http import transport
from nightshift.http.addresses import ANY_IPV6, HOST, is_loopback, listen
from nightshift.http.transport import HttpApplication
from nightshift.runtime.errors import UserError
from nightshift.runtime.observers import observe_requests
from nightshift.runtime.step import log
from nightshift.serving import files, released
from nightshift.serving.application import Application
from nightshift.serving.files import DeploymentPointer
from nightshift.serving.logs import JsonFormatter
from nightshift.serving.options import Options
from nightshift.serving.prediction_log import PredictionLog
from nightshift.serving.versions import ModelManager, load
from nightshift.serving.workers import SharedCounters, WorkerPool
from nightshift.storage import locks
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.shared import Shared
from nightshift.tabular.online.store import Store

LOOPBACK = {"0.0.0.0": HOST, ANY_IPV6: HOST}  # noqa: S104 how this machine reaches a server on all addresses
SERVICE = "nightshift-serving"  # in spans
LOCK_SECONDS = 5  # a check for a running server holds its lock for a moment


def serve(options: Options) -> None:
    """Serve until stopped.

    Raises:
        UserError: when there is nothing to serve, another server runs, or no port is free.
    """
    load_manager = _make_loader(options)
    with _hold_lock(options):
        listener = listen(options.port, options.ports, options.host)
        _announce(options, listener)
        counters = SharedCounters(options.workers)
        if options.workers > 1:
            WorkerPool(counters).start()
        with _load_application(options, load_manager, counters) as application:
            _answer_requests(listener, application)


@contextmanager
def application(options: Options) -> Iterator[HttpApplication]:
    """Load the application for another server's process, such as an ASGI server's; raises as `serve`."""
    load_manager = _make_loader(options)
    loading = _load_application(options, load_manager, SharedCounters())
    with _hold_lock(options), loading as loaded, observe_requests(loaded, SERVICE) as observed:
        yield observed


def _make_loader(options: Options) -> Callable[[], ModelManager]:
    """Return a function that loads the version to serve, and opens its online state."""
    load_version = partial(load, options.name, limits=options.limits, device=options.device)
    if options.registry is None:
        return partial(ModelManager, cache(partial(_build_pointer, str(options.model))), load_version)
    read_pointer = partial(released.read_pointer, options.registry, options.name)
    read_pointer()  # before the lock, whose folder exists only with the pointer
    folder = files.state_folder(options.registry, options.name)
    return partial(ModelManager, read_pointer, load_version, folder, _choose_store(options))


def _choose_store(options: Options) -> Callable[[Base], Store] | None:
    """Return the constructor of a store for several processes; None: a store of this process is enough."""
    if options.read_redis:
        return partial(Shared, options.read_redis, options.name)
    return None if options.workers == 1 else _refuse_store


def _refuse_store(_: Base) -> Store:
    raise UserError("an online state in files has one worker; give --redis-file FILE, or --workers 1")


def _build_pointer(uri: str) -> DeploymentPointer:
    return DeploymentPointer(1, uri, package.load(uri).sha256, datetime.now(UTC).isoformat(timespec="seconds"))


def _announce(options: Options, listener: socket.socket) -> None:
    """Write the server's process and address to its file, and switch logs to JSON."""
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonFormatter())
    if options.registry:
        host, port = listener.getsockname()[:2]
        server = files.RunningServer(os.getpid(), LOOPBACK.get(host, host), port, flags=options.flags)
        storage.write_json(files.state_uri(options.registry, options.name), asdict(server))


@contextmanager
def _hold_lock(options: Options) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            if options.registry:
                path = files.lock_path(options.registry, options.name)
                stack.enter_context(locks.hold(path, seconds=LOCK_SECONDS))
        except BlockingIOError:
            raise UserError(f"an endpoint of {options.name!r} runs already; `nightshift stop` stops it") from None
        yield


@contextmanager
def _load_application(
    options: Options, load_manager: Callable[[], ModelManager], counters: SharedCounters
) -> Iterator[Application]:
    """Load the version to serve, and follow its successors."""
    with closing(load_manager()) as manager, _open_log(options.predictions) as predictions:
        threading.Thread(target=manager.follow, args=(counters.report,), daemon=True).start()
        yield Application(
            manager, options.limits, options.token, options.aliases, counters, predictions, is_loopback(options.host)
        )


def _open_log(folder: str | None) -> AbstractContextManager[PredictionLog | None]:
    return closing(PredictionLog(folder)) if folder else nullcontext()


def _answer_requests(listener: socket.socket, application: Application) -> None:
    gc.collect()
    gc.freeze()  # collections skip the loaded objects and look at those of requests only
    gc.set_threshold(50_000)  # requests create no reference cycles, so collections are rare and cheap
    model = application.model
    log.info("port %d serves %s, version %d", listener.getsockname()[1], model.name, model.pointer.version)
    observing = observe_requests(application, SERVICE)
    with observing as observed, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(transport.serve(observed, listener))
