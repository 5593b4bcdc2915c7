"""The replicas, with their health and load."""

import asyncio
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from nightshift.http.client import NO_HEADERS, PORTS, ExchangeError, ServerAddress, encode_request
from nightshift.http.pool import ConnectionPool, HttpConnection
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import log
from nightshift_llm.gateway.errors import DECODE_ERRORS, NoReplicaError, UnknownModelError
from nightshift_llm.gateway.prefixes import PrefixCache
from nightshift_llm.gateway.routing import ReplicaLoad, choose

CHECK_SECONDS = 1.0  # between two checks of the replicas
HEALTH_SECONDS = 5.0  # timeout of a health check; an engine that prefills a long prompt is slow, not unhealthy
SILENCE_SECONDS = 300.0  # read timeout of a response
RUNNING = "vllm:num_requests_running|llamacpp:requests_processing|sglang:num_running_reqs"
WAITING = "vllm:num_requests_waiting|llamacpp:requests_deferred|sglang:num_queue_reqs"
CACHE = "vllm:kv_cache_usage_perc|vllm:gpu_cache_usage_perc|llamacpp:kv_cache_usage_ratio|sglang:token_usage"
KINDS = f"(?P<running>{RUNNING})|(?P<waiting>{WAITING})|(?P<cache>{CACHE})"
REPORTED = re.compile(rf"^(?:{KINDS})(?:\{{[^}}]*\}})? (?P<value>[\d.eE+-]+)$", re.MULTILINE)


class Address(NamedTuple):
    """The address of a replica.

    Attributes:
        url: `http://host:port` or `https://host:port`.
        version: version of its model, in the ledger; empty: the model's name.
    """

    url: str
    version: str = ""


class ReportedLoad(NamedTuple):
    """The load that a replica reports.

    Attributes:
        running: running requests.
        waiting: requests that wait for a slot.
        cache_usage: share of its KV cache in use, 0..1.
    """

    running: int = 0
    waiting: int = 0
    cache_usage: float = 0.0

    @property
    def requests(self) -> int:
        """Running and waiting."""
        return self.running + self.waiting


class ModelEntry(msgspec.Struct):
    """A model in a list of models.

    Attributes:
        id: name in requests.
        created: time in seconds since 1970, where the engine reports it.
        max_model_len: most tokens of a prompt and its completion, where the engine reports it.
    """

    id: str
    created: object = None
    max_model_len: object = None


class ServedModels(msgspec.Struct):
    """The response of `/v1/models`."""

    data: list[ModelEntry]


class EngineReplica:
    """A replica of the engine.

    Attributes:
        address: its address.
        pool: its connections.
        models: served models by name, as of the last check.
        is_healthy: whether it passed the last check.
        is_draining: whether it gets no further requests.
        cached: prefixes that are probably in its cache.
        reported: load that it reports.
        running: the gateway's requests there.
        queued: prompt blocks of those that wait for their first token.
    """

    def __init__(self, address: Address, token: str = "") -> None:
        self.address, self._token = address, token
        self.pool = ConnectionPool(ServerAddress.from_url(address.url))
        self.models: dict[str, ModelEntry] = {}
        self.is_healthy = self.is_draining = False
        self.cached, self.reported = PrefixCache(), ReportedLoad()
        self.running = self.queued = 0

    @property
    def is_serving(self) -> bool:
        """Whether it may get requests."""
        return self.is_healthy and not self.is_draining

    def describe_load(self, prefixes: Sequence[int]) -> ReplicaLoad:
        """Return the work that it would have with a prompt added."""
        return ReplicaLoad(
            missing=len(prefixes) - self.cached.count_cached(prefixes),
            queued=self.queued,
            running=max(self.running, self.reported.requests),
            cache_usage=self.reported.cache_usage,
            known=len(self.cached),
        )

    def encode(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = NO_HEADERS) -> bytes:
        """Return a request to it."""
        return encode_request(method, path, self.pool.address.authority, body, self._token, headers)

    def mark_failed(self, reason: object) -> None:
        """Send it no requests until it passes a check."""
        if self.is_healthy:
            log.warning("%s gets no requests until it answers again: %s", self.address.url, reason)
        self.is_healthy = False

    async def follow(self) -> None:
        """Check its health periodically, and end connections that have timed out."""
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)
            self.pool.end_silent(SILENCE_SECONDS)

    async def check(self) -> None:
        """Update its health, models and load."""
        try:
            async with asyncio.timeout(HEALTH_SECONDS):
                await self._get("/health")
                models = msgspec.json.decode(await self._get("/v1/models"), type=ServedModels)
                self.reported = await self._read_load()
        except (ExchangeError, TimeoutError, *DECODE_ERRORS) as error:
            self.mark_failed(str(error) or "no answer in time")
            return
        self.models = {model.id: model for model in models.data}
        if not self.is_healthy:
            log.info("%s answers, and serves %s", self.address.url, ", ".join(sorted(self.models)))
        self.is_healthy = True

    async def _get(self, path: str) -> bytes:
        """Return the body of a page, or raise ExchangeError."""
        connection = await self.pool.acquire()
        try:
            await connection.send(self.encode("GET", path))
            body = await connection.read_all()
        finally:
            self.pool.release(connection)
        if connection.status != HTTPStatus.OK:
            raise ExchangeError(f"{path} answers {connection.status}")
        return body

    async def _read_load(self) -> ReportedLoad:
        try:
            return parse_load((await self._get("/metrics")).decode(errors="replace"))
        except (ExchangeError, ValueError, OverflowError):  # some engines lack the page, or numbers in it
            return ReportedLoad()


