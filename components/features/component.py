"""The features step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def features(
    config: dict[str, Any],
    date: str,
    device: str,
    state: dict[str, Any],
    events: dsl.Input[dsl.Dataset],
    features: dsl.Output[dsl.Dataset],
) -> dsl.ContainerSpec:
    """Compute the trailing-window features of the days a run needs."""
    return container(
        "features", config=config, date=date, device=device, state=state, events=events.uri, features=features.uri
    )
