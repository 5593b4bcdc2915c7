from collections.abc import Iterator

import pytest

from tests.kubeflow import Kubeflow, serve


@pytest.fixture
def kubeflow() -> Iterator[Kubeflow]:
    """A server that speaks Kubeflow Pipelines' API, with nothing on it."""
    yield from serve(Kubeflow())
