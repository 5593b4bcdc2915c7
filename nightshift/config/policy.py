"""When a run stops, which days it takes, what a model has to pass, when to retrain and what to keep."""

from typing import Annotated, Literal, Self

import annotated_types
from pydantic import Field, field_validator, model_validator

from nightshift.config.section import ConfigSection, Cost, Days, DaysOrNone, Positive, Share

Limit = Annotated[float, annotated_types.Interval(gt=0, le=1e9)]
DaysKept = Annotated[int, annotated_types.Interval(ge=1, le=36_500)]
Effect = Annotated[float, annotated_types.Interval(gt=0, le=1e6)]
Milliseconds = Annotated[float, annotated_types.Interval(gt=0, le=3_600_000)]


class Quarantine(ConfigSection):
    """How many bad rows are tolerated before a run stops."""

    max_share: Share = Field(0.01, description="share of the rows read that may be quarantined, for any one rule")
    max_label_share: Share = Field(
        0.05,
        description="share of the positives, of the negatives, or of any class, that may be quarantined, by all rules "
        "together and from 5 rows on; models learn from few positives, so what is lost of them counts for itself",
    )


class Protocol(ConfigSection):
    """Which days train, validate and test. See `nightshift/data/splits.py`."""

    mode: Literal["daily", "retrospective"] = Field(
        "daily", description="daily: labels known on the logical date only; retrospective: test ends on it"
    )
    train_days: Days = 7
    test_days: Days = 7


class EvaluationGate(ConfigSection):
    """The gate a challenger has to pass."""

    tolerance: Share = Field(
        0.02,
        description="average precision, or task.select_by, that a fresher model may lose, at the low end of the 95 % "
        "interval",
    )
    reference_days: DaysOrNone = Field(
        365,
        description="a fresher model is held to the best version of so many days as well, by the ends of their "
        "training days, so that within them no more than the tolerance is lost; 0: to the live version only",
    )


class DriftLimits(ConfigSection):
    """Effect sizes above which something counts as drifted; `make drift-bench` shows what they catch."""

    window_days: Days = Field(7, description="days compared; use whole weeks, or weekdays look like drift")
    psi: Effect = 0.1
    wasserstein: Effect = Field(0.08, description="in reference standard deviations")
    max_drifted_share: Share = Field(0.1, description="share of drifted inputs above which the inputs have drifted")
    evidently: bool = Field(
        False, description="true: evidently.html is written too, an interactive page; takes seconds, decides nothing"
    )
    corrections: Effect = Field(
        0.5, description="relative change in the rows of a label when a day whose labels were complete comes again"
    )
    volume: Effect = Field(
        0.5, description="relative change in rows per day: 0.5 is half as many again, or a third less"
    )


class EmbeddingDriftLimits(DriftLimits):
    """Limits of the drift of what a network makes of a row, beside those of columns."""

    novelty: Share = Field(0.05, description="share of rows less like the reference than 98 % of its own rows")
    domain_classifier: Share = Field(
        0.05,
        description="ROC AUC, less 0.5, of a classifier that tells the newest rows from the reference by embeddings",
    )
    mmd: Share = Field(0.05, description="maximum mean discrepancy of embeddings")


class Controller(ConfigSection):
    """When drift asks for a retraining. See `components/monitoring/core.py`."""

    retrain: Literal["daily", "on_drift"] = Field("daily", description="daily: the schedule retrains, drift never asks")
    drifted_days: Days = Field(2, description="drifted days needed, including the newest")
    window_days: Days = Field(3, description="days up to the newest among which they are counted")
    cooldown_days: DaysOrNone = Field(3, description="days after a request without another")
    max_retrains_per_week: Positive = Field(2, description="requests within any seven days")
    freeze: bool = Field(False, description="true: never ask")

    @model_validator(mode="after")
    def _days_fit(self) -> Self:
        if self.drifted_days > self.window_days:
            raise ValueError(
                f"'drifted_days' is {self.drifted_days} but 'window_days' is {self.window_days}; "
                "'drifted_days' is at most 'window_days'"
            )
        return self


