"""Daily monitoring: has the world moved away from the champion, and is it time to train again?"""

from typing import Any

from kfp import dsl

from components.drift.component import drift
from components.features.component import features
from components.ingestion.component import ingestion
from components.launching.component import retraining
from components.monitoring.component import monitoring
from components.scoring.component import scoring_of_champion


@dsl.pipeline(name="fraud-monitoring", description=__doc__)
def fraud_monitoring(
    config: dict[str, Any],
    date: str,
    data: str,
    device: str,
    lake: str,
    registry: str,
    runs: str,
    audit: str,
    target: str,
    kubeflow: dict[str, Any],
) -> None:
    """Compare one logical date with the champion's training days, and have a new one trained when that is called for.

    Args:
        config: the use case, as in `pipelines/configs/`.
        date: the logical date, the last complete UTC day.
        data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
        device: cpu or cuda.
        lake: root of the tables by day.
        registry: root of the model registry.
        runs: root of the run summaries.
        audit: root of the audit log.
        target: where models are deployed; record-only marks a run for a past day, which asks for nothing.
        kubeflow: endpoint, experiment and namespace, where a retraining is started; {} only says how to start it.
    """
    events = ingestion(config=config, date=date, data=data, lake=lake).set_caching_options(False)
    events.set_retry(2, "10s", 2.0)
    table = features(config=config, date=date, device=device, lake=lake, events=events.output)
    scores = scoring_of_champion(config=config, date=date, lake=lake, registry=registry, features=table.output)
    shift = drift(config=config, date=date, features=table.output, scores=scores.output)
    decision = monitoring(config=config, date=date, audit=audit, target=target, drift=shift.output)
    launch = retraining(
        pipeline="fraud-training",
        kubeflow=kubeflow,
        config=config,
        date=date,
        data=data,
        device=device,
        lake=lake,
        registry=registry,
        runs=runs,
        audit=audit,
        target=target,
        request=decision.output,
    ).set_retry(5, "60s", 2.0)
    for step in (scores, shift, decision, launch):
        step.set_caching_options(False)
    for step in (events, table, scores, shift, decision, launch):
        step.set_cpu_request("1").set_memory_request("1G").set_memory_limit("2G")
