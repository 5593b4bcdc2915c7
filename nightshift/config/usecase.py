"""One use case: the generic sections and, by its kind, the task."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Self, Union, get_args

from pydantic import Field, ValidationError, model_validator

from nightshift import kinds, strict_json
from nightshift.config.classes import Images, Texts
from nightshift.config.policy import (
    Controller,
    Costs,
    Drift,
    Evaluation,
    Limits,
    Protocol,
    Quarantine,
    Retention,
    Rollout,
    ServedGraph,
)
from nightshift.config.schedule import Schedule
from nightshift.config.section import DaysOrNone, Kind, Section
from nightshift.config.source import Columns, Simulator, Source
from nightshift.config.tabular import Tabular
from nightshift.errors import UserError, nearest

if TYPE_CHECKING:
    AnyTask = Tabular | Images | Texts
else:
    AnyTask = Union[tuple(kinds.sections())]  # noqa: UP007 of as many as are installed

EXACT = 2**53  # up to which float64 has every whole number
LARGEST_UNITS = 10**13  # of an amount, in the currency's smallest unit: 900,000 of them add up in int64


class Config(Section):
    """One use case."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=63)
    schedule: Schedule = Schedule()
    label_delay_days: DaysOrNone = 7
    source: Source
    columns: Columns
    quarantine: Quarantine = Quarantine()
    limits: Limits = Limits()
    simulator: Simulator = Simulator()
    protocol: Protocol = Protocol()
    task: Annotated[AnyTask, Field(discriminator="kind")]
    evaluation: Evaluation = Evaluation()
    optimization: ServedGraph = ServedGraph()
    drift: Drift = Drift()
    controller: Controller = Controller()
    release: Rollout = Rollout()
    retention: Retention = Retention()
    costs: Costs = Costs()

    @model_validator(mode="after")
    def _windows_have_a_key(self) -> Self:
        days = self.task.windows_days if isinstance(self.task, Tabular) else []
        if days and not (self.columns.customer or self.columns.terminal):
            raise ValueError(
                f"task.windows_days: is {days}, but windows are counted by customer or "
                "terminal; name columns.customer or columns.terminal, or write windows_days: []"
            )
        return self

    @model_validator(mode="after")
    def _fields_are_the_tasks(self) -> Self:
        kind = self.task.kind
        for name in ("columns", "limits", "simulator", "protocol", "evaluation", "drift"):
            for field, value in _of_other_tasks(getattr(self, name), kind):
                raise ValueError(f"{name}.{field}: is {value!r}, which task {kind} does not have; leave it out")
        role = CONTENT.get(kind)
        if role and not getattr(self.columns, role):
            raise ValueError(f"columns.{role}: missing, and task {kind} needs it; name the column")
        return self

    @model_validator(mode="after")
    def _amounts_are_exact(self) -> Self:
        largest, decimals = self.limits.largest_amount, self._amount_decimals
        if largest and largest * 10**decimals > EXACT:
            raise ValueError(
                f"limits.largest_amount: is {largest:,.16g}, and with task.amount_decimals {decimals} amounts "
                f"are exact up to {EXACT / 10**decimals:,.16g}; lower one of them"
            )
        return self

    @property
    def largest_amount(self) -> float:
        """The largest amount of an event."""
        return self.limits.largest_amount or LARGEST_UNITS / 10**self._amount_decimals

    @property
    def _amount_decimals(self) -> int:
        return getattr(self.task, "amount_decimals", 0)

    @property
    def tabular(self) -> Tabular:
        """The task of a use case whose events are rows of a table.

        Raises:
            UserError: when it is another one, which whoever asks cannot do yet.
        """
        if not isinstance(self.task, Tabular):
            raise UserError(f"task.kind is {str(self.task.kind)!r}, which this cannot do yet; it can do 'tabular' only")
        return self.task

    @property
    def classes(self) -> Images | Texts:
        """The task of a use case that tells classes of images or texts apart.

        Raises:
            UserError: when it is another one.
        """
        if not isinstance(self.task, Images | Texts):
            raise UserError(f"task.kind is {str(self.task.kind)!r}, and this is for classes of images and texts only")
        return self.task


SHOWN = 200  # characters of a wrong value
# what the events of a task hold
CONTENT = {Kind.IMAGES: "image", Kind.TEXTS: "text"}


def _of_other_tasks(section: Section, kind: Kind) -> Iterator[tuple[str, Any]]:
    """Yield the fields that a task does not have and a config gives all the same, with their values.

    A task of another package may have use for any of them.
    """
    if kind not in list(Kind):
        return
    for name, field in type(section).model_fields.items():
        extra, value = field.json_schema_extra, getattr(section, name)
        tasks = extra.get("tasks") if isinstance(extra, dict) else None
        if isinstance(tasks, list) and kind not in tasks and value != field.get_default():
            yield name, value


def parse(value: dict[str, Any] | str) -> Config:
    """Check a config given as a mapping or as JSON text.

    Raises:
        UserError: naming every wrong field, its value, what is allowed and the nearest valid key.
    """
    try:
        return Config.checked(strict_json.loads(value, "the config") if isinstance(value, str) else value)
    except ValidationError as error:
        lines = [_explain(dict(item)) for item in error.errors()]
        raise UserError("the config is not valid:\n  " + "\n  ".join(lines)) from None


def _explain(item: dict[str, Any]) -> str:
    given = [str(part) for part in item["loc"]]
    # by which of the tasks it was checked, no config says there
    path = [part for place, part in enumerate(given) if given[:place] != ["task"]]
    field = ".".join(path) or "(top level)"
    if item["type"] == "extra_forbidden":
        allowed = _keys_at(given[:-1])
        return f"{field}: unknown key; allowed here: {', '.join(allowed)}{nearest(path[-1], allowed)}"
    if item["type"] in ("union_tag_invalid", "union_tag_not_found"):
        return f"{field}.kind: is {item['input'].get('kind')!r}; allowed: {', '.join(kinds.registered())}"
    if item["type"] == "missing":
        return f"{field}: missing, and it has no default; add it to the config"
    if item["type"] == "value_error" and not path:
        # a check across sections names the field itself, and its value is not the whole config
        return str(item["ctx"]["error"])
    return f"{field}: {item['msg'].removeprefix('Value error, ')}, got {_shortened(item['input'])}"


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _keys_at(path: list[str]) -> list[str]:
    """Return the valid keys of the section at `path`; names below a mapping (a candidate's name) are skipped."""
    section: type[Section] = Config
    within = [section]
    for part in path:
        if part in kinds.registered():
            section = next(each for each in within if part in get_args(each.model_fields["kind"].annotation))
        elif field := section.model_fields.get(part):
            within = list(_sections(field.annotation)) or within
            section = within[0]
    return sorted(section.model_fields)


def _sections(annotation: Any) -> Iterator[type[Section]]:
    """Yield the sections that a field may hold."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for part in get_args(annotation):
        yield from _sections(part)
