"""Daily training: from raw events to a served model and a report."""

from typing import Any

from kfp import dsl

from components.deployment.component import deployment
from components.drift.component import drift
from components.evaluation.component import evaluation
from components.features.component import features
from components.ingestion.component import ingestion
from components.profiling.component import profiling
from components.reporting.component import reporting
from components.scoring.component import scoring
from components.training.component import training
from pipelines.environments import Site
from pipelines.placement import always_run, place


def define(site: Site) -> Any:
    """Return the pipeline, each step placed as the site says."""

    @dsl.pipeline(name="training", description=__doc__)
    def training_pipeline(
        config: dict[str, Any], date: str, data: str, device: str, lake: str, registry: str, runs: str, target: str
    ) -> None:
        """Train, judge and deploy the model of one logical date.

        Args:
            config: the use case, as in `pipelines/configs/`.
            date: the logical date, the last complete UTC day.
            data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
            device: cpu or cuda.
            lake: root of the tables by day.
            registry: root of the model registry.
            runs: root of the run summaries.
            target: local promotes and serves, register-only promotes, record-only does neither.
        """
        day = {"config": config, "date": date}
        events = ingestion(**day, data=data, lake=lake)
        table = features(**day, device=device, lake=lake, events=events.output)
        rows = {"features": table.output}
        model = training(**day, **rows, device=device)
        # not beside the training, which would slow down what is measured
        profile = profiling(**day, **rows, device=device).after(model)
        verdict = evaluation(**day, **rows, registry=registry, model=model.output)
        scores = scoring(**day, **rows, lake=lake, model=model.output)
        shift = drift(**day, **rows, scores=scores.output)
        found = {"model": model.output, "evaluation": verdict.outputs["evaluation"], "drift": shift.output}
        release = deployment(**day, **found, registry=registry, target=target)
        steps = {"events": events, "profile": profile, "scores": scores, "deployment": release}
        made = rows | found | {name: step.output for name, step in steps.items()}
        report = reporting(**day, **made, device=device, data=data, runs=runs)
        place(site.heavy, table, model, profile)
        place(site.light, events, verdict, scores, shift, release, report)
        always_run(events, scores, shift, release, report)

    return training_pipeline
