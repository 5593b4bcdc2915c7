"""The metrics of models of tables."""

from nightshift.contracts import verdict
from nightshift.tasks.base import metrics as base
from nightshift.tasks.base.metrics import Metric

AVERAGE_PRECISION = Metric("average_precision", "Average precision", resample=True, is_headline=True)
METRICS = (
    Metric("auc_roc", "ROC AUC", is_headline=True),
    AVERAGE_PRECISION,
    Metric(
        "precision_at_k",
        "Precision at {top_k}",
        resample=True,
        is_headline=True,
        summary="precision_at_{top_k}",
        bound="precision_at_k_ceiling",
    ),
    Metric("precision_at_k_ceiling", "Highest possible", summary="precision_at_{top_k}_ceiling"),
)


class MetricsTask(base.MetricsTask):
    """Ranking metrics, by average precision."""

    metrics, promise, gates = METRICS, AVERAGE_PRECISION.name, (verdict.SKEW,)
