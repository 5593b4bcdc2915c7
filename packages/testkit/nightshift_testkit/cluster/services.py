"""The services of a cluster by their names, for pods that are processes of this machine: an HTTP proxy.

A name that is not among them is not found, as in a cluster, and a service may want a login.
"""

import base64
import http.client
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from nightshift_testkit.processes import SECONDS
from nightshift_testkit.servers import serving

HOP = {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "date", "server"}


@dataclass(frozen=True)
class Service:
    """What answers under a name.

    Attributes:
        address: host and port on this machine; empty for one that takes everything and says nothing.
        login: user and password, as `user:password`; empty for a service without one.
    """

    address: str = ""
    login: str = ""

    def admits(self, header: str | None) -> bool:
        return not self.login or header == f"Basic {base64.b64encode(self.login.encode()).decode()}"


class _Proxy(ThreadingHTTPServer):
    def __init__(self, services: Mapping[str, Service]) -> None:
        super().__init__(("127.0.0.1", 0), ProxyHandler)
        self.services = services


class ProxyHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Proxy

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        service = self.server.services.get(url.netloc)
        if service is None:
            self._answer(HTTPStatus.BAD_GATEWAY, {}, f"no service {url.netloc}".encode())
        elif not service.admits(self.headers.get("Authorization")):
            self._answer(HTTPStatus.UNAUTHORIZED, {}, b"")
        elif not service.address:
            self._answer(HTTPStatus.OK, {}, b"")
        else:
            self._forward(service, url._replace(scheme="", netloc="").geturl(), body)

    do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET  # noqa: N815

    def _forward(self, service: Service, path: str, body: bytes) -> None:
        # a server on 127.0.0.1 does not know its name in the cluster
        headers = {name: text for name, text in self.headers.items() if name.lower() not in HOP | {"host"}}
        connection = http.client.HTTPConnection(service.address, timeout=SECONDS)
        connection.request(self.command, path, body, headers)
        with connection.getresponse() as answer:
            self._answer(answer.status, dict(answer.getheaders()), answer.read())
        connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, text in headers.items():
            if name.lower() not in HOP | {"content-length"}:
                self.send_header(name, text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@contextmanager
def proxy(services: Mapping[str, Service]) -> Iterator[dict[str, str]]:
    """Serve services by `<name>.<namespace>:<port>`; yields the environment variables of those that use it."""
    server = _Proxy(services)
    with serving(server):
        yield {"http_proxy": f"http://127.0.0.1:{server.server_port}", "no_proxy": "127.0.0.1"}
