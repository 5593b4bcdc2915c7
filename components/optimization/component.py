"""The optimization as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def optimization(
    config: dict[str, Any],
    features: dsl.Input[dsl.Dataset],
    model: dsl.Input[dsl.Model],
    optimized: dsl.Output[dsl.Model],
) -> dsl.ContainerSpec:
    """Find a form of the selected graph that scores the same, faster."""
    return container("optimization", config=config, features=features.uri, model=model.uri, optimized=optimized.uri)
