"""`suite.json`: how a served language model has done on the task suite, item by item, so that two can be compared."""

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part

FILE = "suite.json"


class SuiteMetric(Part):
    """A metric of a task."""

    name: str = Field(description="task and metric, as in lm-evaluation-harness; nats: minus the log-likelihood")
    higher_is_better: bool
    value: float = Field(description="mean of the items")
    interval: tuple[float, float] = Field(description="95 % interval, from a bootstrap of the items")
    items: list[float] = Field(description="of each item, in the suite's order")


class SuiteScores(Artifact):
    """A model's scores."""

    model: str = Field(description="as requests name it")
    suite_sha256: str = Field(description="hash of the items: only scores of the same ones are compared")
    metrics: list[SuiteMetric]
