"""Names of the metrics."""

from nightshift.config import Config

PROMISE = "poisson_deviance"
LOWER_IS_BETTER = ("poisson_deviance", "mean_absolute_error")
GATES: tuple[str, ...] = ()


def shown(_: Config) -> dict[str, str]:
    return {"poisson_deviance": "Poisson deviance", "mean_absolute_error": "Mean absolute error"}


def summarized(_: Config) -> dict[str, str]:
    return {name: name for name in LOWER_IS_BETTER}
