"""The ingestion step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.image import UNPLACED


@dsl.container_component
def ingestion(
    config: dict[str, Any],
    date: str,
    data: str,
    state: dict[str, Any],
    events: dsl.Output[dsl.Dataset],
) -> dsl.ContainerSpec:
    """Read the days a run needs, quarantine bad rows, write the lake's events by day."""
    return dsl.ContainerSpec(
        image=UNPLACED,
        command=["python", "-m", "components.ingestion"],
        args=[
            "--config", config,
            "--date", date,
            "--data", data,
            "--state", state,
            "--events", events.uri,
            "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER,
        ],
    )  # fmt: skip
