"""A real PostgreSQL for a test: Debian's `postgresql`, which does not run as root."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nightshift_testkit.processes import SECONDS, started, wait_until
from nightshift_testkit.servers import free_port

USER = "nightshift"


@contextmanager
def serve(*databases: str) -> Iterator[str]:
    """Start a server with databases; yields its address, `<user>@<host>:<port>`."""
    programs, port = _programs(), free_port()
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))  # a test's own folders are closed to other users
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    if as_user:
        shutil.chown(folder, "postgres")
    make = [programs / "initdb", "--pgdata", folder / "data", "--auth", "trust", "--username", USER, "--no-sync"]
    subprocess.run([*as_user, *map(str, make)], check=True, capture_output=True)
    words = ["-D", folder / "data", "-h", "127.0.0.1", "-p", port, "-k", folder, "-F"]
    command = [*as_user, *map(str, [programs / "postgres", *words])]
    with (folder / "log").open("w") as log, started(command, stderr=log) as server:
        at = ["--host", "127.0.0.1", "--port", str(port), "--username", USER]
        wait_until(lambda: not subprocess.call([programs / "pg_isready", *at], stdout=log), "PostgreSQL answers")
        for name in databases:
            subprocess.run([programs / "createdb", *at, name], check=True)
        yield f"{USER}@127.0.0.1:{port}"
        server.send_signal(signal.SIGINT)  # its own processes end with it
        server.wait(SECONDS)
    shutil.rmtree(folder)


def _programs() -> Path:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not folders:
        assert "CI" not in os.environ, "PostgreSQL is missing; apt-get install postgresql"
        pytest.skip("PostgreSQL is missing; apt-get install postgresql")
    return folders[-1]
