"""An S3 server that really answers, and one in front of it that fails as object stores do."""

import http.client
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any

import boto3
import fsspec
import pytest
from moto.server import ThreadedMotoServer

from nightshift_testkit.processes import started, wait_until
from nightshift_testkit.servers import free_port

REGION = "us-east-1"
KEPT = ("content-length", "content-type", "etag", "last-modified", "content-range", "x-amz-bucket-region")


@contextmanager
def bucket() -> Iterator[str]:
    """Serve S3 with the bucket `lake`, empty; the URL of the server.

    All of moto's servers in a process share their buckets, so this one goes with the test that it was created for.
    """
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    server._server.app = one_by_one(server._server.app)
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    with reached_at(url):
        lake = boto3.resource("s3").create_bucket(Bucket="lake")
    try:
        yield url
    finally:
        lake.objects.delete()
        lake.delete()
        server.stop()


@contextmanager
def rclone(folder: Path) -> Iterator[str]:
    """Serve a folder as the bucket `lake` by a program that has another idea of S3; the URL of the server."""
    (folder / "lake").mkdir(parents=True)
    address = f"127.0.0.1:{free_port()}"
    words = ["--addr", address, "--auth-key", "test,test", "--config", str(folder / "none")]
    program = str(Path(sys.executable).with_name("rclone"))
    with (
        (folder / "log").open("w") as log,
        started([program, "serve", "s3", *words, str(folder)], stderr=log),
        reached_at(f"http://{address}"),
    ):
        wait_until(lambda: "Starting s3 server" in (folder / "log").read_text(), "rclone serves")
        yield f"http://{address}"


def one_by_one(app: Callable[..., Any]) -> Callable[..., Any]:
    """Answer a request after the other: of a conditional PUT moto looks first and writes then, where S3 does both."""
    lock = Lock()

    def answer(*request: Any) -> Any:
        with lock:
            return app(*request)

    return answer


def environment(url: str) -> dict[str, str]:
    """The environment in which s3:// is a server."""
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    return keys | {"AWS_ENDPOINT_URL": url, "AWS_DEFAULT_REGION": REGION}


@contextmanager
def reached_at(url: str) -> Iterator[None]:
    """Let s3:// be a server in this process."""
    import s3fs

    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment(url).items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        yield
        s3fs.S3FileSystem.clear_instance_cache()


@dataclass
class Fault:
    """What goes wrong with the next requests of a kind.

    Attributes:
        method: of the requests.
        path: a part of their path.
        answer: a status; `hang`: none for a while; `lost`: done, without an answer; `reset`: half of the content.
        times: how many requests, counted down.
        code: of the error in S3's answer.
    """

    method: str
    path: str
    answer: int | str
    times: int
    code: str = "InternalError"


class Faulty(ThreadingHTTPServer):
    """Passes requests on to a server, except those that a fault is set for; notes all that come in."""

    daemon_threads = True

    def __init__(self, url: str) -> None:
        super().__init__(("127.0.0.1", 0), S3Handler)
        self.behind = url.removeprefix("http://")
        self.faults: list[Fault] = []
        self.requests: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def fault(self, method: str, path: str) -> Fault | None:
        """Take the fault of a request."""
        for fault in self.faults:
            if fault.times and fault.method == method and fault.path in path:
                fault.times -= 1
                return fault
        return None

    @contextmanager
    def serving(self) -> Iterator["Faulty"]:
        """Serve, and let s3:// be this server, that is given up on after a second."""
        Thread(target=self.serve_forever, daemon=True).start()
        with reached_at(self.url), pytest.MonkeyPatch.context() as patch:
            patch.setitem(fsspec.config.conf, "s3", {"config_kwargs": {"read_timeout": 1}})
            yield self
        self.shutdown()
        self.server_close()


class S3Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Faulty

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append(f"{self.command} {self.path}")
        fault = self.server.fault(self.command, self.path)
        if fault and isinstance(fault.answer, int):
            error = f"<Error><Code>{fault.code}</Code><Message>We are sorry.</Message></Error>".encode()
            self._answer(fault.answer, {"Content-Type": "application/xml"}, error)
            return
        if fault and fault.answer == "hang":
            time.sleep(2)
            self.close_connection = True
            return
        connection = http.client.HTTPConnection(self.server.behind)
        connection.request(self.command, self.path, body, dict(self.headers))
        answer = connection.getresponse()
        headers = {name: value for name, value in answer.getheaders() if name.lower() in KEPT}
        if fault and fault.answer == "lost":
            self.close_connection = True
            return
        self._answer(answer.status, headers, answer.read(), half=fault is not None)
        connection.close()

    def _answer(self, status: int, headers: dict[str, str], content: bytes, half: bool = False) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if half else content)
        self.close_connection = half

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass

    def do_GET(self) -> None:
        self._handle()

    def do_HEAD(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()
