"""The deployment step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def deployment(
    config: dict[str, Any],
    date: str,
    state: dict[str, Any],
    run: str,
    features: dsl.Input[dsl.Dataset],
    model: dsl.Input[dsl.Model],
    evaluation: dsl.Input[dsl.Artifact],
    drift: dsl.Input[dsl.Artifact],
    deployment: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Register the model, promote and serve it where the verdict allows."""
    return container(
        "deployment",
        config=config,
        date=date,
        state=state,
        run=run,
        features=features.uri,
        model=model.uri,
        evaluation=evaluation.uri,
        drift=drift.uri,
        deployment=deployment.uri,
    )
