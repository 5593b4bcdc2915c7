"""A real MLflow tracking server that keeps its models' files itself, as one on a cluster does."""

import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nightshift.tracking import connection
from nightshift_testkit.processes import SECONDS, wait_until
from nightshift_testkit.servers import free_port

SETTINGS = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # as on a cluster: infra/cluster/namespaces


@contextmanager
def serve(store: Path, python: str = sys.executable, database: str = "", **variables: str) -> Iterator[str]:
    """Start a server whose files lie in a folder, wait for it, and yield its URL.

    Args:
        store: the folder.
        python: of an environment with MLflow.
        database: URI of the server's database; without one it lies in the folder too.
        variables: environment variables for the server.
    """
    port = free_port()
    command = [python, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", database or f"sqlite:///{store}/mlflow.db"]
    command += ["--artifacts-destination", str(store / "files")]
    with (store / "log").open("w") as log:
        environment = {**os.environ, **connection.SETTINGS, **SETTINGS, **variables}
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: process.poll() is not None or _answers(url), f"{url} answers")
        assert process.poll() is None, (store / "log").read_text()
        yield url
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(SECONDS)


def _answers(url: str) -> bool:
    with urllib.request.urlopen(f"{url}/health"):
        return True
