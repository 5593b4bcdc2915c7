"""Release: a version takes over from the champion in steps, or does not; every run takes it one further at most."""

from typing import Any

from kfp import dsl

from components.ingestion.component import ingestion
from components.release.component import release
from components.reporting.component import reporting
from pipelines.graphs import always_run, make_features


def define(shards: int = 0) -> Any:
    """Return the pipeline, with features in so many shards."""

    @dsl.pipeline(name="release", description=__doc__)
    def release_pipeline(
        config: dict[str, Any],
        date: str,
        data: str,
        device: str,
        state: dict[str, Any],
        approve: str = "",
        reason: str = "",
        by: str = "",
    ) -> None:
        """Judge a version that is being released by the labels that have arrived by one logical date.

        Args:
            config: the use case, as in `pipelines/configs/`.
            date: the logical date, the last complete UTC day.
            data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
            device: cpu or cuda.
            state: where things are kept, and where versions answer, see `State`.
            approve: number of a version that a person approves; empty for none.
            reason: why, in the person's words.
            by: the person.
        """
        day = {"config": config, "date": date}
        events = ingestion(**day, data=data, state=state)
        table = make_features(shards, **day, device=device, state=state, events=events.output)
        approval = {"approve": approve, "reason": reason, "by": by}
        step = release(**day, **approval, state=state, features=table.output, run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER)
        outputs = {"events": events.output, "features": table.output, "release": step.output}
        report = reporting(
            **day, **outputs, device=device, data=data, state=state, run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER
        )
        always_run(events, step, report)

    return release_pipeline
