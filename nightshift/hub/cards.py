"""The Hub's model card: its metadata, then the card of the evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class CardMetadata:
    """What the Hub shows and filters by.

    Attributes:
        use_case: name in the config.
        pipeline_tag: what the Hub calls the task; empty where it has no name for it.
        tags: for its search.
        metrics: name -> value on the test window.
    """

    use_case: str
    pipeline_tag: str
    tags: list[str]
    metrics: Mapping[str, float] = field(default_factory=dict)


def render(metadata: CardMetadata, card: str) -> str:
    """Return a README.md for the Hub: YAML between lines of dashes, then a card in Markdown."""
    from huggingface_hub import EvalResult, ModelCardData

    results = [
        EvalResult(
            task_type=metadata.pipeline_tag or "other",
            dataset_type=metadata.use_case,
            dataset_name=f"{metadata.use_case}, test window",
            metric_type=name,
            metric_value=value,
        )
        for name, value in metadata.metrics.items()
    ]
    data = ModelCardData(
        library_name="onnx",
        pipeline_tag=metadata.pipeline_tag or None,
        tags=metadata.tags,
        model_name=metadata.use_case,
        eval_results=results or None,
    )
    return f"---\n{data.to_yaml()}\n---\n\n{card}"
