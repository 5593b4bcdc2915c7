"""Servers that tests run in a thread of their own, and ports for those that are processes."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseServer


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