class Lease:
    """A request at a replica, from its choice to the end of its response.

    Attributes:
        replica: chosen replica.
        prompt_blocks: blocks of the prompt.
        cached_blocks: blocks that are probably in the replica's cache.
        is_sent: whether the replica has the request.
    """

    def __init__(self, replica: EngineReplica, prefixes: Sequence[int]) -> None:
        self.replica = replica
        self.prompt_blocks, self.cached_blocks = len(prefixes), replica.cached.count_cached(prefixes)
        self._queued = self.prompt_blocks - self.cached_blocks
        self._connection: HttpConnection | None = None
        self._is_open, self.is_sent = True, False
        replica.cached.add(prefixes)  # at once, since requests queued behind it will hit the cache
        replica.running += 1
        replica.queued += self._queued

    async def send(self, path: str, body: bytes, headers: Mapping[str, str]) -> HttpConnection:
        """Send the request; return the connection once the response begins.

        Raises:
            ExchangeError: when it does not.
        """
        self._connection = await self.replica.pool.acquire()
        self.is_sent = True
        await self._connection.send(self.replica.encode("POST", path, body, headers))
        return self._connection

    def mark_started(self) -> None:
        """Note the first token: the prompt no longer waits."""
        self.replica.queued -= self._queued
        self._queued = 0

    def close(self) -> None:
        """End the request; an incomplete response is canceled."""
        if not self._is_open:
            return
        self._is_open = False
        self.mark_started()
        self.replica.running -= 1
        if self._connection:
            self.replica.pool.release(self._connection)


