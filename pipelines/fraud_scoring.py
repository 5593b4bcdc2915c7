"""Daily scoring: what does the champion say of the day's events, whose labels nobody knows yet?"""

from typing import Any

from kfp import dsl

from components.features.component import features
from components.ingestion.component import ingestion
from components.scoring.component import scoring_of_champion


@dsl.pipeline(name="fraud-scoring", description=__doc__)
def fraud_scoring(config: dict[str, Any], date: str, data: str, device: str, lake: str, registry: str) -> None:
    """Score one logical date with the champion.

    Args:
        config: the use case, as in `pipelines/configs/`.
        date: the logical date, the last complete UTC day.
        data: where the raw events lie: `simulator`, a folder, s3:// or gs://.
        device: cpu or cuda.
        lake: root of the tables by day.
        registry: root of the model registry.
    """
    events = ingestion(config=config, date=date, data=data, lake=lake).set_caching_options(False)
    events.set_retry(2, "10s", 2.0)
    table = features(config=config, date=date, device=device, lake=lake, events=events.output)
    scores = scoring_of_champion(config=config, date=date, lake=lake, registry=registry, features=table.output)
    scores.set_caching_options(False)
    for step in (events, table, scores):
        step.set_cpu_request("1").set_memory_request("1G").set_memory_limit("2G")
