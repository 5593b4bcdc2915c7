"""The metrics of models that tell classes apart."""

from nightshift.tasks.base import metrics as base
from nightshift.tasks.base.metrics import Direction, Metric

ACCURACY = Metric("accuracy", "Accuracy", resample=True, is_headline=True)
METRICS = (
    ACCURACY,
    Metric("top_5_accuracy", "Top 5"),
    Metric("macro_f1", "Macro F1", resample=True, is_headline=True),
    Metric("auc_roc", "ROC AUC"),
    Metric("log_loss", "Log loss", Direction.LOWER, is_headline=True),
    Metric("calibration_error", "Calibration error", Direction.LOWER),
)


class MetricsTask(base.MetricsTask):
    """Metrics of classes, by accuracy."""

    metrics, promise = METRICS, ACCURACY.name
