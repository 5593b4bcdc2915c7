"""An experiment: the release of a version with a plan, and what it has cost."""

from datetime import datetime
from typing import Any

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part, Window
from nightshift.contracts.release_record import ReleasedVersion


class ExperimentPlan(Artifact):
    """What is expected of an experiment before it starts."""

    use_case: str = Field(description="name in the config")
    champion: ReleasedVersion
    challenger: ReleasedVersion
    planned_at: datetime = Field(description="UTC; the release starts then")
    planned_by: str = Field(description="user")
    pilot: Window = Field(description="labeled days that neither version was trained on, and their observations")
    measured_gain: float = Field(description="by how much less the challenger lost on them, as a share")
    median_days: int | None = Field(
        description="days within which half of such experiments are decided, if the gain is the measured one; null: "
        "not within the horizon"
    )
    likely_days: int | None = Field(description="the same of four in five")
    slowest_test: str = Field(description="what decides last: `loss`, or the loss in a slice; empty without a decision")
    detectable_gain: float | None = Field(
        description="smallest gain that four in five experiments show within the horizon; null: none"
    )
    harm: float = Field(description="loss that is called harm, as a share above the champion's")
    harm_days: int | None = Field(
        description="days within which four in five versions that do so much harm are rolled back; null: the horizon"
    )
    budget_usd: float | None = Field(description="US dollars at which it is stopped; null: no limit")
    rollout: dict[str, Any] = Field(description="the config's `release`")


class ExperimentCost(Part):
    """What one thing has cost an experiment."""

    item: str = Field(description="training, judging, serving, storage or labels")
    quantity: float = Field(description="how much of it")
    unit: str = Field(description="of the quantity")
    usd: float | None = Field(description="US dollars, to the cent; null without a price")
    runs: list[str] = Field([], description="ids of the runs that it consists of")


class ExperimentStatus(Artifact):
    """How far an experiment is, and what it has cost."""

    plan: ExperimentPlan
    stage: str = Field(description="of the release: shadow, canary or live; of one that is over, how it ended")
    is_over: bool = Field(description="whether the release has ended")
    days: float = Field(description="since its start, until now or its end")
    traffic: float = Field(description="share of the requests that the challenger answers")
    observations: int = Field(description="labeled since the start")
    reasons: list[str] = Field(description="what the labels say so far, or why it ended")
    costs: list[ExperimentCost] = Field(description="by item")
    usd: float = Field(description="sum of the known costs, US dollars")
