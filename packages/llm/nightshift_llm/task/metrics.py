"""The metric of language models: bits per byte of text, independent of the tokenizer."""

from nightshift_llm.config import LanguageConfig

PROMISE, TITLE = "bits_per_byte", "Bits per byte"
LOWER_IS_BETTER: tuple[str, ...] = (PROMISE,)
GATES: tuple[str, ...] = ()


def list_headline_metrics(_: LanguageConfig) -> dict[str, str]:
    """Return which metrics are shown -> what they are called."""
    return {PROMISE: TITLE}


def list_summary_metrics(_: LanguageConfig) -> dict[str, str]:
    """Return all metrics -> what the run's summary calls them: the same."""
    return {PROMISE: PROMISE}
