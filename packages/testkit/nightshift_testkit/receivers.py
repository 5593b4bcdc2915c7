"""A receiver of notifications: an HTTP server on this machine that keeps what is posted to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import ThreadingHTTPServer
from typing import Any

from nightshift_testkit.servers import JsonHandler, serving


class WebhookReceiver(ThreadingHTTPServer):
    """`bodies` holds the JSON of each request, oldest first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), WebhookHandler)
        self.bodies: list[Any] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"


class WebhookHandler(JsonHandler):
    server: WebhookReceiver

    def keep(self, body: Any) -> None:
        self.server.bodies.append(body)


@contextmanager
def receiving() -> Iterator[WebhookReceiver]:
    receiver = WebhookReceiver()
    with serving(receiver):
        yield receiver
