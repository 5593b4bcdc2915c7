"""The configuration of one use case: what the columns mean, which windows, which models, which gates.

A config is one YAML file and travels through the pipeline as one value. It holds no URI: where things
lie is the environment's business (see `pipelines/environments.py`).
"""

import json
import re
from datetime import date, timedelta
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

import annotated_types
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from components.common.errors import UserError, nearest

Positive = Annotated[int, annotated_types.Ge(1)]
Share = Annotated[float, annotated_types.Interval(ge=0, le=1)]
Cost = Annotated[float, annotated_types.Interval(ge=0, lt=float("inf"))]


class Section(BaseModel):
    """A part of the config: immutable, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Source(Section):
    """How the data lies below the data URI: one file a day, or one table that holds all days."""

    files: str | None = Field(None, description="name of a day's file, with {date}: '{date}.parquet'")
    table: str | None = Field(None, description="name of one table with all days: 'transactions.csv'")
    timezone: str = Field("UTC", description="zone of times that carry none, an IANA name")

    @model_validator(mode="after")
    def _one_layout(self) -> Self:
        if (self.files is None) == (self.table is None):
            raise ValueError("give exactly one of 'files' (one file a day) and 'table' (all days in one)")
        if self.files is not None and "{date}" not in self.files:
            raise ValueError(f"'files' is {self.files!r} but must contain {{date}}, as in '{{date}}.parquet'")
        return self

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            return ZoneInfo(name).key
        except (KeyError, ValueError, OSError):
            raise ValueError("not a time zone; give an IANA name, such as 'Europe/Paris'") from None

    @property
    def pattern(self) -> str:
        """The layout in use: the daily template or the table's name."""
        return self.files or self.table or ""


class Columns(Section):
    """The user's column name for each role."""

    event_id: str = Field(description="names an event; no two events share one")
    event_time: str = Field(description="when it happened: timestamps, or ISO 8601 text")
    customer: str | None = Field(
        None, description="whose events they are: of a person, an account, a machine; without it each stands alone"
    )
    terminal: str | None = Field(None, description="where they happen: at a shop, a device, a site")
    amount: str | None = Field(None, description="what an event is worth; not negative")
    label: str = Field(description="what is to be predicted: 0, 1, true or false")
    numeric: list[str] = Field([], description="further numeric columns, used as model inputs as they are")
    categorical: list[str] = Field([], description="further categorical columns, one-hot encoded")

    @model_validator(mode="after")
    def _no_column_twice(self) -> Self:
        names = [*self.roles.values(), *self.numeric, *self.categorical]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"column {twice[0]!r} is given more than one role; give each column one")
        ours = [name for name in (*self.numeric, *self.categorical) if name in ROLES or MADE.fullmatch(name)]
        if ours:
            raise ValueError(f"further column {ours[0]!r} has a name that is used inside the pipeline; rename it")
        return self

    @property
    def roles(self) -> dict[str, str]:
        """Canonical role -> the user's column name, of the roles that are given; without the extra columns."""
        return {role: name for role in ROLES if (name := getattr(self, role)) is not None}


ROLES = ("event_id", "event_time", "customer", "terminal", "amount", "label")
# columns that the features step and the scoring add
MADE = re.compile(r"score|during_(weekend|night)|(customer|terminal)_(count|mean_amount|risk)_\d+d")


class Quarantine(Section):
    """How many bad rows are tolerated before a run stops."""

    max_share: Share = Field(0.01, description="share of the rows read that may be quarantined, for any one rule")


