"""Names of the metrics of models that tell classes apart."""

from nightshift.config.classes import ClassConfig

PROMISE = "accuracy"
LOWER_IS_BETTER: tuple[str, ...] = ("log_loss", "calibration_error")
GATES: tuple[str, ...] = ()
NAMES = ("accuracy", "top_5_accuracy", "macro_f1", "auc_roc", "log_loss", "calibration_error")


def shown(_: ClassConfig) -> dict[str, str]:
    """Return which metrics are shown -> what they are called."""
    return {"accuracy": "Accuracy", "macro_f1": "Macro F1", "log_loss": "Log loss"}


def summarized(_: ClassConfig) -> dict[str, str]:
    """Return all metrics -> what the run's summary calls them: the same."""
    return {name: name for name in NAMES}
