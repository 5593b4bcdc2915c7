"""Gateways and simulated replicas, each in a thread of the test."""

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import uvloop

from nightshift.http.addresses import listen
from nightshift.http.transport import HttpServer
from nightshift_llm.gateway.application import GatewayPolicy
from nightshift_llm.gateway.fleet import Address
from nightshift_llm.gateway.keys import ApiKey
from nightshift_llm.gateway.prices import Prices
from nightshift_llm.gateway.server import GatewayOptions, make_server, open_application
from nightshift_testkit.engines.simulated import MODEL, SimulatedReplica
from nightshift_testkit.processes import wait_until
from nightshift_testkit.servers import free_port

CHAT = [{"role": "user", "content": "Tell me a story."}]


@contextmanager
def replying(replica: SimulatedReplica) -> Iterator[str]:
    """Have a replica answer during the block; yield its URL."""
    listener, loop = listen(free_port()), uvloop.new_event_loop()
    server = HttpServer(replica, cancels_abandoned=True)
    thread = threading.Thread(target=loop.run_until_complete, args=[server.serve(listener)])
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join()
        loop.close()


class RunningGateway:
    """A gateway in a thread: its URL, its replicas, and the addresses that it follows."""

    def __init__(self, url: str, replicas: Sequence[SimulatedReplica], addresses: list[Address]) -> None:
        self.url, self.replicas, self.addresses = url, replicas, addresses
        self.clients = ExitStack()

    def client(self, key: str = "anything") -> openai.OpenAI:
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=60)
        return self.clients.enter_context(client)

    def complete(self, **fields: Any) -> httpx.Response:
        return httpx.post(f"{self.url}/v1/chat/completions", json={"model": MODEL, "messages": CHAT} | fields)

    def health(self) -> dict[str, Any]:
        return httpx.get(f"{self.url}/healthz").json()["replicas"]


@contextmanager
def routing(
    replicas: Sequence[SimulatedReplica],
    keys: Mapping[str, ApiKey] | None = None,
    ledger: Path | None = None,
    log: Path | None = None,
    prices: Prices | None = None,
) -> Iterator[RunningGateway]:
    """Serve replicas behind a gateway, once all of them answer it."""
    with ExitStack() as stack:
        addresses = [Address(stack.enter_context(replying(replica))) for replica in replicas]
        listener = listen(free_port())
        read_keys, files = (lambda: keys) if keys else None, [path and str(path) for path in (ledger, log)]
        options = GatewayOptions("", 0, lambda: addresses, GatewayPolicy(read_keys, prices), files[0], log=files[1])
        stack.enter_context(running(options, listener))
        gateway = RunningGateway(f"http://127.0.0.1:{listener.getsockname()[1]}", replicas, addresses)
        wait_until(lambda: all(state["healthy"] for state in gateway.health().values()) and gateway.health(), "health")
        with gateway.clients:
            yield gateway


@contextmanager
def running(options: GatewayOptions, listener: Any) -> Iterator[None]:
    loop, stop = uvloop.new_event_loop(), []

    async def serve() -> None:
        async with open_application(options) as application:
            server = make_server(application)
            stop.append(server.stop)
            await server.serve(listener)

    thread = threading.Thread(target=loop.run_until_complete, args=[serve()])
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(lambda: stop[0]())
        thread.join()
        loop.close()


def key(name: str, **limits: float) -> tuple[str, ApiKey]:
    """A key of a test, which is its name: (hash, key)."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    return digest, ApiKey(name, digest, **limits)


@pytest.fixture(scope="module")
def gateway() -> Iterator[RunningGateway]:
    """Two replicas behind a gateway without keys."""
    with routing([SimulatedReplica(), SimulatedReplica()]) as gateway:
        yield gateway
