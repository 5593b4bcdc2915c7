"""The evaluation step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def evaluation(
    config: dict[str, Any],
    date: str,
    state: dict[str, Any],
    features: dsl.Input[dsl.Dataset],
    model: dsl.Input[dsl.Model],
    evaluation: dsl.Output[dsl.Artifact],
    metrics: dsl.Output[dsl.Metrics],  # noqa: ARG001 - has metadata only
    classification: dsl.Output[dsl.ClassificationMetrics],  # noqa: ARG001 - has metadata only
) -> dsl.ContainerSpec:
    """Measure the candidates on the test days, compare with the champion, write a verdict."""
    return container(
        "evaluation",
        config=config,
        date=date,
        state=state,
        features=features.uri,
        model=model.uri,
        evaluation=evaluation.uri,
    )
