"""Servers that tests run in a thread of their own, and ports for those that are processes."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import BaseServer
from typing import Any


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(server: BaseServer) -> Iterator[None]:
    """Have a server answer during the block, and close it."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class JsonHandler(BaseHTTPRequestHandler):
    """Keeps the JSON that is posted, and answers without a body."""

    def keep(self, body: Any) -> None:
        raise NotImplementedError

    def do_POST(self) -> None:
        self.keep(json.loads(self.rfile.read(int(self.headers["content-length"]))))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass
