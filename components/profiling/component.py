"""The profiling step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from components.common.image import UNPLACED


@dsl.container_component
def profiling(
    config: dict[str, Any],
    date: str,
    device: str,
    features: dsl.Input[dsl.Dataset],
    profile: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Profile the training loop: operations, rows per second, waiting for data, memory."""
    return dsl.ContainerSpec(
        image=UNPLACED,
        command=["python", "-m", "components.profiling"],
        args=[
            "--config", config,
            "--date", date,
            "--device", device,
            "--features", features.uri,
            "--profile", profile.uri,
            "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER,
        ],
    )  # fmt: skip
