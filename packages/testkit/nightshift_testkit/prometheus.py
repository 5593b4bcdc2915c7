"""Prometheus' own programs, for tests; Debian has prometheus and its -alertmanager and -pushgateway."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import httpx
import pytest

from nightshift_testkit.processes import started, wait_until
from nightshift_testkit.servers import free_port


def program(name: str) -> str:
    """Return where a program lies, or skip the test; CI has all of them."""
    path = shutil.which(name)
    if path is None and not os.environ.get("CI"):
        pytest.skip(
            f"{name} is not installed here; on Debian: apt-get install {name.replace('promtool', 'prometheus')}"
        )
    assert path, f"{name} is missing in CI"
    return path


def pushgateway() -> AbstractContextManager[str]:
    """Run a Pushgateway that keeps nothing; Debian's keeps what was pushed in /var/lib."""
    return running("prometheus-pushgateway", "--persistence.file=")


@contextmanager
def running(name: str, *options: str) -> Iterator[str]:
    """Run one of Prometheus' servers on a free port of the loopback interface, and give its URL."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [program(name), f"--web.listen-address={url.removeprefix('http://')}", "--log.level=error", *options]
    with started(command) as process:
        wait_until(lambda: _ready(url, process), f"{name} is ready")
        yield url


def _ready(url: str, process: "subprocess.Popen[bytes]") -> bool:
    assert process.poll() is None, f"it ended with exit code {process.returncode}; see above"
    try:
        return httpx.get(f"{url}/-/ready").status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def samples(url: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Return what a URL exposes: (name, labels) -> value."""
    from prometheus_client.parser import text_string_to_metric_families

    families = text_string_to_metric_families(httpx.get(url).text)
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}
