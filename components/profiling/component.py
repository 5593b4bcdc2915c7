"""The profiling step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def profiling(
    config: dict[str, Any],
    date: str,
    device: str,
    features: dsl.Input[dsl.Dataset],
    model: dsl.Input[dsl.Model],
    profile: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Profile the selected model's training and scoring: rows per second, phases, operations, memory."""
    return container(
        "profiling",
        config=config,
        date=date,
        device=device,
        features=features.uri,
        model=model.uri,
        profile=profile.uri,
    )
