"""Real Airflow, its state in a folder of the test run."""

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

HOME = tempfile.TemporaryDirectory(prefix="nightshift-airflow-")
CLUSTER = """
apiVersion: v1
kind: Config
current-context: none
contexts: [{name: none, context: {cluster: none}}]
clusters: [{name: none, cluster: {server: "%s"}}]
"""
KUBECONFIG = Path(HOME.name) / "kubeconfig"
# a bare import of Airflow would make ~/airflow
os.environ |= {"AIRFLOW_HOME": HOME.name, "AIRFLOW__CORE__LOAD_EXAMPLES": "false", "KUBECONFIG": str(KUBECONFIG)}

import pytest  # noqa: E402
from airflow.dag_processing.dagbag import DagBag  # noqa: E402
from airflow.sdk import DAG  # noqa: E402

from tests.dags.samples import DAGS, Load  # noqa: E402
from tests.kubeflow import Kubeflow, serve  # noqa: E402


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Load:
    """Parse the shipped DAGs, or those of another folder, with environment variables, as the DAG processor does."""

    def parsed(folder: Path = DAGS, **variables: str) -> dict[str, DAG]:
        for name in ("NIGHTSHIFT_ENVIRONMENT", "NIGHTSHIFT_DATA", "KFP_ENDPOINT", "KFP_NAMESPACE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in ({"NIGHTSHIFT_WORKSPACE": str(tmp_path)} | variables).items():
            monkeypatch.setenv(name, value)
        bag = DagBag(dag_folder=str(folder), bundle_path=folder)
        assert not bag.import_errors
        return dict(bag.dags)

    return parsed


POD = b"""{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "pod", "namespace": "nightshift", "labels": {}},
    "spec": {"containers": [{"name": "base", "image": "none"}]},
    "status": {"phase": "Failed", "containerStatuses": [{"name": "base", "image": "none", "imageID": "", "ready": false,
    "restartCount": 0, "state": {"terminated": {"exitCode": 75}}}]}}"""


class _Kubernetes(BaseHTTPRequestHandler):
    """Has one pod, which was preempted, and lists none; `made` counts the pods it was asked for."""

    made: ClassVar[list[dict[str, Any]]] = []

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.command == "POST":
            self.made.append(json.loads(body))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        listing = self.path.partition("?")[0].endswith("/pods") and self.command == "GET"
        self.wfile.write(b'{"kind": "PodList", "apiVersion": "v1", "items": []}' if listing else POD)

    do_GET = do_PATCH = do_DELETE = do_POST = answer  # noqa: N815 - their names

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def cluster() -> Iterator[list[dict[str, Any]]]:
    """A Kubernetes that the default connection finds; the pods that it is asked to make."""
    _Kubernetes.made.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Kubernetes) as server:
        KUBECONFIG.write_text(CLUSTER % f"http://127.0.0.1:{server.server_port}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield _Kubernetes.made
        server.shutdown()
        thread.join()


@pytest.fixture
def kubeflow() -> Iterator[Kubeflow]:
    yield from serve(Kubeflow())
