"""What every part of the config is made of."""

from enum import StrEnum
from typing import Annotated, Any

import annotated_types
from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, annotated_types.Ge(1)]
Share = Annotated[float, annotated_types.Interval(ge=0, le=1)]
Cost = Annotated[float, annotated_types.Interval(ge=0, lt=float("inf"))]


class Kind(StrEnum):
    """What a use case is about: what its events are, and what is predicted of them."""

    TABULAR = "tabular"
    IMAGES = "image-classification"
    TEXTS = "text-classification"


CLASSES = (Kind.IMAGES, Kind.TEXTS)


def only(*kinds: Kind, default: Any = None, description: str | None = None) -> Any:
    """Return a field that some tasks have; what else it is held to stands in its type.

    The schema says so under `tasks`, and in a config of another task it has to be left at its default.
    """
    return Field(default, description=description, json_schema_extra={"tasks": [kind.value for kind in kinds]})


class Section(BaseModel):
    """A part of the config: immutable, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