class Simulator(Section):
    """The embedded data: the world's size, its seed, and what to spoil in it on purpose."""

    seed: Annotated[int, annotated_types.Ge(0)] = 0
    customers: Positive = 5000
    terminals: Positive = 10000
    drift_from: str | None = Field(
        None, pattern=r"^\d{4}-\d{2}-\d{2}$", description="first day (YYYY-MM-DD) on which the drifts below apply"
    )
    amount_factor: Annotated[float, annotated_types.Gt(0)] = Field(1.0, description="on amounts, from drift_from")
    volume_factor: Annotated[float, annotated_types.Gt(0)] = Field(1.0, description="on counts, from drift_from")
    night_fraud: bool = Field(
        False, description="from drift_from, frauds move to the night (00:00-06:59), and stolen cards buy as usual"
    )
    new_terminals: Share = Field(0.0, description="share of terminals that new ones replace on drift_from")
    new_scenario: Share = Field(
        0.0, description="share of transactions that are, from drift_from, small purchases with copied cards: fraud"
    )
    label_lateness_days: Annotated[int, annotated_types.Ge(0)] = Field(
        0, description="days by which labels of days from drift_from arrive after the label delay"
    )
    corrupt_share: Share = Field(0.0, description="share of each day's rows that are corrupted, one rule each in turn")

    def drifts(self, on: date) -> bool:
        """Tell whether the drifts apply on a day."""
        return self.drift_from is not None and str(on) >= self.drift_from

    def labels_arrived(self, on: date, labels_due: date) -> bool:
        """Tell whether a day's labels are there, when those up to `labels_due` should be."""
        late = self.label_lateness_days if self.drifts(on) else 0
        return on + timedelta(days=late) <= labels_due


class Features(Section):
    """Trailing windows per customer and, delayed by the label delay, per terminal; of whichever is given."""

    windows_days: list[Positive] = Field(
        [1, 7, 30], description="lengths of the windows, no two alike; [] without a customer and a terminal"
    )
    amount_decimals: Annotated[int, annotated_types.Interval(ge=0, le=6)] = Field(
        2, description="decimals of the currency; amounts are summed exactly at this precision"
    )

    @field_validator("windows_days")
    @classmethod
    def _no_window_twice(cls, days: list[int]) -> list[int]:
        if len(set(days)) < len(days):
            raise ValueError("a window stands there twice; give each length once")
        return days

    @property
    def longest_window_days(self) -> int:
        """How far the windows reach back, 0 without any."""
        return max(self.windows_days, default=0)


class Protocol(Section):
    """Which days train, validate and test. See `components/common/splits.py`."""

    mode: Literal["daily", "retrospective"] = Field(
        "daily", description="daily: labels known on the logical date only; retrospective: test ends on it"
    )
    train_days: Positive = 7
    test_days: Positive = 7
    drop_compromised: bool = Field(True, description="leave customers known as positive out of the test rows")
    compromised_days: Positive | None = Field(
        None,
        description="how long before the end of training a positive still counts for this; default: train_days",
    )

    @model_validator(mode="after")
    def _compromised_while_training(self) -> Self:
        if self.compromised_days and self.compromised_days > self.train_days:
            raise ValueError(f"'compromised_days' is {self.compromised_days}, over 'train_days', {self.train_days}")
        return self


class Model(Section):
    """One candidate: which estimator, and its parameters under the library's own names.

    A whole number arrives as an integer, whether it is written 1 or 1.0: so does Kubeflow pass it on.
    """

    kind: Literal["xgboost", "mlp", "logistic_regression", "random_forest"]
    parameters: dict[str, float | int | str | bool] = {}


class Training(Section):
    """The candidates, and how one is chosen on the validation fold."""

    seed: int = 0
    threads: Positive = Field(2, description="weights differ between thread counts, so it is fixed here")
    select_by: Literal["average_precision", "auc_roc", "card_precision"] = "average_precision"
    models: dict[str, Model] = Field(min_length=1)


class Evaluation(Section):
    """The gate a challenger has to pass."""

    top_k: Positive = Field(100, description="customers (without them: events) that can be checked a day")
    min_frauds: Positive = Field(50, description="fewer positives in the test window decide nothing")
    min_average_precision: Share = 0.3
    max_average_precision: Share = Field(0.99, description="better than this is taken for leakage and refused")
    tolerance: Share = Field(
        0.02, description="average precision a fresher model may lose, at the low end of the 95 % interval"
    )
    cost_missed_fraud: Cost = Field(
        1.0, description="of a positive that is not flagged, as a multiple of its amount; without amounts each counts 1"
    )
    cost_alert: Cost = Field(5.0, description="of checking a flagged event, in the currency of the amounts")


