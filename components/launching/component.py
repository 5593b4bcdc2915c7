"""The launching step as Kubeflow sees it: started by the clock, or by monitoring's request."""

from typing import Any

from kfp import dsl

from components.common.image import image


@dsl.container_component
def launching(
    pipeline: str,
    kubeflow: dict[str, Any],
    config: dict[str, Any],
    data: str,
    device: str,
    lake: str,
    registry: str,
    runs: str,
    audit: str,
    target: str,
    launch: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Start a pipeline for the last complete day."""
    return dsl.ContainerSpec(
        image=image("base"),
        command=["python", "-m", "components.launching"],
        args=[
            "--pipeline", pipeline,
            "--kubeflow", kubeflow,
            "--config", config,
            "--data", data,
            "--device", device,
            "--lake", lake,
            "--registry", registry,
            "--runs", runs,
            "--audit", audit,
            "--target", target,
            "--launch", launch.uri,
            "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER,
        ],
    )  # fmt: skip


@dsl.container_component
def retraining(
    pipeline: str,
    kubeflow: dict[str, Any],
    config: dict[str, Any],
    date: str,
    data: str,
    device: str,
    lake: str,
    registry: str,
    runs: str,
    audit: str,
    target: str,
    request: dsl.Input[dsl.Artifact],
    launch: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Start a pipeline for the day if monitoring asks for it."""
    return dsl.ContainerSpec(
        image=image("base"),
        command=["python", "-m", "components.launching"],
        args=[
            "--pipeline", pipeline,
            "--kubeflow", kubeflow,
            "--config", config,
            "--date", date,
            "--data", data,
            "--device", device,
            "--lake", lake,
            "--registry", registry,
            "--runs", runs,
            "--audit", audit,
            "--target", target,
            "--request", request.uri,
            "--launch", launch.uri,
            "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER,
        ],
    )  # fmt: skip
