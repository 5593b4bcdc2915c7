"""Nightly: start another pipeline for the last complete day."""

from typing import Any

from kfp import dsl

from components.launching.component import launching
from pipelines.graphs import always_run


def define() -> Any:
    """Return the pipeline."""

    @dsl.pipeline(name="nightly", description=__doc__)
    def nightly(pipeline: str, config: dict[str, Any], data: str, device: str, state: dict[str, Any]) -> None:
        """Fix the logical date, which a recurring run cannot, and start a pipeline with it.

        Args:
            pipeline: name of the uploaded pipeline; it is given those of the parameters below that it declares.
            config: the use case, as in `pipelines/configs/`.
            data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
            device: cpu or cuda.
            state: where things are kept, and where the run is started (its `kubeflow`), see `State`.
        """
        launch = launching(pipeline=pipeline, config=config, data=data, device=device, state=state)
        always_run(launch)

    return nightly