class Drift(Section):
    """Effect sizes above which something counts as drifted; `make drift-bench` shows what they catch."""

    window_days: Positive = Field(7, description="days compared; whole weeks, or the weekday itself is a drift")
    psi: Annotated[float, annotated_types.Gt(0)] = 0.1
    wasserstein: Annotated[float, annotated_types.Gt(0)] = Field(0.08, description="in reference standard deviations")
    max_drifted_share: Share = Field(0.1, description="share of drifted inputs above which the inputs have drifted")
    volume: Annotated[float, annotated_types.Gt(0)] = Field(
        0.5, description="relative change of the rows a day, either way: 0.5 is half as many again, or a third less"
    )
    average_precision: Share = Field(0.08, description="loss against the model's promise, on rows whose labels are due")
    min_frauds: Positive = Field(200, description="fewer positives with labels say nothing by either limit here")
    fraud_wasserstein: Annotated[float, annotated_types.Gt(0)] = Field(
        0.5, description="of an input among the positives alone, in standard deviations of the reference's positives"
    )


class Controller(Section):
    """When drift asks for a retraining. See `components/monitoring/core.py`."""

    retrain: Literal["daily", "on_drift"] = Field("daily", description="daily: the schedule retrains, drift never asks")
    days: Positive = Field(2, description="drifted days, the newest among them, that it takes ...")
    of: Positive = Field(3, description="... within so many days up to the newest")
    cooldown_days: Annotated[int, annotated_types.Ge(0)] = Field(3, description="days after a request without another")
    max_retrains_per_week: Positive = Field(2, description="requests within any seven days")
    freeze: bool = Field(False, description="true: ask for nothing, whatever happens")

    @model_validator(mode="after")
    def _days_fit(self) -> Self:
        if self.days > self.of:
            raise ValueError(f"'days' is {self.days} but 'of' is {self.of}; 'days' is at most 'of'")
        return self


class Retention(Section):
    """How long `nightshift gc` leaves things where they are; what a live model was made from stays longer."""

    runs_days: Positive = Field(90, description="since a run was started")
    partitions_days: Positive = Field(30, description="since a day of a table was written, once no run names it")
    versions_days: Positive = Field(180, description="since a model version was registered")


class Config(Section):
    """One use case."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    label_delay_days: Annotated[int, annotated_types.Ge(0)] = 7
    source: Source
    columns: Columns
    quarantine: Quarantine = Quarantine()
    simulator: Simulator = Simulator()
    features: Features = Features()
    protocol: Protocol = Protocol()
    training: Training
    evaluation: Evaluation = Evaluation()
    drift: Drift = Drift()
    controller: Controller = Controller()
    retention: Retention = Retention()

    @model_validator(mode="after")
    def _windows_have_a_key(self) -> Self:
        if self.features.windows_days and not (self.columns.customer or self.columns.terminal):
            raise ValueError(
                f"features.windows_days: is {self.features.windows_days}, but windows are those of a customer or a "
                "terminal; name columns.customer or columns.terminal, or write windows_days: []"
            )
        return self


def parse(value: dict[str, Any] | str) -> Config:
    """Check a config given as a mapping or as JSON text.

    Raises:
        UserError: naming every wrong field, its value, what is allowed and the nearest valid key.
    """
    try:
        data = json.loads(value) if isinstance(value, str) else value
        return Config.model_validate(data)
    except json.JSONDecodeError as error:
        raise UserError(
            f"the config is not JSON ({error}), it begins {str(value)[:40]!r}; pass its content, not its path"
        ) from None
    except ValidationError as error:
        lines = [_explain(dict(item)) for item in error.errors()]
        raise UserError("the config is not valid:\n  " + "\n  ".join(lines)) from None


def _explain(item: dict[str, Any]) -> str:
    path = [str(part) for part in item["loc"]]
    field = ".".join(path) or "(top level)"
    if item["type"] == "extra_forbidden":
        allowed = _keys_at(path[:-1])
        return f"{field}: unknown key; allowed here: {', '.join(allowed)}{nearest(path[-1], allowed)}"
    if item["type"] == "missing":
        return f"{field}: missing, and it has no default; add it to the config"
    if item["type"] == "value_error" and not path:
        # a check across sections names the field itself, and its value is not the whole config
        return str(item["ctx"]["error"])
    return f"{field}: {item['msg']}, got {item['input']!r}"


def _keys_at(path: list[str]) -> list[str]:
    """Return the valid keys of the section at `path`; names below a mapping (a model's name) are skipped."""
    section: type[BaseModel] = Config
    for part in path:
        field = section.model_fields.get(part)
        if field is None:
            continue
        inner = field.annotation if part != "models" else Model
        section = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else section
    return sorted(section.model_fields)
