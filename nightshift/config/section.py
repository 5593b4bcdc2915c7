"""What every part of the config is made of."""

import json
import math
from collections.abc import Mapping
from typing import Annotated, Any, Self, TypeVar
from zoneinfo import ZoneInfo

import annotated_types
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError

from nightshift.runtime.errors import UserError, check_names

LARGEST = 2**31 - 1  # integer that every library takes

# every number has an upper bound, below which dates and memory hold what is computed with it
Positive = Annotated[int, annotated_types.Interval(ge=1, le=1_000_000_000)]
Days = Annotated[int, annotated_types.Interval(ge=1, le=3650)]
DaysOrNone = Annotated[int, annotated_types.Interval(ge=0, le=3650)]
NoDays = Annotated[int, annotated_types.Interval(ge=0, le=0)]
Threads = Annotated[int, annotated_types.Interval(ge=1, le=1024)]
Processes = Annotated[int, annotated_types.Interval(ge=1, le=65_536)]
BatchSize = Annotated[int, annotated_types.Interval(ge=1, le=1_048_576)]
MOST_EPOCHS = 100_000  # which nobody waits for
Epochs = Annotated[int, annotated_types.Interval(ge=1, le=MOST_EPOCHS)]
Width = Annotated[int, annotated_types.Interval(ge=1, le=65_536)]
Layers = Annotated[int, annotated_types.Interval(ge=1, le=1000)]
Seed = Annotated[int, annotated_types.Interval(ge=0, le=LARGEST)]
Share = Annotated[float, annotated_types.Interval(ge=0, le=1)]
Cost = Annotated[float, annotated_types.Interval(ge=0, le=1e9)]
Factor = Annotated[float, annotated_types.Interval(gt=0, le=1000)]


def _checked_parameter(value: Any) -> Any:
    is_number = isinstance(value, int | float) and math.isfinite(value) and abs(value) <= LARGEST
    if not (is_number or isinstance(value, str)):
        raise ValueError(f"takes a number from -{LARGEST} to {LARGEST}, text, true or false")
    return value


def _checked_choice(value: Any) -> Any:
    """Refuse what Python takes for an integer: true for 1, 1.0 for 1."""
    if type(value) is not int:
        raise ValueError("takes an integer")
    return value


def _checked_zone(name: str) -> str:
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError):
        raise ValueError("not a time zone; give an IANA name, such as 'Europe/Paris'") from None


TimeZone = Annotated[str, AfterValidator(_checked_zone)]
# passed on to a library, which checks its meaning and range
Parameter = Annotated[bool | int | float | str, BeforeValidator(_checked_parameter)]
INTEGER = BeforeValidator(_checked_choice)  # beside a Literal of integers


class ConfigSection(BaseModel):
    """A part of the config: immutable, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def parse_value(cls, value: Any) -> Self:
        """Check a value of JSON's types by JSON's rules: true is no number, 1 no text, "1" no number, 30.0 no integer.

        Raises:
            pydantic.ValidationError: naming every wrong field.
        """
        return cls.model_validate_json(json.dumps(value), strict=True)


S = TypeVar("S", bound=ConfigSection)


def check_parameters(kind: type[S], field: str, values: Mapping[str, Any]) -> S:
    """Check a candidate's parameters.

    Args:
        kind: what they are of.
        field: where they stand in the config, for the message.
        values: name -> value.

    Raises:
        UserError: on an unknown name or a wrong value.
    """
    check_names(field, values, kind.model_fields)
    try:
        return kind.parse_value(values)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise UserError(
            f"{field}.{wrong['loc'][0]}: {wrong['msg'].removeprefix('Value error, ')}, got {wrong['input']!r}"
        ) from None
