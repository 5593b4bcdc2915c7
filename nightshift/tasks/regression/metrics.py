"""The metrics of models whose scores are numbers, in the label's unit; of a bias the nearest to 0 is best."""

from nightshift.tasks.base import metrics as base
from nightshift.tasks.base.metrics import Direction, Metric

MAE = Metric("mae", "Mean absolute error", Direction.LOWER, resample=True, is_headline=True)
METRICS = (
    MAE,
    Metric("rmse", "Root mean square error", Direction.LOWER, resample=True, is_headline=True),
    Metric("pinball", "Pinball loss", Direction.LOWER, resample=True, is_headline=True),
    Metric("cost", "Cost of a row", Direction.LOWER, resample=True, is_headline=True),
    Metric("bias", "Bias", Direction.LOWER, resample=True),
)


class MetricsTask(base.MetricsTask):
    """Errors, by the mean absolute one."""

    metrics, promise = METRICS, MAE.name
