"""Daily training: from raw events to a served model and a report."""

from typing import Any

from kfp import dsl
from kfp.dsl import PipelineTask

from components.deployment.component import deployment
from components.drift.component import drift
from components.evaluation.component import evaluation
from components.features.component import features
from components.ingestion.component import ingestion
from components.profiling.component import profiling
from components.reporting.component import reporting
from components.scoring.component import scoring
from components.training.component import training


def _always(task: PipelineTask) -> PipelineTask:
    """Run the step every time: a cache key knows its arguments, not the data or the registry behind them."""
    return task.set_caching_options(False)


@dsl.pipeline(name="fraud-training", description=__doc__)
def fraud_training(
    config: dict[str, Any],
    date: str,
    data: str,
    device: str,
    lake: str,
    registry: str,
    runs: str,
    target: str,
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
    events = _always(ingestion(config=config, date=date, data=data, lake=lake)).set_retry(2, "10s", 2.0)
    table = features(config=config, date=date, device=device, lake=lake, events=events.output)
    rows = table.output
    model = training(config=config, date=date, device=device, features=rows)
    # not beside the training, which would slow down what is measured
    profile = profiling(config=config, date=date, device=device, features=rows).after(model)
    verdict = evaluation(config=config, date=date, registry=registry, features=rows, model=model.output)
    scores = _always(scoring(config=config, date=date, lake=lake, features=rows, model=model.output))
    shift = _always(drift(config=config, date=date, features=rows, scores=scores.output))
    release = _always(
        deployment(
            config=config,
            date=date,
            registry=registry,
            target=target,
            model=model.output,
            evaluation=verdict.output,
            drift=shift.output,
        )
    )
    _always(
        reporting(
            config=config,
            date=date,
            device=device,
            data=data,
            runs=runs,
            events=events.output,
            features=rows,
            model=model.output,
            profile=profile.output,
            evaluation=verdict.output,
            scores=scores.output,
            drift=shift.output,
            deployment=release.output,
        )
    )
    for step in (events, table, model, profile, verdict, scores, shift, release):
        step.set_cpu_request("1").set_memory_request("1G").set_memory_limit("2G")
