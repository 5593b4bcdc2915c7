"""One use case: the generic sections and, by its kind, the task."""

import json
from typing import Annotated, Any, Self

import annotated_types
from pydantic import BaseModel, Field, ValidationError, model_validator

from components.common.config.policy import (
    Controller,
    Costs,
    Drift,
    Evaluation,
    Protocol,
    Quarantine,
    Retention,
    Rollout,
)
from components.common.config.schedule import Schedule
from components.common.config.section import Section
from components.common.config.source import Columns, Simulator, Source
from components.common.config.tabular import Candidate, Tabular
from components.common.errors import UserError, nearest


class Config(Section):
    """One use case."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    schedule: Schedule = Schedule()
    label_delay_days: Annotated[int, annotated_types.Ge(0)] = 7
    source: Source
    columns: Columns
    quarantine: Quarantine = Quarantine()
    simulator: Simulator = Simulator()
    protocol: Protocol = Protocol()
    task: Tabular
    evaluation: Evaluation = Evaluation()
    drift: Drift = Drift()
    controller: Controller = Controller()
    release: Rollout = Rollout()
    retention: Retention = Retention()
    costs: Costs = Costs()

    @model_validator(mode="after")
    def _windows_have_a_key(self) -> Self:
        if self.task.windows_days and not (self.columns.customer or self.columns.terminal):
            raise ValueError(
                f"task.windows_days: is {self.task.windows_days}, but windows are counted by customer or "
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
    return f"{field}: {item['msg'].removeprefix('Value error, ')}, got {item['input']!r}"


def _keys_at(path: list[str]) -> list[str]:
    """Return the valid keys of the section at `path`; names below a mapping (a candidate's name) are skipped."""
    section: type[BaseModel] = Config
    for part in path:
        field = section.model_fields.get(part)
        if field is None:
            continue
        inner = field.annotation if part != "candidates" else Candidate
        section = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else section
    return sorted(section.model_fields)
