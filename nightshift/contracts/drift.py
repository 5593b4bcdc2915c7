"""`drift.json`: how far the newest rows lie from those a model carries."""

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part, Window

FILE = "drift.json"
SCORE = "score"  # the column that a model adds
PREDICTED = "predicted"  # what a model of classes adds beside it: the class with the highest score
# signals of a delivery that is at fault: no reason to train, but a reason not to
FAULTS = ("labels", "unlabeled_days", "corrections", "flagged", "customers", "terminals", "units")


class ColumnDrift(Part):
    """How far one column has moved."""

    name: str = Field(description="a model input, or `score`")
    psi: float = Field(description="population stability index, at least 0")
    psi_limit: float = Field(description="of the config, or what days drawn alike show by chance where that is larger")
    wasserstein: float | None = Field(
        description="distance in standard deviations of the reference; null for categories, and where either side has "
        "no spread to measure it by"
    )
    wasserstein_limit: float | None = Field(description="likewise; null without a distance")
    drifted: bool = Field(description="whether either exceeds its limit")
    reference_mean: float | None = Field(description="null for categories")
    current_mean: float | None = Field(description="null for categories")


class Signal(Part):
    """One thing that may have changed."""

    name: str = Field(description="such as `volume`, by which metrics, alerts and the controller know it")
    value: float | None = Field(description="its effect size; null where it cannot be measured")
    limit: float = Field(description="what the effect size may be at most (`labels`: at least)")
    unit: str = Field("", description="of effect size and limit, such as `standard deviations`; empty where unknown")
    raised: bool = Field(description="whether it is beyond that")
    reason: str = Field(description="a sentence")


class Promise(Part):
    """What a model is expected to reach."""

    metric: str = Field(description="of which it is: `average_precision` or `accuracy`")
    value: float = Field(description="on rows it had not seen")
    measured: str = Field(description="where it was measured, as the end of a sentence")


class DriftReport(Artifact):
    """How far the newest rows lie from those a model carries: a sample of its training, or of days before it."""

    model_sha256: str = Field(description="identity of the model whose inputs and scores were compared")
    model_version: str = Field(description="its number in the registry, or `unregistered`")
    promised: Promise | None = Field(description="what the model is held to; null where nobody has measured it")
    window: Window = Field(description="the newest days")
    reference: Window = Field(
        description="the training days, of images and texts the days before them, and the rows of the compared sample"
    )
    drifted_share: float = Field(description="share of the model inputs that drifted, 0 to 1")
    columns: list[ColumnDrift] = Field(description="the inputs, then `score`")
    signals: list[Signal] = Field(description="what may have changed, inputs and score first")
