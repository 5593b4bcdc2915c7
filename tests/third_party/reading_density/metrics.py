"""The metric: the mean negative log-likelihood."""

from nightshift.tasks.base import metrics as base
from nightshift.tasks.base.metrics import Direction, Metric

LOSS = Metric("negative_log_likelihood", "Negative log-likelihood", Direction.LOWER, resample=True, is_headline=True)


class MetricsTask(base.MetricsTask):
    metrics, promise = (LOSS,), LOSS.name
