"""Prometheus' own programs, for tests; Debian has them as prometheus and prometheus-pushgateway."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import httpx
import pytest


def program(name: str) -> str:
    """Return where a program lies, or skip the test; CI has all of them."""
    path = shutil.which(name)
    if path is None and not os.environ.get("CI"):
        pytest.skip(
            f"{name} is not installed here; on Debian: apt-get install {name.replace('promtool', 'prometheus')}"
        )
    assert path, f"{name} is missing in CI"
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def pushgateway() -> AbstractContextManager[str]:
    """Run a Pushgateway that keeps nothing; Debian's keeps what was pushed in /var/lib."""
    return running("prometheus-pushgateway", "--persistence.file=")


@contextmanager
def running(name: str, *options: str) -> Iterator[str]:
    """Run one of Prometheus' servers on a free port of the loopback interface, and give its URL."""
    address = f"127.0.0.1:{free_port()}"
    command = [program(name), f"--web.listen-address={address}", "--log.level=error", *options]
    process = subprocess.Popen(command)
    try:
        _wait(f"http://{address}/-/ready")
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


def _wait(url: str, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if httpx.get(url).status_code == httpx.codes.OK:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"{url} did not answer within {seconds} s")


def samples(url: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return what a URL exposes: (name, labels) -> value."""
    from prometheus_client.parser import text_string_to_metric_families

    families = text_string_to_metric_families(httpx.get(url).text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}
