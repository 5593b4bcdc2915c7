"""The metric: the mean Poisson deviance."""

from nightshift.tasks.base import metrics as base
from nightshift.tasks.base.metrics import Direction, Metric

LOSS = Metric("poisson_deviance", "Poisson deviance", Direction.LOWER, resample=True, is_headline=True)


class MetricsTask(base.MetricsTask):
    metrics, promise = (LOSS,), LOSS.name
