"""Names of the metrics of models of tables."""

from nightshift.config.tabular import TabularConfig
from nightshift.contracts import verdict

PROMISE = "average_precision"
LOWER_IS_BETTER: tuple[str, ...] = ()
GATES: tuple[str, ...] = (verdict.SKEW,)


def list_headline_metrics(config: TabularConfig) -> dict[str, str]:
    """Return which metrics are shown -> what they are called."""
    precision = f"Precision at {config.evaluation.top_k}"
    return {"auc_roc": "ROC AUC", "average_precision": "Average precision", "precision_at_k": precision}


def list_summary_metrics(config: TabularConfig) -> dict[str, str]:
    """Return all metrics -> what the run's summary calls them."""
    at_k = f"precision_at_{config.evaluation.top_k}"
    names = {"auc_roc": "auc_roc", "average_precision": "average_precision"}
    return {**names, "precision_at_k": at_k, "precision_at_k_ceiling": f"{at_k}_ceiling"}
