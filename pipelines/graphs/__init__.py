"""The pipelines, a file each, in which `define` returns it; a step's placement is none of their business."""

from typing import Any

from kfp import dsl

from components.features.component import features, features_of_shards, features_shard


def always_run(*steps: dsl.PipelineTask) -> None:
    """Keep steps out of the cache: its key knows their arguments, not the data or the registry behind them."""
    for step in steps:
        step.set_caching_options(False)


def make_features(shards: int, **inputs: Any) -> Any:
    """Add the features step, and before it as many that each compute a shard; none where there are 0."""
    if not shards:
        return features(**inputs)
    with dsl.ParallelFor([*range(shards)]) as number:
        shard = features_shard(**inputs, shard=number, shards=shards)
    return features_of_shards(**inputs, computed=dsl.Collected(shard.output))
