"""The name of the metric: the mean Poisson deviance."""

PROMISE = "poisson_deviance"
LOWER_IS_BETTER = (PROMISE,)
GATES = ()


def shown(_):
    return {PROMISE: "Poisson deviance"}


def summarized(_):
    return {PROMISE: PROMISE}
