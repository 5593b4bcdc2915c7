"""Daily scoring: what does the champion say of the day's events, whose labels nobody knows yet?"""

from typing import Any

from kfp import dsl

from components.ingestion.component import ingestion
from components.reporting.component import reporting
from components.scoring.component import scoring_of_champion
from pipelines.graphs import always_run, make_features


def define(shards: int = 0) -> Any:
    """Return the pipeline, with features in so many shards."""

    @dsl.pipeline(name="scoring", description=__doc__)
    def scoring_pipeline(config: dict[str, Any], date: str, data: str, device: str, state: dict[str, Any]) -> None:
        """Score one logical date with the champion.

        Args:
            config: the use case, as in `pipelines/configs/`.
            date: the logical date, the last complete UTC day.
            data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
            device: cpu or cuda.
            state: where things are kept, see `State`.
        """
        day = {"config": config, "date": date}
        events = ingestion(**day, data=data, state=state)
        table = make_features(shards, **day, device=device, state=state, events=events.output)
        scores = scoring_of_champion(**day, state=state, features=table.output)
        outputs = {"events": events.output, "features": table.output, "scores": scores.output}
        report = reporting(
            **day, **outputs, device=device, data=data, state=state, run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER
        )
        always_run(events, scores, report)

    return scoring_pipeline
