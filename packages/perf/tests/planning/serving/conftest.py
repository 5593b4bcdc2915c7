"""The written deployment of Llama 3 70B, and the namespace of the project's clusters."""

from pathlib import Path

import pytest

from infra.policies.environment import render
from infra.terraform import INFRA
from tests.pipelines.samples import called

MODEL = ("--model", "llama3-70b", "--gpu", "h100-80gb", "--rate", "15")


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Engine -> folder of its deployment."""
    folders = {engine: tmp_path_factory.mktemp(engine) for engine in ("vllm", "tensorrt-llm")}
    for engine, folder in folders.items():
        assert called("perf", "plan", "--serve", *MODEL, "--engine", engine, "--write", str(folder)) == 0
    return folders


@pytest.fixture(scope="session")
def namespaces() -> list[dict]:
    """The objects of the project's namespaces, quotas and priorities among them."""
    return render(INFRA / "cluster" / "namespaces")
