"""The servers: what each needs, how it starts, and what it is asked."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving import model
from nightshift.serving.triton.repository import PublishRequest, publish
from tests import triton
from tests.servers import free_port

APPS = Path(__file__).parent / "apps"


@dataclass(frozen=True)
class Place:
    """Where a server runs: the folder of its environment, the benchmark's folder, its port."""

    environment: Path
    folder: Path
    port: int

    def program(self, name: str) -> str:
        """Return a program of the environment."""
        return str(self.environment / "bin" / name)


@dataclass(frozen=True)
class Server:
    """A server of the benchmark.

    Attributes:
        requirements: what is installed into an environment of its own; none: ours.
        command: what starts it.
        path: what is asked.
        body: which of the requests of `model.write` is sent.
    """

    requirements: tuple[str, ...]
    command: Callable[[Place], list[str]]
    path: str
    body: str


def _app(name: str) -> Callable[[Place], list[str]]:
    return lambda place: [place.program("python"), str(APPS / name)]


def _empty(_: Place) -> list[str]:
    return [sys.executable, str(APPS / "empty.py")]


def _ours(place: Place) -> list[str]:
    return _nightshift(place, "--model", str(place.folder / "package"))


def _two_workers(place: Place) -> list[str]:
    return [*_ours(place), "--workers", "2"]


def _embedded(place: Place) -> list[str]:
    model.point(place.folder, model.snapshot_of_the_past(place.folder))
    return _nightshift(place, "--registry", str(place.folder))


def _shared(place: Place) -> list[str]:
    """Each answer is synced by Redis as by our own log."""
    home, port = place.folder / "redis", free_port()
    home.mkdir()
    (home / "url").write_text(f"redis://127.0.0.1:{port}/0\n")
    redis = f"redis-server --port {port} --bind 127.0.0.1 --dir {home} --appendonly yes --appendfsync always --save ''"
    ours = shlex.join([*_embedded(place), "--redis-file", str(home / "url")])
    return ["sh", "-c", f"{redis} & sleep 1; exec {ours}"]


def _nightshift(place: Place, *words: str) -> list[str]:
    return [sys.executable, "-m", "nightshift.serving", *words, "--name", model.NAME, "--port", str(place.port)]


def _bentoml(place: Place) -> list[str]:
    words = [
        "serve",
        "bentoml_app:Scorer",
        "--port",
        str(place.port),
        "--host",
        "127.0.0.1",
        "--working-dir",
        str(APPS),
    ]
    return [place.program("bentoml"), *words]


def _mlserver(place: Place) -> list[str]:
    home = place.folder / "mlserver"
    home.mkdir(exist_ok=True)
    settings = {"http_port": place.port, "grpc_port": free_port(), "metrics_port": free_port(), "host": "127.0.0.1"}
    # in the server's own process: its pool of workers is slower for a model this small
    (home / "settings.json").write_text(json.dumps(settings | {"parallel_workers": 0, "debug": False}))
    (home / "model-settings.json").write_text(json.dumps({"name": "fraud", "implementation": "mlserver_app.Scorer"}))
    return [place.program("mlserver"), "start", str(home)]


def _triton(place: Place) -> list[str]:
    repository = place.folder / "triton"
    publish(repository, str(place.folder / "package"), PublishRequest("fraud", 1))
    flags = {"load_model": "fraud", "http_port": place.port}
    return triton.command(triton.site(place.environment), place.folder, repository, **flags)


SERVERS = {
    "nightshift, tensors": Server((), _ours, "/v2/models/fraud/infer", "tensors"),
    "nightshift, features": Server((), _ours, "/score", "features"),
    "nightshift, two workers": Server((), _two_workers, "/v2/models/fraud/infer", "tensors"),
    "nightshift, events": Server((), _embedded, "/score", "events"),
    "nightshift, events in Redis": Server((), _shared, "/score", "events"),
    "Triton": Server(
        ("nvidia-pytriton==0.7.0", "onnxruntime==1.19.2", "numpy<2"), _triton, "/v2/models/fraud/infer", "tensors"
    ),
    "FastAPI": Server(
        ("fastapi==0.165.0", "uvicorn[standard]", "onnxruntime"), _app("fastapi_app.py"), "/predict", "rows"
    ),
    "MLServer": Server(("mlserver", "onnxruntime"), _mlserver, "/v2/models/fraud/infer", "tensors"),
    "LitServe": Server(("litserve", "onnxruntime"), _app("litserve_app.py"), "/predict", "rows"),
    "KServe": Server(("kserve", "onnxruntime"), _app("kserve_app.py"), "/v2/models/fraud/infer", "tensors"),
    "an empty answer": Server((), _empty, "/", "tensors"),
    "BentoML": Server(("bentoml", "onnxruntime"), _bentoml, "/predict", "rows"),
}


def environment_of(place: Place) -> dict[str, str]:
    """Return what a server finds in its environment."""
    site = next(place.environment.glob("lib/python*/site-packages"), place.environment)
    path = [str(place.environment / "bin"), os.environ["PATH"]]
    found = {
        "MODEL": str(place.folder / "model.onnx"),
        "PORT": str(place.port),
        "APPS": str(APPS),
        "PATH": os.pathsep.join(path),
    }
    python = [str(APPS), str(site)] if place.environment.exists() else [os.environ.get("PYTHONPATH", "")]
    found |= {"PYTHONPATH": os.pathsep.join(python), "LD_LIBRARY_PATH": str(site / "nvidia_pytriton.libs")}
    return os.environ | found | {"BENTOML_DO_NOT_TRACK": "True", "OMP_NUM_THREADS": "1"}
