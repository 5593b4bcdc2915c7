"""A real Redis for a test: Debian's `redis-server`, which writes every change to disk before it answers."""

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from nightshift_testkit.processes import SECONDS, started, wait_until
from nightshift_testkit.servers import free_port

if TYPE_CHECKING:
    from redis import Redis


@contextmanager
def serve(folder: Path, port: int | None = None) -> Iterator[str]:
    """Start a server whose data lies in a folder; yields its URL."""
    if shutil.which("redis-server") is None:
        assert "CI" not in os.environ, "Redis is missing; apt-get install redis-server"
        pytest.skip("Redis is missing; apt-get install redis-server")
    pytest.importorskip("redis", reason="redis-py is missing; pip install -e '.[redis]'")
    port = port or free_port()
    words = [
        "--unixsocket",
        folder / "socket",
        "--port",
        port,
        "--bind",
        "127.0.0.1",
        "--dir",
        folder,
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
    ]
    with (folder / "log").open("ab") as log, started(["redis-server", *map(str, words)], stdout=log) as server:
        wait_until(lambda: _answers(port), "Redis answers")
        yield f"redis://127.0.0.1:{port}/0"
        server.send_signal(signal.SIGKILL)
        server.wait(SECONDS)


@contextmanager
def administer(folder: Path) -> "Iterator[tuple[str, Redis]]":
    """Start a server as `serve` does; yields its URL and a client that may change its settings."""
    with serve(folder) as url:
        from redis import Redis

        with Redis.from_url(url) as client:
            yield url, client


def _answers(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(5) == b"+PONG"
