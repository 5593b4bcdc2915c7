"""The release step as Kubeflow sees it."""

from typing import Any

from kfp import dsl

from nightshift.runtime.container import container


@dsl.container_component
def release(
    config: dict[str, Any],
    date: str,
    state: dict[str, Any],
    run: str,
    features: dsl.Input[dsl.Dataset],
    release: dsl.Output[dsl.Artifact],
) -> dsl.ContainerSpec:
    """Compare a version that is being released with the champion, and have it answer more requests, or none."""
    return container(
        "release", config=config, date=date, state=state, run=run, features=features.uri, release=release.uri
    )
