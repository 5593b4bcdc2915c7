"""The load test as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.image import UNPLACED


@dsl.container_component
def loadtest(
    config: dict[str, Any],
    state: dict[str, Any],
    load: dict[str, Any],
    loadtest: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Measure what a server of the champion withstands, and how to start it."""
    return dsl.ContainerSpec(
        image=UNPLACED,
        command=["python", "-m", "components.loadtest"],
        args=[
            "--config", config,
            "--state", state,
            "--load", load,
            "--loadtest", loadtest.uri,
            "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER,
        ],
    )  # fmt: skip
