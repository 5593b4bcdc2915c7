"""The reporting step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from components.common.image import image


@dsl.container_component
def reporting(
    config: dict[str, Any],
    date: str,
    device: str,
    data: str,
    runs: str,
    events: dsl.Input[dsl.Dataset],
    features: dsl.Input[dsl.Dataset],
    model: dsl.Input[dsl.Model],
    profile: dsl.Input[dsl.Artifact],
    evaluation: dsl.Input[dsl.Artifact],
    scores: dsl.Input[dsl.Dataset],
    drift: dsl.Input[dsl.Artifact],
    deployment: dsl.Input[dsl.Artifact],
    summary: dsl.Output[dsl.Artifact],
    report: dsl.Output[dsl.HTML],
    overview: dsl.Output[dsl.Markdown],
) -> dsl.ContainerSpec:
    """Write the run's summary, its report and an overview."""
    return dsl.ContainerSpec(
        image=image("base"),
        command=["python", "-m", "components.reporting"],
        args=[
            "--config", config,
            "--date", date,
            "--device", device,
            "--data", data,
            "--runs", runs,
            "--run", dsl.PIPELINE_JOB_NAME_PLACEHOLDER,
            "--events", events.uri,
            "--features", features.uri,
            "--model", model.uri,
            "--profile", profile.uri,
            "--evaluation", evaluation.uri,
            "--scores", scores.uri,
            "--drift", drift.uri,
            "--deployment", deployment.uri,
            "--summary", summary.uri,
            "--report", report.uri,
            "--overview", overview.uri,
            "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER,
        ],
    )  # fmt: skip
