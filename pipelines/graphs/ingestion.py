"""Daily ingestion: have the day's events checked and in the lake, before anything is made of them."""

from typing import Any

from kfp import dsl

from components.ingestion.component import ingestion
from components.reporting.component import reporting
from pipelines.graphs import always_run


def define() -> Any:
    """Return the pipeline."""

    @dsl.pipeline(name="ingestion", description=__doc__)
    def ingestion_pipeline(config: dict[str, Any], date: str, data: str, state: dict[str, Any]) -> None:
        """Ingest one logical date; the other pipelines do so too and find it done.

        Args:
            config: the use case, as in `pipelines/configs/`.
            date: the logical date, the last complete UTC day.
            data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
            state: where things are kept, see `State`.
        """
        inputs = {"config": config, "date": date, "data": data, "state": state}
        events = ingestion(**inputs)
        report = reporting(**inputs, device="cpu", events=events.output, run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER)
        always_run(events, report)

    return ingestion_pipeline
