"""Starts a gateway: lock, socket, replicas and ledger."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import uvloop

from nightshift.http.addresses import listen
from nightshift.http.transport import HttpApplication, HttpServer, Timeouts, allow_connections, serve_until_signal
from nightshift.runtime.errors import UserError
from nightshift.runtime.observers import observe_requests
from nightshift.runtime.step import log
from nightshift.storage import locks
from nightshift_llm.gateway.application import GatewayApplication, GatewayPolicy
from nightshift_llm.gateway.fleet import Address, Fleet
from nightshift_llm.gateway.ledger import Ledger
from nightshift_llm.gateway.ledger_file import IN_MEMORY
from nightshift_llm.gateway.request_log import RequestLog

SERVICE = "nightshift-gateway"  # in spans
GRACE_SECONDS = 600.0  # time for the streams in progress when the gateway stops
LOCK_SECONDS = 5.0  # a killed predecessor may hold the lock for a moment


@dataclass(frozen=True)
class GatewayOptions:
    """The checked options of a gateway.

    Attributes:
        host: address to listen on.
        port: port to listen on.
        read_addresses: returns the configured replicas.
        policy: keys, prices and fields.
        ledger: file of the ledger; None: in memory.
        token: bearer token that replicas require; empty: none.
        log: folder of the request log; None: no log.
    """

    host: str
    port: int
    read_addresses: Callable[[], Sequence[Address]]
    policy: GatewayPolicy
    ledger: str | None
    token: str = ""
    log: str | None = None


def serve(options: GatewayOptions) -> None:
    """Serve until stopped.

    Raises:
        UserError: when the port is taken, or another gateway uses the ledger.
    """
    with _hold_lock(options.ledger), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(options))


async def _serve(options: GatewayOptions) -> None:
    listener = listen(options.port, 1, options.host)
    async with open_application(options) as application:
        log.info("port %d serves", listener.getsockname()[1])
        await serve_until_signal(make_server(application), listener)


def make_server(application: HttpApplication) -> HttpServer:
    """Return the transport in front of the routes."""
    limit = allow_connections(files_each=2)  # a client's, and a replica's
    return HttpServer(application, Timeouts(grace=GRACE_SECONDS), limit, cancels_abandoned=True)


@asynccontextmanager
async def open_application(options: GatewayOptions) -> AsyncIterator[HttpApplication]:
    """Open the ledger, and follow the replicas during the block."""
    ledger, fleet = Ledger(options.ledger or IN_MEMORY), Fleet(options.read_addresses, options.token)
    request_log = RequestLog(options.log) if options.log else None
    following = asyncio.create_task(fleet.follow())
    try:
        with observe_requests(GatewayApplication(fleet, ledger, options.policy, request_log), SERVICE) as application:
            yield application
    finally:
        following.cancel()
        fleet.close()
        if request_log:
            request_log.flush()
        await ledger.close()


@contextmanager
def _hold_lock(ledger: str | None) -> Iterator[None]:
    if ledger is None:
        yield
        return
    try:
        with locks.hold(f"{os.path.realpath(ledger)}.lock", seconds=LOCK_SECONDS):
            yield
    except BlockingIOError:
        raise UserError(f"ledger is {ledger!r}, which another gateway uses; stop it, or give another file") from None
    except FileNotFoundError:
        raise UserError(f"ledger is {ledger!r}, whose folder does not exist; create it") from None
