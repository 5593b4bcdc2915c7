"""The server's flags, and the server as a process of its own."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from nightshift.contracts.package import load as manifest
from nightshift.models.graph import CUDA, runtime
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.serving.__main__ import body, parser
from nightshift.serving.batching import ServerLimits
from nightshift.serving.files import DeploymentPointer
from nightshift.serving.platforms import Platform, detect
from nightshift.serving.versions import load
from nightshift_testkit.processes import SECONDS, started, wait_until
from nightshift_testkit.servers import free_port


def refused(*words: str) -> str:
    with pytest.raises(UserError) as error:
        body(StepContext(parser().parse_args(words)))
    return str(error.value)


@pytest.mark.parametrize("port", ["web", "0", "65536"])
def test_a_port_that_is_none_is_refused(port) -> None:
    assert refused("--port", port) == f"port is '{port}'; give a number from 1 to 65535"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--max-rows", "0"], "max-rows is '0'; give a number from 1 to 1000000"),
        (["--delay-ms", "-1"], "delay-ms is '-1'; give a number from 0 to 1000"),
        (["--reasons-ms", "0"], "reasons-ms is '0'; give a number from 1 to 1000000"),
        (["--delay-ms", "nan"], "delay-ms is 'nan'; give a number from 0 to 1000"),
        ([], "what to serve is not clear; give --registry FOLDER with --name, or --model FOLDER"),
        (["--registry", "a", "--model", "b"], "what to serve is not clear"),
        (
            ["--device", "gpu", "--model", "m"],
            "device is 'gpu'; give one of cpu, cuda, with --device or in NIGHTSHIFT_",
        ),
        (["--workers", "0", "--model", "m"], "workers is '0'; give a number from 1 to 256"),
        (["--registry", "/nowhere"], "/nowhere/endpoint/model/current.json does not exist"),
        (["--host", "192.0.2.7"], "host is '192.0.2.7', which other machines can reach; give --token-file FILE"),
        (["--token-file", "/nowhere/token"], "token-file is '/nowhere/token': No such file or directory"),
    ],
)
def test_a_wrong_flag_is_told_what_is_allowed(words, message) -> None:
    assert refused(*words).startswith(message)


def test_a_manifest_that_is_nested_too_deeply_is_told_in_one_sentence(tmp_path) -> None:
    (tmp_path / "model.json").write_text("[" * 100_000)
    with pytest.raises(UserError, match=r"model\.json is nested too deeply; delete it"):
        manifest(str(tmp_path))


@pytest.mark.parametrize("name", ["model.json", "logistic_regression.onnx"])
def test_a_pipe_or_a_device_in_a_package_is_named_and_never_read(package, tmp_path, name) -> None:
    folder = Path(shutil.copytree(package, tmp_path / "package"))
    pointer = DeploymentPointer(1, str(folder), manifest(package).sha256, "2018-08-01")
    for make, kind in ((os.mkfifo, "named pipe"), (lambda path: path.symlink_to("/dev/zero"), "device")):
        (folder / name).unlink()
        make(folder / name)
        with pytest.raises(UserError, match=f"{name} is a {kind}; give a file or a folder"):
            load("fraud", pointer, ServerLimits())


@pytest.mark.slow
@pytest.mark.skipif(CUDA in runtime().get_available_providers(), reason="ONNX Runtime has CUDA here")
@pytest.mark.parametrize(("words", "environment"), [(["--device", "cuda"], {}), ([], {"NIGHTSHIFT_DEVICE": "cuda"})])
def test_a_gpu_that_is_not_there_ends_the_server_and_is_never_replaced_by_the_cpu(words, environment, package) -> None:
    command = [sys.executable, "-m", "nightshift.serving", "--model", package, *words]
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("serving: ONNX Runtime has no working CUDAExecutionProvider here, only ")
    assert done.stderr.endswith("use the image serving-gpu on a machine with an NVIDIA GPU, or --device cpu\n")


@pytest.mark.slow
def test_the_server_starts_without_what_its_image_lacks() -> None:
    lacking = ("evidently", "mlflow", "onnx", "pandera", "scipy", "sklearn", "torch", "transformers", "xgboost")
    code = f"import sys; sys.modules.update(dict.fromkeys({lacking})); import nightshift.serving.server"
    code += ", nightshift.tasks.images.items, nightshift.tasks.texts.items"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=SECONDS)


def test_a_token_file_without_a_token_is_refused(tmp_path) -> None:
    (tmp_path / "token").write_text("\n")
    assert "is empty; write one line into it" in refused("--token-file", str(tmp_path / "token"))


def test_the_platform_that_started_it_is_known_by_what_it_says() -> None:
    vertex = {
        "AIP_HTTP_PORT": "8081",
        "AIP_STORAGE_URI": "gs://bucket/model",
        "AIP_HEALTH_ROUTE": "/health",
        "AIP_PREDICT_ROUTE": "/predict",
    }
    aliases = {"/health": "/healthz", "/predict": "/score"}
    assert detect({"PORT": "9"}, is_sagemaker=False) is None
    assert detect({}, is_sagemaker=True) == Platform("SageMaker", 8080, "/opt/ml/model")
    assert detect(vertex, is_sagemaker=False) == Platform("Vertex AI", 8081, "gs://bucket/model", aliases)
    assert detect({"K_SERVICE": "fraud", "PORT": "9000"}, is_sagemaker=False) == Platform("Cloud Run", 9000)


@contextmanager
def process(log: Path, *words: str, **environment: str) -> "Iterator[subprocess.Popen[bytes]]":
    command = [sys.executable, "-m", "nightshift.serving", *words]
    with log.open("wb") as output, started(command, stderr=output, env=os.environ | environment) as server:
        yield server


@pytest.mark.slow
def test_one_package_is_served_as_vertex_asks_for_it_until_it_is_asked_to_end(package, tmp_path) -> None:
    port, log = free_port(), tmp_path / "log"
    variables = {"AIP_HTTP_PORT": str(port), "AIP_STORAGE_URI": package, "AIP_PREDICT_ROUTE": "/predict"}
    with process(log, "--host", "127.0.0.1", "--name", "fraud", **variables) as server:
        url = f"http://127.0.0.1:{port}"
        event = {"amount": 1.0, "customer_count_1d": 2.0, "channel": "shop"}
        wait_until(lambda: log.read_text(), "the server has said something")
        wait_until(lambda: _answers(url), "the server answers")
        answer = httpx.post(f"{url}/predict", json={"instances": [event]})
        assert answer.json()["predictions"][0]["flagged"]
        server.send_signal(signal.SIGTERM)
        server.wait(SECONDS)
    (line,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert line["message"] == f"port {port} serves fraud, version 1"
    assert (line["level"], line["time"][-1]) == ("info", "Z")


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.TransportError:
        return False
