"""Nightly: start another pipeline for the last complete day."""

from typing import Any

from kfp import dsl

from components.launching.component import launching
from pipelines.environments import Site
from pipelines.placement import always_run, place


def define(site: Site) -> Any:
    """Return the pipeline, its step placed as the site says."""

    @dsl.pipeline(name="nightly", description=__doc__)
    def nightly(
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
    ) -> None:
        """Fix the logical date, which a recurring run cannot, and start a pipeline with it.

        Args:
            pipeline: name of the uploaded pipeline; it is given those of the parameters below that it declares.
            kubeflow: where the run is started, see `Place`.
            config: the use case, as in `pipelines/configs/`.
            data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
            device: cpu or cuda.
            lake: root of the tables by day.
            registry: root of the model registry.
            runs: root of the run summaries.
            audit: root of the audit log.
            target: where models are deployed.
        """
        state = {"lake": lake, "registry": registry, "runs": runs, "audit": audit, "target": target}
        launch = launching(pipeline=pipeline, kubeflow=kubeflow, config=config, data=data, device=device, **state)
        place(site.launching, launch)
        always_run(launch)

    return nightly
