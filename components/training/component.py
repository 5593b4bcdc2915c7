"""The training step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def training(
    config: dict[str, Any],
    date: str,
    device: str,
    state: dict[str, Any],
    features: dsl.Input[dsl.Dataset],
    model: dsl.Output[dsl.Model],
) -> dsl.ContainerSpec:
    """Fit the candidates, choose one on the validation days, write them as ONNX."""
    return container(
        "training", config=config, date=date, device=device, state=state, features=features.uri, model=model.uri
    )
