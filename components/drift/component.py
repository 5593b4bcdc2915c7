"""The drift step as Kubeflow sees it: of a model that the pipeline has just made, or of one that it is given."""

from typing import Any

from kfp import dsl

from components.common.image import image


@dsl.container_component
def drift(
    config: dict[str, Any],
    date: str,
    features: dsl.Input[dsl.Dataset],
    model: dsl.Input[dsl.Model],
    drift: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Compare the newest days with the training days, write a verdict."""
    return dsl.ContainerSpec(
        image=image("base"),
        command=["python", "-m", "components.drift"],
        args=[
            "--config", config,
            "--date", date,
            "--features", features.uri,
            "--model", model.uri,
            "--drift", drift.uri,
            "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER,
        ],
    )  # fmt: skip


@dsl.container_component
def drift_of_champion(
    config: dict[str, Any],
    date: str,
    model: str,
    features: dsl.Input[dsl.Dataset],
    drift: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Compare the newest days with the training days of a model that is there already, write a verdict."""
    return dsl.ContainerSpec(
        image=image("base"),
        command=["python", "-m", "components.drift"],
        args=[
            "--config", config,
            "--date", date,
            "--features", features.uri,
            "--model", model,
            "--drift", drift.uri,
            "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER,
        ],
    )  # fmt: skip
