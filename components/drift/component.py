"""The drift step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def drift(
    config: dict[str, Any],
    date: str,
    features: dsl.Input[dsl.Dataset],
    scores: dsl.Input[dsl.Dataset],
    drift: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Compare the newest days with the model's reference, write a verdict."""
    return container("drift", config=config, date=date, features=features.uri, scores=scores.uri, drift=drift.uri)
