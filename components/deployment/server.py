"""The local endpoint: scores named features with the version that a pointer file names.

    python -m components.deployment.server --registry registry --name fraud --port 8321

It listens on 127.0.0.1 by default. When `<registry>/endpoint/<name>/current.json` changes, the new
version is loaded beside the old one and takes over between two requests; one that cannot be loaded changes nothing.
"""

import argparse
import errno
import json
import os
import socket
import threading
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from components.common import locks, storage
from components.common.errors import UserError
from components.common.step import Parser, log, run

if TYPE_CHECKING:
    from fastapi import FastAPI

    from components.common.contracts.package import ModelPackage
    from components.common.graph import Graph
    from components.deployment.core import Rows

HOST = "127.0.0.1"
PORTS = 21
POLL_SECONDS = 0.2
GRACE_SECONDS = 5
LOCK_SECONDS = 5  # whoever looks whether a server runs holds its lock for a moment


@dataclass(frozen=True)
class Pointer:
    """Which version is to be served.

    Attributes:
        version: its number.
        uri: folder of its files.
        sha256: what `ModelPackage.sha256` of these files must be.
        since: when it became the champion, ISO 8601, UTC.
    """

    version: int
    uri: str
    sha256: str
    since: str


@dataclass(frozen=True)
class State:
    """Where a running server can be reached."""

    pid: int
    host: str
    port: int

    @property
    def url(self) -> str:
        """Root of its routes."""
        return f"http://{self.host}:{self.port}"


def folder(registry: str, name: str) -> str:
    """Return where pointer, state and log of an endpoint lie."""
    return storage.join(registry, "endpoint", name)


def pointer_uri(registry: str, name: str) -> str:
    """Return the file that names the version to be served."""
    return storage.join(folder(registry, name), "current.json")


def state_uri(registry: str, name: str) -> str:
    """Return the file in which the server says where it listens."""
    return storage.join(folder(registry, name), "state.json")


def lock_path(registry: str, name: str) -> str:
    """Return the file that a server holds a lock on as long as it runs."""
    return storage.join(folder(registry, name), "server.lock")


@dataclass(frozen=True)
class Model:
    """A version in memory."""

    pointer: Pointer
    package: "ModelPackage"
    rows: "Rows"
    graph: "Graph"


def load(pointer: Pointer) -> Model:
    """Load a version.

    Raises:
        UserError: when its files are not those that were registered.
    """
    from components.common.contracts import package
    from components.deployment.core import Rows
    from components.tabular.inputs import Scorer

    manifest = package.load(pointer.uri)
    if manifest.sha256 != pointer.sha256:
        raise UserError(f"{pointer.uri} holds model {manifest.sha256[:8]}, not {pointer.sha256[:8]}; restore its files")
    return Model(pointer, manifest, Rows(manifest.preprocessing), Scorer(pointer.uri, manifest).graph)


