"""The scoring step as Kubeflow sees it: with a model that the pipeline has just made, or with the champion."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def scoring(
    config: dict[str, Any],
    date: str,
    state: dict[str, Any],
    features: dsl.Input[dsl.Dataset],
    model: dsl.Input[dsl.Model],
    scores: dsl.Output[dsl.Dataset],
) -> dsl.ContainerSpec:
    """Score the newest days, and those whose labels are due, with a new model."""
    return container(
        "scoring", config=config, date=date, state=state, features=features.uri, model=model.uri, scores=scores.uri
    )


@dsl.container_component
def scoring_of_champion(
    config: dict[str, Any],
    date: str,
    state: dict[str, Any],
    features: dsl.Input[dsl.Dataset],
    scores: dsl.Output[dsl.Dataset],
) -> dsl.ContainerSpec:
    """Score the newest days, and those whose labels are due, with the champion."""
    return container("scoring", config=config, date=date, state=state, features=features.uri, scores=scores.uri)