class Fleet:
    """All replicas.

    Attributes:
        replicas: by address, also those that are draining.
    """

    def __init__(self, read_addresses: Callable[[], Sequence[Address]], token: str = "") -> None:
        """Start without replicas.

        Args:
            read_addresses: returns the configured replicas.
            token: bearer token that they require; empty: none.
        """
        self._read_addresses, self._token, self._started = read_addresses, token, int(time.time())
        self.replicas: dict[Address, EngineReplica] = {}
        self._tasks: dict[Address, asyncio.Task[None]] = {}

    async def follow(self) -> None:
        """Add replicas that are new, drain those that are gone, and remove them once their last response has ended."""
        while True:
            self.update(self._read_addresses())
            await asyncio.sleep(CHECK_SECONDS)

    def update(self, addresses: Sequence[Address]) -> None:
        """Add, drain and remove replicas, so that those at these addresses remain."""
        for address in addresses:
            if address not in self.replicas:
                self.replicas[address] = replica = EngineReplica(address, self._token)
                self._tasks[address] = asyncio.get_running_loop().create_task(replica.follow())
        for address, replica in list(self.replicas.items()):
            replica.is_draining = address not in addresses
            if replica.is_draining and not replica.running:
                log.info("%s has no requests left", address.url)
                self._tasks.pop(address).cancel()
                self.replicas.pop(address).pool.close()

    def lease(self, model: str, prefixes: Sequence[int], tried: Collection[EngineReplica] = ()) -> Lease:
        """Choose a replica for a request, other than those where it has failed; raises as `find_candidates`."""
        candidates = self.find_candidates(model, tried)
        return Lease(candidates[choose([replica.describe_load(prefixes) for replica in candidates])], prefixes)

    def find_candidates(self, model: str, tried: Collection[EngineReplica] = ()) -> list[EngineReplica]:
        """Return the replicas that may answer a request.

        Raises:
            NoReplicaError: when none of the model answers.
            UnknownModelError: when none serves the model.
        """
        serving = [replica for replica in self.replicas.values() if replica.is_serving]
        candidates = [replica for replica in serving if model in replica.models and replica not in tried]
        if candidates:
            return candidates
        if serving and model not in (names := self.list_models()):
            raise UnknownModelError(f"model is {model[:100]!r}; served: {', '.join(names)}", "model")
        raise NoReplicaError(f"no replica of {model[:100]!r} answers at the moment; try again", retry_after=1)

    def list_models(self) -> list[str]:
        """Return the models of all replicas, sorted."""
        return sorted({model for replica in self.replicas.values() for model in replica.models})

    def describe_models(self) -> list[dict[str, str | int]]:
        """Return the models in the form of OpenAI's API; of differing replicas, the lowest numbers."""
        return [self._describe_model(name) for name in self.list_models()]

    def _describe_model(self, name: str) -> dict[str, str | int]:
        entries = [entry for replica in self.replicas.values() if (entry := replica.models.get(name))]
        created = [entry.created for entry in entries if isinstance(entry.created, int)]
        lengths = [entry.max_model_len for entry in entries if isinstance(entry.max_model_len, int)]
        model: dict[str, str | int] = {"id": name, "object": "model", "owned_by": "nightshift"}
        model["created"] = min(created, default=self._started)
        return model | ({"max_model_len": min(lengths)} if lengths else {})

    def close(self) -> None:
        """End all checks and connections."""
        for task in self._tasks.values():
            task.cancel()
        for replica in self.replicas.values():
            replica.pool.close()


def parse_load(page: str) -> ReportedLoad:
    """Read a replica's load from its metrics, in Prometheus' text format."""
    totals, usage = dict.fromkeys(("running", "waiting"), 0), 0.0
    for match in REPORTED.finditer(page):
        if match["cache"]:
            usage = max(usage, float(match["value"]))
        else:
            totals["running" if match["running"] else "waiting"] += int(float(match["value"]))
    return ReportedLoad(**totals, cache_usage=usage)


def parse_address(field: str, text: str) -> Address:
    """Read `[VERSION=]URL`.

    Raises:
        UserError: naming the field, its value and what is allowed.
    """
    version, _, url = text.strip().rpartition("=")
    try:
        parts = urlsplit(url.rstrip("/"))
        is_address = parts.scheme in PORTS and parts.hostname and parts.port != 0 and not parts.path
    except ValueError:
        is_address = False
    if not is_address:
        raise UserError(
            f"{field} is {text.strip()!r}; give [VERSION=]http://HOST:PORT or https://HOST:PORT, "
            "such as http://127.0.0.1:8001"
        )
    return Address(url.rstrip("/"), version)


def parse_addresses(path: str, content: bytes) -> list[Address]:
    """Parse a file with one replica per line; empty lines and comments (#) are skipped.

    Raises:
        UserError: naming the file, the value and what is allowed; also for a file without a replica.
    """
    lines = [line.strip() for line in content.decode(errors="replace").splitlines()]
    addresses = [parse_address(f"replica in {path}", line) for line in lines if line and not line.startswith("#")]
    if not addresses:
        raise UserError(f"replicas is {path!r}, which lists none; list at least one, or stop the gateway")
    return addresses
