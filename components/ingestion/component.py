"""The ingestion step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def ingestion(
    config: dict[str, Any],
    date: str,
    data: str,
    state: dict[str, Any],
    events: dsl.Output[dsl.Dataset],
) -> dsl.ContainerSpec:
    """Read the days a run needs, quarantine bad rows, write the lake's events by day."""
    return container("ingestion", config=config, date=date, data=data, state=state, events=events.uri)
