"""The launching step as Kubeflow sees it: started by the clock, or by monitoring's request."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def launching(
    pipeline: str,
    config: dict[str, Any],
    data: str,
    device: str,
    state: dict[str, Any],
    launch: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Start a pipeline for the last complete day."""
    return container(
        "launching", pipeline=pipeline, config=config, data=data, device=device, state=state, launch=launch.uri
    )


@dsl.container_component
def retraining(
    pipeline: str,
    config: dict[str, Any],
    date: str,
    data: str,
    device: str,
    state: dict[str, Any],
    request: dsl.Input[dsl.Artifact],
    launch: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Start a pipeline for the day if monitoring asks for it."""
    return container(
        "launching",
        pipeline=pipeline,
        config=config,
        date=date,
        data=data,
        device=device,
        state=state,
        request=request.uri,
        launch=launch.uri,
    )
