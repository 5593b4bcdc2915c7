"""The load test as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def loadtest(
    config: dict[str, Any],
    state: dict[str, Any],
    load: dict[str, Any],
    loadtest: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Measure what a server of the champion withstands, and how to start it."""
    return container("loadtest", config=config, state=state, load=load, loadtest=loadtest.uri)
