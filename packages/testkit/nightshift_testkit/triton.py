"""A real Triton for a test: tritonserver of the `nvidia-pytriton` wheel, in an environment of its own.

The wheel has no backend for ONNX; one in Python has its name here, so that repositories are the production ones.
"""

import os
import shutil
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from nightshift_testkit.processes import SECONDS, started, wait_until
from nightshift_testkit.servers import free_port

ROOT = Path(__file__).parents[3]
ENVIRONMENT = ROOT / ".venv-triton"
BACKEND = Path(__file__).with_name("triton_backend.py")


def site(environment: Path = ENVIRONMENT) -> Path:
    """The packages of the environment; without it the test is skipped."""
    packages = next(environment.glob("lib/python*/site-packages"), None)
    if packages is None or not (packages / "pytriton").exists():
        assert "CI" not in os.environ, "Triton is missing; make .venv-triton/.installed"
        pytest.skip("Triton is missing; make .venv-triton/.installed")
    return packages


def command(packages: Path, folder: Path, repository: Path, **flags: str | int) -> list[str]:
    """What starts a server that loads models as they are asked for.

    Args:
        packages: of its environment, see `site`.
        folder: where the backends are laid out.
        repository: its models.
        flags: more of tritonserver's, with underscores.
    """
    server = packages / "pytriton" / "tritonserver"
    defaults: dict[str, str | int | Path] = {
        "model_repository": repository,
        "model_control_mode": "explicit",
        "backend_directory": _backends(packages, folder / "backends"),
        "cache_directory": server / "caches",
        "http_address": "127.0.0.1",
        "allow_grpc": "false",
        "allow_metrics": "false",
        "exit_timeout_secs": 10,
    }
    words = [f"--{name.replace('_', '-')}={value}" for name, value in (defaults | flags).items()]
    # what is generated has to be whole
    return [str(server / "bin" / "tritonserver"), "--disable-auto-complete-config", *words]


def environment(packages: Path) -> dict[str, str]:
    """What it and the processes of its Python backend find in their environment."""
    return os.environ | {
        "PATH": os.pathsep.join([str(packages.parents[2] / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(map(str, (packages, ROOT))),
        "LD_LIBRARY_PATH": str(packages / "nvidia_pytriton.libs"),
        "ORT_DISABLE_TELEMETRY": "1",
    }


@contextmanager
def serve(folder: Path, repository: Path, imported: Iterable[Path] = (), **flags: str | int) -> Iterator[str]:
    """Start a server; yields its URL. Its log is `<folder>/triton.log`.

    Args:
        folder: where the backends and the log lie.
        repository: its models.
        imported: further Python packages, and their metadata, that feature steps find.
        flags: more of tritonserver's, with underscores.
    """
    packages, port, log_file = site(), free_port(), folder / "triton.log"
    words = command(packages, folder, repository, http_port=port, **flags)
    for path in imported:  # the backend's folder is searched, whatever the interpreter thinks of PYTHONPATH
        (folder / "backends" / "python" / path.name).symlink_to(path)
    with log_file.open("wb") as log, started(words, env=environment(packages), stdout=log, stderr=log) as server:
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: server.poll() is not None or _is_live(url), "Triton answers")
        assert server.poll() is None, log_file.read_text()
        yield url
        # not killed: its Python processes and their shared memory would stay
        server.send_signal(signal.SIGTERM)
        server.wait(SECONDS)


def _is_live(url: str) -> bool:
    try:
        return httpx.get(f"{url}/v2/health/live").status_code == 200
    except httpx.TransportError:
        return False


def _backends(packages: Path, folder: Path) -> Path:
    """Lay out the wheel's Python backend, with the process for its environment's Python, and ours."""
    server, ours, python = packages / "pytriton" / "tritonserver", folder / "onnxruntime", folder / "python"
    if not folder.exists():
        ours.mkdir(parents=True)
        shutil.copy(BACKEND, ours / "model.py")
        shutil.copytree(server / "backends" / "python", python)
        minor = packages.parent.name.removeprefix("python")
        shutil.copy(server / "python_backend_stubs" / minor / "triton_python_backend_stub", python)
    return folder
