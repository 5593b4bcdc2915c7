"""Daily monitoring: has the world moved away from the champion, and is it time to train again?"""

from typing import Any

from kfp import dsl

from components.drift.component import drift
from components.features.component import features
from components.ingestion.component import ingestion
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
    audit: str,
    target: str,
) -> None:
    """Compare one logical date with the champion's training days and decide whether to ask for a retraining.

    Args:
        config: the use case, as in `pipelines/configs/`.
        date: the logical date, the last complete UTC day.
        data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
        device: cpu or cuda.
        lake: root of the tables by day.
        registry: root of the model registry.
        audit: root of the audit log.
        target: where models are deployed; record-only marks a run for a past day, which asks for nothing.
    """
    events = ingestion(config=config, date=date, data=data, lake=lake).set_caching_options(False)
    events.set_retry(2, "10s", 2.0)
    table = features(config=config, date=date, device=device, lake=lake, events=events.output)
    scores = scoring_of_champion(config=config, date=date, lake=lake, registry=registry, features=table.output)
    shift = drift(config=config, date=date, features=table.output, scores=scores.output)
    decision = monitoring(config=config, date=date, audit=audit, target=target, drift=shift.output)
    for step in (scores, shift, decision):
        step.set_caching_options(False)
    for step in (events, table, scores, shift, decision):
        step.set_cpu_request("1").set_memory_request("1G").set_memory_limit("2G")
