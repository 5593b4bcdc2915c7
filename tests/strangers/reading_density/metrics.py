"""The name of the metric: the mean negative log-likelihood."""

PROMISE, TITLE = "negative_log_likelihood", "Negative log-likelihood"
LOWER_IS_BETTER = (PROMISE,)
GATES = ()


def list_headline_metrics(_):
    return {PROMISE: TITLE}


def list_summary_metrics(_):
    return {PROMISE: PROMISE}
