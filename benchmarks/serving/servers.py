"""The servers: their requirements, commands and requests."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.serving import model
from nightshift.serving.triton.repository import PublishRequest, publish
from nightshift_testkit import triton
from nightshift_testkit.servers import free_port

APPS = Path(__file__).parent / "apps"


@dataclass(frozen=True)
class LaunchContext:
    """The folder of a server's environment, the folder of the benchmark, the server's port."""

    environment: Path
    folder: Path
    port: int

    def program(self, name: str) -> str:
        """Return the path of a program in the environment."""
        return str(self.environment / "bin" / name)


@dataclass(frozen=True)
class ServerSpec:
    """A server of the benchmark.

    Attributes:
        requirements: packages of its own environment; empty: it runs in ours.
        command: builds its command line.
        path: path of the requests.
        body: name of the request's body, see `model.write`.
    """

    requirements: tuple[str, ...]
    command: Callable[[LaunchContext], list[str]]
    path: str
    body: str


def _app(name: str) -> Callable[[LaunchContext], list[str]]:
    return lambda context: [context.program("python"), str(APPS / name)]


def _empty(_: LaunchContext) -> list[str]:
    return [sys.executable, str(APPS / "empty.py")]


def _serve_package(context: LaunchContext) -> list[str]:
    return _nightshift(context, "--model", str(context.folder / "package"))


def _serve_with_two_workers(context: LaunchContext) -> list[str]:
    return [*_serve_package(context), "--workers", "2"]


def _serve_events(context: LaunchContext) -> list[str]:
    model.point(context.folder, model.snapshot_of_the_past(context.folder))
    return _nightshift(context, "--registry", str(context.folder))


def _serve_events_in_redis(context: LaunchContext) -> list[str]:
    """Each answer is synced by Redis as by our own log."""
    home, port = context.folder / "redis", free_port()
    home.mkdir()
    (home / "url").write_text(f"redis://127.0.0.1:{port}/0\n")
    redis = f"redis-server --port {port} --bind 127.0.0.1 --dir {home} --appendonly yes --appendfsync always --save ''"
    ours = shlex.join([*_serve_events(context), "--redis-file", str(home / "url")])
    return ["sh", "-c", f"{redis} & sleep 1; exec {ours}"]


def _nightshift(context: LaunchContext, *flags: str) -> list[str]:
    return [sys.executable, "-m", "nightshift.serving", *flags, "--name", model.NAME, "--port", str(context.port)]


def _bentoml(context: LaunchContext) -> list[str]:
    arguments = [
        "serve",
        "bentoml_app:BentoScorer",
        "--port",
        str(context.port),
        "--host",
        "127.0.0.1",
        "--working-dir",
        str(APPS),
    ]
    return [context.program("bentoml"), *arguments]


def _mlserver(context: LaunchContext) -> list[str]:
    home = context.folder / "mlserver"
    home.mkdir(exist_ok=True)
    settings = {"http_port": context.port, "grpc_port": free_port(), "metrics_port": free_port(), "host": "127.0.0.1"}
    # in the server's own process: its pool of workers is slower for a model this small
    (home / "settings.json").write_text(json.dumps(settings | {"parallel_workers": 0, "debug": False}))
    (home / "model-settings.json").write_text(
        json.dumps({"name": "fraud", "implementation": "mlserver_app.MLServerScorer"})
    )
    return [context.program("mlserver"), "start", str(home)]


def _triton(context: LaunchContext) -> list[str]:
    repository = context.folder / "triton"
    publish(repository, str(context.folder / "package"), PublishRequest("fraud", 1))
    flags = {"load_model": "fraud", "http_port": context.port}
    return triton.command(triton.site(context.environment), context.folder, repository, **flags)


SERVERS = {
    "nightshift, tensors": ServerSpec((), _serve_package, "/v2/models/fraud/infer", "tensors"),
    "nightshift, features": ServerSpec((), _serve_package, "/score", "features"),
    "nightshift, two workers": ServerSpec((), _serve_with_two_workers, "/v2/models/fraud/infer", "tensors"),
    "nightshift, events": ServerSpec((), _serve_events, "/score", "events"),
    "nightshift, events in Redis": ServerSpec((), _serve_events_in_redis, "/score", "events"),
    "Triton": ServerSpec(
        ("nvidia-pytriton==0.7.0", "onnxruntime==1.19.2", "numpy<2"), _triton, "/v2/models/fraud/infer", "tensors"
    ),
    "FastAPI": ServerSpec(
        ("fastapi==0.165.0", "uvicorn[standard]", "onnxruntime"), _app("fastapi_app.py"), "/predict", "rows"
    ),
    "MLServer": ServerSpec(("mlserver", "onnxruntime"), _mlserver, "/v2/models/fraud/infer", "tensors"),
    "LitServe": ServerSpec(("litserve", "onnxruntime"), _app("litserve_app.py"), "/predict", "rows"),
    "KServe": ServerSpec(("kserve", "onnxruntime"), _app("kserve_app.py"), "/v2/models/fraud/infer", "tensors"),
    "an empty answer": ServerSpec((), _empty, "/", "tensors"),
    "BentoML": ServerSpec(("bentoml", "onnxruntime"), _bentoml, "/predict", "rows"),
}


def build_environment(context: LaunchContext) -> dict[str, str]:
    """Return the environment variables of a server."""
    site = next(context.environment.glob("lib/python*/site-packages"), context.environment)
    path = [str(context.environment / "bin"), os.environ["PATH"]]
    variables = {
        "MODEL": str(context.folder / "model.onnx"),
        "PORT": str(context.port),
        "APPS": str(APPS),
        "PATH": os.pathsep.join(path),
    }
    python = [str(APPS), str(site)] if context.environment.exists() else [os.environ.get("PYTHONPATH", "")]
    variables |= {"PYTHONPATH": os.pathsep.join(python), "LD_LIBRARY_PATH": str(site / "nvidia_pytriton.libs")}
    return os.environ | variables | {"BENTOML_DO_NOT_TRACK": "True", "OMP_NUM_THREADS": "1"}
