"""The monitoring step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def monitoring(
    config: dict[str, Any],
    date: str,
    state: dict[str, Any],
    drift: dsl.Input[dsl.Artifact],
    request: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Decide from the drift of the last days whether to ask for a retraining."""
    return container("monitoring", config=config, date=date, state=state, drift=drift.uri, request=request.uri)