class Retention(ConfigSection):
    """How long `nightshift gc` leaves things where they are; what a live model was made from stays longer."""

    runs_days: DaysKept = Field(90, description="since a run was started")
    partitions_days: DaysKept = Field(
        30, description="since a day of a table was written, once no run names it, or what a step has left unfinished"
    )
    versions_days: DaysKept = Field(180, description="since a model version was registered")
    events_days: DaysKept | None = Field(
        None,
        description="after a day of events, with its quarantined rows; null: as long as a run names it. What a live "
        "version was made from, or the newest run has read, stays longer",
    )
    quarantine_days: DaysKept | None = Field(None, description="the same of quarantined rows alone")
    features_days: DaysKept | None = Field(
        None, description="the same of features, and of snapshots of the online state"
    )
    scores_days: DaysKept | None = Field(None, description="the same of scores")
    predictions_days: DaysKept | None = Field(
        None, description="after a day of the prediction log; null: partitions_days after it was written"
    )

    def find_days(self, table: str) -> int | None:
        """Return how many days after its date a day of a table is kept, None where no limit is given."""
        field = "features" if table == "online" else table
        days: int | None = getattr(self, f"{field}_days", None)
        return days


class Costs(ConfigSection):
    """What machines cost, and how much a run may spend. See `nightshift/costs/spending.py`."""

    machine: str | None = Field(
        None, description="that steps run on, e.g. `g6.2xlarge spot`, where their placement names none"
    )
    prices: dict[str, Cost] = Field({}, description="machine -> US dollars an hour; goes before the project's table")
    budget_usd: Limit | None = Field(None, description="of a run, which stops before it spends more")
    budget_hours: Limit | None = Field(None, description="the same in hours of machines, whatever they cost")
    serving_usd_hour: Cost | None = Field(
        None, description="of the replicas that answer requests as a challenger, in US dollars; of experiments"
    )
    storage_usd_gb_month: Cost | None = Field(None, description="of a version's files, of experiments")
    label_usd: Cost | None = Field(None, description="of a label that is bought, of experiments")

    @property
    def has_budget(self) -> bool:
        """Whether a run is stopped at some point."""
        return self.budget_usd is not None or self.budget_hours is not None


class ServedGraph(ConfigSection):
    """Which form of the selected graph is served: one for all nights, so that equal nights serve equal bytes."""

    form: Literal["original", "graph", "int8 dynamic", "int8 static"] = Field(
        "original", description="as `nightshift optimize` finds it; the original where the form loses too much"
    )


class Rollout(ConfigSection):
    """How a version takes over from the champion. See `nightshift/registry/promotion.py`."""

    gradual: bool = Field(False, description="true: what passes the gates is released in steps, not promoted at once")
    approval: Literal["none", "required"] = Field(
        "none", description="required: what passes the gates goes live once a person has approved it"
    )
    shares: list[Annotated[float, annotated_types.Interval(gt=0, lt=1)]] = Field(
        [0.05, 0.25, 0.5], description="of the requests, one after the other; [] goes from shadow to live"
    )
    stage_days: Days = Field(1, description="shortest time in shadow and at each share")
    horizon_days: Days = Field(28, description="after which an undecided release ends and the champion stays")
    alpha: Annotated[float, annotated_types.Interval(gt=0, lt=1)] = Field(
        0.05, description="probability that a challenger is promoted that is not better, however often one looks"
    )
    min_gain: Share = Field(
        0.0, description="share of the champion's loss; a challenger that is shown to save less is rolled back"
    )
    slices: list[str] = Field([], description="columns of the features; each of their values is a slice of its own")
    slice_tolerance: Share = Field(
        0.1, description="by how much a challenger's loss in a slice may exceed the champion's"
    )
    request_tolerance: Share = Field(
        0.1, description="by how much a challenger's latency and tokens a request may exceed the champion's"
    )
    max_error_rate: Share = Field(0.01, description="of the challenger's requests")
    max_p99_ms: Milliseconds = Field(50, description="99th percentile of its latency")
    min_requests: Positive = Field(100, description="of the challenger, needed to apply the two limits")

    @property
    def needs_approval(self) -> bool:
        """Whether a person has to approve a version before it is live."""
        return self.approval == "required"

    @field_validator("shares")
    @classmethod
    def _shares_grow(cls, shares: list[float]) -> list[float]:
        if shares != sorted(set(shares)):
            raise ValueError("the shares of a release grow from one to the next")
        return shares
