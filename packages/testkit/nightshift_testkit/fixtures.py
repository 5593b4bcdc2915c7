"""Fixtures and rules that all tests share."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
import pytest
from coverage import Coverage
from hypothesis import settings

from nightshift import registry
from nightshift.contracts import package
from nightshift.contracts.preprocessing import Inputs
from nightshift_testkit import packages, tracking
from nightshift_testkit.kubeflow import Kubeflow, serve

# how long an example takes is the machine's load
settings.register_profile("any load", deadline=None)
settings.load_profile("any load")
# what a shell starts in the background ignores Ctrl-C, and what nohup starts ignores the end of the terminal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

MEASURED = {"components", "items", "llm", "tasks"}  # folders of tests, of what pyproject.toml measures coverage of
# audit events of processes that begin
STARTS = ("os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen")


@pytest.fixture(scope="session", autouse=True)
def keep_check_short(request: pytest.FixtureRequest) -> None:
    """A test that starts a process and is not marked `slow` fails in `make check`."""
    if request.config.option.markexpr == "not slow":
        sys.addaudithook(refuse_process)


@pytest.fixture(scope="module", autouse=True)
def trace(request: pytest.FixtureRequest) -> Iterator[None]:
    """Measure coverage where tests are of what it is measured of: elsewhere tracing takes a quarter more CPU time."""
    coverage = Coverage.current()
    if coverage is None or MEASURED & set(request.path.parts):
        yield
        return
    coverage.stop()
    yield
    coverage.start()


def refuse_process(event: str, arguments: object) -> None:
    if event in STARTS:
        raise AssertionError("this test starts a process, so mark it: @pytest.mark.slow")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name bytes by their length: what a compressor writes bears the second, and workers that differ in it stop all."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have one worker run the tests that share a fixture: two would both make it."""
    for item in items:
        owners = find_owners(item) if isinstance(item, pytest.Function) else set()
        if owners and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(min(owners, key=len)))


def find_owners(item: pytest.Function) -> set[str]:
    """The modules, and folders for a whole session, that share a fixture which a test uses."""
    used = [definitions[-1] for definitions in item._fixtureinfo.name2fixturedefs.values()]
    # those without a base are of plugins, such as this one
    folders = {fixture.baseid for fixture in used if fixture.scope == "session" and fixture.baseid}
    modules = {item.nodeid.partition("::")[0] for fixture in used if fixture.scope == "module" and fixture.baseid}
    return folders | modules


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what compares a GPU with the CPU where there is none; `make test-gpu` wants one, and fails."""
    if item.get_closest_marker("gpu") is None:
        return
    from torch import cuda

    if not cuda.is_available():
        tell = pytest.fail if "NIGHTSHIFT_TEST_GPU" in os.environ else pytest.skip
        tell("there is no GPU here; on a machine with one run: make test-gpu")


LOSSES = [(5, 0.5), (10, 0.25)]
INPUTS = Inputs(numeric=["amount", "customer_count_1d"], categorical={"channel": ["shop", "it's web"]})


def graph(weight: float) -> bytes:
    """`sigmoid(inputs @ [weight, 0.1, 0.2, 0.3])`, a real ONNX graph."""
    make = onnx.helper
    weights = np.array([[weight], [0.1], [0.2], [0.3]], dtype=np.float32)
    nodes = [
        make.make_node("Gemm", [package.INPUT, "weights"], ["logit"]),
        make.make_node("Sigmoid", ["logit"], ["column"]),
        make.make_node("Reshape", ["column", "flat"], [package.OUTPUT]),
    ]
    body = make.make_graph(
        nodes,
        "tiny",
        [make.make_tensor_value_info(package.INPUT, onnx.TensorProto.FLOAT, [None, 4])],
        [make.make_tensor_value_info(package.OUTPUT, onnx.TensorProto.FLOAT, [None])],
        [onnx.numpy_helper.from_array(weights, "weights"), onnx.numpy_helper.from_array(np.array([-1]), "flat")],
    )
    return make.make_model(body, opset_imports=[make.make_opsetid("", 17)], ir_version=9).SerializeToString()


def save(folder: Path, weight: float, trained_until: str = "2018-07-31") -> str:
    graphs = {"logistic_regression": graph(weight)}
    days = {"first": "2018-07-25", "last": trained_until, "rows": 100, "open_days": 7, "positives": 3}
    model = packages.manifest(
        graphs,
        INPUTS,
        packages.lineage(train=days),
        candidates={
            "logistic_regression": packages.candidate("logistic_regression", parameters={"C": 1.0}, losses=LOSSES)
        },
    )
    reference = pd.DataFrame(
        {
            "amount": [1.0, 123.456789, np.nan],
            "customer_count_1d": [1.0, 2.0, 3.0],
            "channel": ["shop", "it's web", "shop"],
            "label": [0, 1, 0],
            "score": [0.1, 0.9, 0.95],
        }
    )
    uri = str(folder)
    package.save(uri, model, graphs, reference)
    return uri


@pytest.fixture
def save_model(tmp_path):
    """Save a tiny real model below `runs/`: `save_model(weight, trained_until)` returns its URI."""

    def at(weight: float, trained_until: str = "2018-07-31") -> str:
        return save(tmp_path / "runs" / f"model-{weight}-{trained_until}", weight, trained_until)

    return at


@pytest.fixture(scope="session")
def registry_template(tmp_path_factory):
    """A registry with versions 1, 2, 3 of `fraud`, made once and copied by tests."""
    folder = tmp_path_factory.mktemp("template")
    for number, last in ((1, "2018-07-29"), (2, "2018-07-30"), (3, "2018-07-31")):
        uri = save(folder / f"model-{number}", number / 10, last)
        held_to = {"promise": "average_precision", "average_precision": "0.6"}
        tags = {"train_first": "2018-07-25", "train_last": last, **held_to}
        registry.register(str(folder / "registry"), "fraud", uri, tags, {"average_precision": 0.6})
    return folder / "registry"


@pytest.fixture
def stocked(registry_template, tmp_path):
    """A registry of one's own with versions 1, 2, 3 of `fraud`, none of them promoted."""
    return str(shutil.copytree(registry_template, tmp_path / "registry"))


@pytest.fixture(scope="session")
def tracking_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the MLflow server; its artifacts are in `files`."""
    return tmp_path_factory.mktemp("tracking")


@pytest.fixture(scope="session")
def tracking_server(tracking_store: Path) -> Iterator[str]:
    """The URL of an MLflow server; tests that use it belong to the group `tracking`, so that one is started."""
    with tracking.serve(tracking_store) as url:
        yield url


@pytest.fixture
def kubeflow() -> Iterator[Kubeflow]:
    """A server that speaks Kubeflow Pipelines' API, with nothing on it."""
    yield from serve(Kubeflow())


@pytest.fixture(scope="session")
def engine() -> Any:
    """A container engine that holds the images of `make images`; where none answers the test is skipped."""
    import docker

    missing = pytest.fail if os.environ.get("CI") else pytest.skip
    try:
        client = docker.from_env()
        client.images.get("nightshift/base:0.3.0")
    except docker.errors.ImageNotFound as error:
        missing(f"images are not built, run: make images ({error})")
    except docker.errors.DockerException as error:
        missing(f"no container engine answers ({error})")
    return client
