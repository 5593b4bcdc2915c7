"""Daily monitoring: has the world moved away from the champion, and is it time to train again?"""

from typing import Any

from kfp import dsl

from components.drift.component import drift
from components.ingestion.component import ingestion
from components.launching.component import retraining
from components.monitoring.component import monitoring
from components.reporting.component import reporting
from components.scoring.component import scoring_of_champion
from pipelines.graphs import always_run, make_features


def define(shards: int = 0) -> Any:
    """Return the pipeline, with features in so many shards."""

    @dsl.pipeline(name="monitoring", description=__doc__)
    def monitoring_pipeline(
        config: dict[str, Any],
        date: str,
        data: str,
        device: str,
        state: dict[str, Any],
    ) -> None:
        """Compare one logical date with the champion's training days; have a new one trained when that is called for.

        Args:
            config: the use case, as in `pipelines/configs/`.
            date: the logical date, the last complete UTC day.
            data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
            device: cpu or cuda.
            state: where things are kept, see `State`; the target record-only marks a run for a past day, which asks for
                nothing. Where `kubeflow` is {} the last step says how to start a retraining.
        """
        day = {"config": config, "date": date}
        events = ingestion(**day, data=data, state=state)
        table = make_features(shards, **day, device=device, state=state, events=events.output)
        rows = {"features": table.output}
        scores = scoring_of_champion(**day, **rows, state=state)
        shift = drift(**day, **rows, scores=scores.output)
        decision = monitoring(**day, state=state, drift=shift.output)
        parameters = {"pipeline": "training", "data": data, "device": device}
        launch = retraining(**day, **parameters, state=state, request=decision.output)
        steps = {"events": events, "scores": scores, "drift": shift, "request": decision, "launch": launch}
        outputs = rows | {name: step.output for name, step in steps.items()}
        report = reporting(
            **day, **outputs, device=device, data=data, state=state, run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER
        )
        always_run(events, scores, shift, decision, launch, report)

    return monitoring_pipeline
