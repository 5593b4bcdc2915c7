"""The name of the metric: the mean Poisson deviance."""

PROMISE = "poisson_deviance"
LOWER_IS_BETTER = (PROMISE,)
GATES = ()


def list_headline_metrics(_):
    return {PROMISE: "Poisson deviance"}


def list_summary_metrics(_):
    return {PROMISE: PROMISE}
