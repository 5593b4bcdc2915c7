"""Names and titles of the metrics of models that tell classes apart."""

from nightshift.config.classes import ClassConfig

PROMISE = "accuracy"
LOWER_IS_BETTER: tuple[str, ...] = ("log_loss", "calibration_error")
GATES: tuple[str, ...] = ()
TITLES = {
    "accuracy": "Accuracy",
    "top_5_accuracy": "Top 5",
    "macro_f1": "Macro F1",
    "auc_roc": "ROC AUC",
    "log_loss": "Log loss",
    "calibration_error": "Calibration error",
}


def list_headline_metrics(_: ClassConfig) -> dict[str, str]:
    """Return which metrics are shown -> what they are called."""
    return {name: TITLES[name] for name in ("accuracy", "macro_f1", "log_loss")}


def list_summary_metrics(_: ClassConfig) -> dict[str, str]:
    """Return all metrics -> what the run's summary calls them: the same."""
    return {name: name for name in TITLES}
