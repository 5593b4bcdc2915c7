"""A receiver of notifications: an HTTP server on this machine that keeps what is posted to it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from nightshift_testkit.servers import serving


class WebhookReceiver(ThreadingHTTPServer):
    """`bodies` holds the JSON of each request, oldest first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), WebhookHandler)
        self.bodies: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class WebhookHandler(BaseHTTPRequestHandler):
    server: WebhookReceiver

    def do_POST(self) -> None:
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def receiving() -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver()
    with serving(receiver):
        yield receiver
