"""The profiling step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.image import UNPLACED


@dsl.container_component
def profiling(
    config: dict[str, Any],
    date: str,
    device: str,
    features: dsl.Input[dsl.Dataset],
    model: dsl.Input[dsl.Model],
    profile: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Profile the selected model's training and scoring: rows per second, phases, operations, memory."""
    return dsl.ContainerSpec(
        image=UNPLACED,
        command=["python", "-m", "components.profiling"],
        args=[
            "--config", config,
            "--date", date,
            "--device", device,
            "--features", features.uri,
            "--model", model.uri,
            "--profile", profile.uri,
            "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER,
        ],
    )  # fmt: skip