class Current:
    """The version that answers. It is replaced whole, so a request sees one version from start to end.

    Attributes:
        model: the version that answers.
        wanted: what the pointer file said last.
        problem: why `wanted` is not what answers; None when it is.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self.wanted = Pointer(**storage.read_json(uri))
        self.model = load(self.wanted)
        self.problem: str | None = None

    def refresh(self) -> None:
        """Follow the pointer file if it has changed."""
        try:
            wanted = Pointer(**storage.read_json(self._uri))
            if wanted == self.wanted:
                return
            # in this order, so that an old problem is never read as the new version's
            self.problem, self.wanted = None, wanted
            self.model = load(wanted)
            log.info("serving version %d", wanted.version)
        except Exception as error:  # whatever is wrong with the new version, the old one keeps serving
            self._report(f"{type(error).__name__}: {error}")

    def follow(self) -> None:
        """Follow the pointer file for ever."""
        while True:
            time.sleep(POLL_SECONDS)
            self.refresh()

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            log.error("still serving version %d: %s", self.model.pointer.version, problem)
        self.problem = problem

    def told(self) -> tuple[dict[str, str], bool]:
        """Return the labels by which Prometheus knows what answers, and whether it is not what should."""
        model = self.model
        labels = {"version": str(model.pointer.version), "candidate": model.package.selected}
        return labels | {"sha256": model.pointer.sha256}, self.problem is not None

    def health(self) -> dict[str, Any]:
        """Return what answers, what should, and why it does not."""
        serving = self.model.pointer.version
        status = "degraded" if self.problem else "ok"
        return {"status": status, "version": serving, "wanted": self.wanted.version, "problem": self.problem}


def describe(name: str, model: Model) -> dict[str, Any]:
    """Return what is public about a version."""
    pointer, package = model.pointer, model.package
    return {
        "name": name,
        "version": pointer.version,
        "sha256": pointer.sha256,
        "candidate": package.selected,
        "inputs": package.preprocessing.model_dump(include={"numeric", "categorical"}),
        "threshold": package.decision.threshold,
        "trained": package.lineage.train.model_dump(mode="json", include={"first", "last"}),
        "champion_since": pointer.since,
    }


def score(name: str, model: Model, body: bytes) -> dict[str, Any]:
    """Answer a request to score.

    Raises:
        core.RequestError: when the request is not right.
    """
    from components.deployment import core

    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise core.RequestError("body", str(error), "JSON") from None
    matrix = model.rows.matrix(request)
    predictions = core.predictions(model.graph.score(matrix), model.package.decision.threshold)
    return {"model": name, "version": model.pointer.version, "predictions": predictions}


def application(name: str, current: Current) -> "FastAPI":
    """Return the routes."""
    from fastapi import FastAPI, Request
    from fastapi.concurrency import run_in_threadpool
    from fastapi.responses import JSONResponse, Response
    from prometheus_client import CONTENT_TYPE_LATEST

    from components.deployment.core import RequestError
    from components.deployment.metrics import Counted, Metrics

    metrics = Metrics(name, current.told)
    routes = FastAPI(title=f"Nightshift: {name}", docs_url=None, redoc_url=None)
    routes.add_middleware(Counted, metrics=metrics)

    def answer(model: Model, body: bytes) -> dict[str, Any]:
        found = score(name, model, body)
        metrics.scored(found["predictions"])
        return found

    @routes.post("/v1/score")
    async def _score(request: Request) -> JSONResponse:
        model = current.model
        return JSONResponse(await run_in_threadpool(answer, model, await request.body()))

    @routes.get("/v1/model")
    def _model() -> dict[str, Any]:
        return describe(name, current.model)

    @routes.get("/healthz")
    def _healthz() -> dict[str, Any]:
        return current.health()

    @routes.get("/metrics")
    def _metrics() -> Response:
        return Response(metrics.page(), media_type=CONTENT_TYPE_LATEST)

    @routes.exception_handler(RequestError)
    async def _refused(_: Request, error: RequestError) -> JSONResponse:
        content = {"error": str(error), "field": error.field, "value": error.value, "allowed": error.allowed}
        return JSONResponse(content, status_code=400)

    return routes


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
            listener.listen()
            return listener
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise UserError(
                    f"host is {host!r}, port {candidate}: {error.strerror}; "
                    f"give an address of this machine with --host, such as {HOST}, and a port that you may listen on"
                ) from None
    raise UserError(f"port is {port}, but {port} to {last} are all taken; stop what listens there")


def parser() -> Parser:
    """Return the server's flags."""
    flags = Parser("deployment.server", "Serve a model's champion on this machine.").takes(
        registry="folder of the model registry",
        name="the registered model",
        port=f"port to listen on; one of the next {PORTS - 1} when it is taken",
    )
    flags.add_argument("--host", default=HOST, help="address to listen on; a container needs 0.0.0.0 (%(default)s)")
    return flags


def body(args: argparse.Namespace) -> None:
    """Serve until stopped."""
    if not args.port.isdecimal() or not 0 < int(args.port) < 65536:
        raise UserError(f"port is {args.port!r}; give a number from 1 to 65535")
    current = Current(pointer_uri(args.registry, args.name))
    try:
        with locks.held(lock_path(args.registry, args.name), seconds=LOCK_SECONDS):
            _serve(args, current)
    except BlockingIOError:
        raise UserError(f"an endpoint of {args.name!r} runs already; `nightshift stop` stops it") from None


def _serve(args: argparse.Namespace, current: Current) -> None:
    import uvicorn

    listener = listen(int(args.port), host=args.host)
    state = State(os.getpid(), HOST, listener.getsockname()[1])
    storage.write_json(state_uri(args.registry, args.name), asdict(state))
    log.info("%s serves %s, version %d", state.url, args.name, current.model.pointer.version)
    threading.Thread(target=current.follow, daemon=True).start()
    config = uvicorn.Config(
        application(args.name, current),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    run(parser(), body)
