"""The name of the metric: the mean negative log-likelihood."""

PROMISE, TITLE = "negative_log_likelihood", "Negative log-likelihood"
LOWER_IS_BETTER = (PROMISE,)
GATES = ()


def shown(_):
    return {PROMISE: TITLE}


def summarized(_):
    return {PROMISE: PROMISE}
