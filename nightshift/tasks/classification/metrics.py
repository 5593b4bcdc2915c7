"""The metrics of models that tell classes apart."""

from nightshift.config.classes import ClassConfig
from nightshift.tasks.base import metrics as base
from nightshift.tasks.base.metrics import Direction, Metric

ACCURACY = Metric("accuracy", "Accuracy", resample=True, is_headline=True)
METRICS: tuple[Metric, ...] = (
    ACCURACY,
    Metric("top_5_accuracy", "Top 5"),
    Metric("macro_f1", "Macro F1", resample=True, is_headline=True),
    Metric("macro_average_precision", "Macro average precision", resample=True, is_headline=True),
    Metric("micro_f1", "Micro F1", resample=True, is_headline=True),
    Metric("auc_roc", "ROC AUC"),
    Metric("log_loss", "Log loss", Direction.LOWER, is_headline=True),
    Metric("calibration_error", "Calibration error", Direction.LOWER),
)


class MetricsTask(base.MetricsTask):
    """Metrics of classes, by accuracy."""

    metrics, promise = METRICS, ACCURACY.name

    def list_metrics(self, config: ClassConfig) -> list[Metric]:
        return [metric for metric in super().list_metrics(config) if metric.name not in list_meaningless(config)]


def list_meaningless(config: ClassConfig) -> tuple[str, ...]:
    """Return the names of metrics that have no meaning where a row has one class, or any number of them."""
    return ("top_5_accuracy",) if config.task.is_multilabel else ("macro_average_precision", "micro_f1")
