"""The metric of language models: bits per byte of text, independent of the tokenizer."""

from nightshift.tasks.base import metrics as base
from nightshift.tasks.base.metrics import Direction, Metric

BITS_PER_BYTE = Metric("bits_per_byte", "Bits per byte", Direction.LOWER, resample=True, is_headline=True)


class MetricsTask(base.MetricsTask):
    """Bits per byte."""

    metrics, promise = (BITS_PER_BYTE,), BITS_PER_BYTE.name
