"""The reporting step as Kubeflow sees it."""

# ruff: noqa: ARG001 - a pipeline gives it the artifacts it has; the step finds them in the executor input

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def reporting(
    config: dict[str, Any],
    date: str,
    device: str,
    data: str,
    state: dict[str, Any],
    run: str,
    summary: dsl.Output[dsl.Artifact],
    report: dsl.Output[dsl.HTML],
    overview: dsl.Output[dsl.Markdown],
    events: dsl.Input[dsl.Dataset] = None,
    features: dsl.Input[dsl.Dataset] = None,
    model: dsl.Input[dsl.Model] = None,
    optimized: dsl.Input[dsl.Model] = None,
    profile: dsl.Input[dsl.Artifact] = None,
    evaluation: dsl.Input[dsl.Artifact] = None,
    scores: dsl.Input[dsl.Dataset] = None,
    drift: dsl.Input[dsl.Artifact] = None,
    deployment: dsl.Input[dsl.Artifact] = None,
    request: dsl.Input[dsl.Artifact] = None,
    launch: dsl.Input[dsl.Artifact] = None,
    loadtest: dsl.Input[dsl.Artifact] = None,
    release: dsl.Input[dsl.Artifact] = None,
) -> dsl.ContainerSpec:
    """Write the run's summary, its report and an overview."""
    return container(
        "reporting",
        config=config,
        date=date,
        device=device,
        data=data,
        state=state,
        run=run,
        summary=summary.uri,
        report=report.uri,
        overview=overview.uri,
    )
