"""Real Airflow, its state in a folder of the test run."""

import os
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

HOME = tempfile.TemporaryDirectory(prefix="nightshift-airflow-")
# a bare import of Airflow would make ~/airflow
os.environ |= {"AIRFLOW_HOME": HOME.name, "AIRFLOW__CORE__LOAD_EXAMPLES": "false", "KUBECONFIG": f"{HOME.name}/config"}
os.environ["AIRFLOW__CORE__DAGBAG_IMPORT_TIMEOUT"] = "600"  # how long it takes is the machine's load

import pytest  # noqa: E402
import yaml  # noqa: E402
from airflow.dag_processing.dagbag import DagBag  # noqa: E402
from airflow.sdk import DAG  # noqa: E402

from nightshift_testkit.kubeflow import Kubeflow, serve  # noqa: E402
from tests.dags.person import CONFIG, DATE, ByHand, nightshift, require_steps  # noqa: E402
from tests.dags.samples import DAGS, Load, Shipped  # noqa: E402


def parse_dags(patch: pytest.MonkeyPatch, folder: Path, **variables: str) -> dict[str, DAG]:
    """Parse a folder of DAGs with environment variables, as the DAG processor does."""
    for name in ("NIGHTSHIFT_ENVIRONMENT", "NIGHTSHIFT_DATA", "KFP_ENDPOINT", "KFP_NAMESPACE"):
        patch.delenv(name, raising=False)
    for name, value in variables.items():
        patch.setenv(name, value)
    bag = DagBag(dag_folder=str(folder), bundle_path=folder)
    assert not bag.import_errors
    return dict(bag.dags)


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Load:
    """Parse the shipped DAGs, or those of another folder, for a workspace of the test."""

    def parsed(folder: Path = DAGS, **variables: str) -> dict[str, DAG]:
        return parse_dags(monkeypatch, folder, NIGHTSHIFT_WORKSPACE=str(tmp_path), **variables)

    return parsed


@pytest.fixture(scope="session")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Shipped:
    """The shipped DAGs of an environment, which are parsed once, since nobody changes them."""
    workspace = str(tmp_path_factory.mktemp("shipped"))

    @cache
    def parsed(environment: str = "local") -> dict[str, DAG]:
        with pytest.MonkeyPatch.context() as patch:
            return parse_dags(patch, DAGS, NIGHTSHIFT_WORKSPACE=workspace, NIGHTSHIFT_ENVIRONMENT=environment)

    return parsed


@pytest.fixture
def kubeflow() -> Iterator[Kubeflow]:
    yield from serve(Kubeflow())


@pytest.fixture(scope="session")
def by_hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ByHand]:
    """A training that the command line has started, which Airflow's have to equal."""
    require_steps()
    folder = tmp_path_factory.mktemp("by-hand")
    (folder / "small.yaml").write_text(yaml.safe_dump(CONFIG))
    words = ("--config", str(folder / "small.yaml"), "--workspace", str(folder))
    process = nightshift("run", "--date", DATE, "--target", "register-only", *words)
    yield ByHand(process, folder)
    process.kill()
    process.communicate()
