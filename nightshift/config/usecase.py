"""One use case: the generic sections; a task's own config adds to them, or replaces some."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, get_args

from pydantic import Field, ValidationError, model_validator

from nightshift import kinds
from nightshift.config.columns import Columns, LabeledColumns
from nightshift.config.notify import Notify
from nightshift.config.policy import (
    Controller,
    Costs,
    DriftLimits,
    EvaluationGate,
    Protocol,
    Quarantine,
    Retention,
    Rollout,
    ServedGraph,
)
from nightshift.config.schedule import Schedule
from nightshift.config.scoring import Scoring
from nightshift.config.section import ConfigSection, DaysOrNone, NoDays
from nightshift.config.source import Simulator, Source
from nightshift.config.task import TaskConfig
from nightshift.runtime import strict_json
from nightshift.runtime.errors import UserError, nearest

SHOWN = 200  # characters of a wrong value


class Config(ConfigSection):
    """One use case; each task has a class of its own, which `nightshift/kinds.py` names.

    Attributes:
        EXPLAINS: whether scores of the task have reasons.
        REMEDIES: rule of ingestion -> what to change in the config where the rows that it rejects are right.
    """

    EXPLAINS: ClassVar[bool] = False
    REMEDIES: ClassVar[Mapping[str, str]] = {
        "duplicate_id_of_earlier_day": "set source.corrections if later rows correct earlier ones",
        "outside_day": "give one table as source.table, whose days are those of UTC",
    }

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=63)
    schedule: Schedule = Schedule()
    label_delay_days: NoDays = 0
    source: Source
    columns: Columns
    quarantine: Quarantine = Quarantine()
    simulator: Simulator = Simulator()
    protocol: Protocol = Protocol()
    task: TaskConfig
    evaluation: EvaluationGate = EvaluationGate()
    optimization: ServedGraph = ServedGraph()
    drift: DriftLimits = DriftLimits()
    controller: Controller = Controller()
    scoring: Scoring = Scoring()
    release: Rollout = Rollout()
    retention: Retention = Retention()
    costs: Costs = Costs()
    notify: Notify = Notify()

    @model_validator(mode="after")
    def _has_reasons(self) -> Self:
        if self.scoring.reasons and not self.EXPLAINS:
            raise ValueError(
                f"scoring.reasons: is {self.scoring.reasons}, and scores of task {self.task.kind} have no reasons; "
                "leave it out"
            )
        return self

    @property
    def nullable(self) -> list[str]:
        """The columns whose numbers may be missing: none, unless a task allows it."""
        return []

    @property
    def longest_window_days(self) -> int:
        """How far back the features of an event reach: not at all, unless a task makes them of earlier ones."""
        return 0

    @property
    def least_amount(self) -> float:
        """The least that an amount may be: nothing, unless a task allows less."""
        return 0.0


class LabeledConfig(Config):
    """A use case of a task whose rows have labels, which arrive later than the rows."""

    label_delay_days: DaysOrNone = 7
    columns: LabeledColumns


def parse(value: dict[str, Any] | str) -> Config:
    """Check a config given as a mapping or as JSON text.

    Returns:
        an instance of its task's class.

    Raises:
        UserError: naming every wrong field, its value, what is allowed and the nearest valid key.
    """
    config = strict_json.loads(value, "the config") if isinstance(value, str) else value
    section = _section_of(config)
    try:
        return section.parse_value(config)
    except ValidationError as error:
        lines = [_explain(section, dict(item)) for item in error.errors()]
        raise UserError("the config is not valid:\n  " + "\n  ".join(lines)) from None


def _section_of(config: Any) -> type[Config]:
    """Return the class that a config of its task has."""
    match config:
        case {"task": {"kind": kind}}:
            section: type[Config] = kinds.find(str(kind)).config_class
            return section
        case {}:
            raise UserError(f"task.kind: missing; give one of {', '.join(kinds.load_kinds())}")
    return Config


def _explain(section: type[Config], item: dict[str, Any]) -> str:
    path = [str(part) for part in item["loc"]]
    field = ".".join(path) or "(top level)"
    if item["type"] == "extra_forbidden":
        return f"{field}: {_explain_unknown(section, path)}"
    if item["type"] == "missing":
        return f"{field}: missing, and it has no default; add it to the config"
    if item["type"] == "value_error" and not path:
        # a check across sections names the field itself, and its value is not the whole config
        return str(item["ctx"]["error"])
    if isinstance(error := item.get("ctx", {}).get("error"), UserError):  # which shows as much of the value as it may
        return f"{field}: {error}"
    return f"{field}: {item['msg'].removeprefix('Value error, ')}, got {_shorten(item['input'])}"


def _explain_unknown(section: type[Config], path: list[str]) -> str:
    """Return why there is no key at a path: other tasks have it, or none has."""
    *parents, key = path
    others = [name for name, kind in kinds.load_kinds().items() if key in _keys_at(kind.config_class, parents)]
    if others:
        return f"a key of task {', '.join(others)} only; leave it out"
    allowed = _keys_at(section, parents)
    return f"unknown key; allowed here: {', '.join(allowed)}{nearest(key, allowed)}"


def _keys_at(section: type[ConfigSection], path: list[str]) -> list[str]:
    """Return the valid keys of the section at `path`; names below a mapping (a candidate's name) are skipped."""
    for part in path:
        if field := section.model_fields.get(part):
            section = next(_sections(field.annotation), section)
    return sorted(section.model_fields)


def _sections(annotation: Any) -> Iterator[type[ConfigSection]]:
    """Yield the sections that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, ConfigSection):
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
