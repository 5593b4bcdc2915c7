"""Daily training: from raw events to a served model and a report."""

from typing import Any

from kfp import dsl

from components.deployment.component import deployment
from components.drift.component import drift
from components.evaluation.component import evaluation
from components.ingestion.component import ingestion
from components.optimization.component import optimization
from components.profiling.component import profiling
from components.reporting.component import reporting
from components.scoring.component import scoring
from components.training.component import training
from pipelines.graphs import always_run, make_features


def define(shards: int = 0) -> Any:
    """Return the pipeline, with features in so many shards."""

    @dsl.pipeline(name="training", description=__doc__)
    def training_pipeline(config: dict[str, Any], date: str, data: str, device: str, state: dict[str, Any]) -> None:
        """Train, judge and deploy the model of one logical date.

        Args:
            config: the use case, as in `pipelines/configs/`.
            date: the logical date, the last complete UTC day.
            data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
            device: cpu or cuda.
            state: where things are kept and where models are deployed, see `State`.
        """
        day = {"config": config, "date": date}
        events = ingestion(**day, data=data, state=state)
        table = make_features(shards, **day, device=device, state=state, events=events.output)
        rows = {"features": table.output}
        trained = training(**day, **rows, device=device, state=state)
        profile = profiling(**day, **rows, device=device, model=trained.output)
        # before the evaluation, which judges what is deployed
        optimized = optimization(config=config, **rows, model=trained.output)
        verdict = evaluation(**day, **rows, state=state, model=optimized.output)
        scores = scoring(**day, **rows, state=state, model=optimized.output)
        shift = drift(**day, **rows, scores=scores.output)
        judged = {"model": optimized.output, "evaluation": verdict.outputs["evaluation"], "drift": shift.output}
        release = deployment(**day, **rows, **judged, state=state, run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER)
        steps = {"events": events, "profile": profile, "scores": scores, "deployment": release}
        outputs = rows | judged | {name: step.output for name, step in steps.items()}
        outputs |= {"model": trained.output, "optimized": optimized.output}
        report = reporting(
            **day, **outputs, device=device, data=data, state=state, run=dsl.PIPELINE_JOB_NAME_PLACEHOLDER
        )
        always_run(events, scores, shift, release, report)

    return training_pipeline
