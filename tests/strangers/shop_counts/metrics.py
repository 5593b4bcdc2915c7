"""The name of the metric: the mean Poisson deviance."""

PROMISE, TITLE = "poisson_deviance", "Poisson deviance"
LOWER_IS_BETTER = (PROMISE,)
GATES = ()


def list_headline_metrics(_):
    return {PROMISE: TITLE}


def list_summary_metrics(_):
    return {PROMISE: PROMISE}
