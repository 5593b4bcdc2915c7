"""The name of the metric: the mean Poisson deviance."""

PROMISE, TITLE = "poisson_deviance", "Poisson deviance"
LOWER_IS_BETTER = (PROMISE,)
GATES = ()


def shown(_):
    return {PROMISE: TITLE}


def summarized(_):
    return {PROMISE: PROMISE}
