"""The metrics of models of images with reports: retrieval both ways, and findings."""

from dataclasses import replace

from nightshift.tasks.base.metrics import Metric
from nightshift.tasks.classification import metrics as classification

RECALL = Metric("recall_at_5", "Recall@5", resample=True, is_headline=True)  # the mean of both directions
RECALLS = (Metric("recall_at_1", "Recall@1", resample=True), RECALL, Metric("recall_at_10", "Recall@10", resample=True))
AUC_ROC, AVERAGE_PRECISION = "auc_roc", "macro_average_precision"
_FINDINGS = (replace(metric, resample=True) if metric.name == AUC_ROC else metric for metric in classification.METRICS)
METRICS = (*RECALLS, *_FINDINGS)


class MetricsTask(classification.MetricsTask):
    """Metrics of pairs, and of findings as classes; a model promises the accuracy of its findings."""

    metrics = METRICS
