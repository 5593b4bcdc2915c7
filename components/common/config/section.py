"""What every part of the config is made of."""

from typing import Annotated

import annotated_types
from pydantic import BaseModel, ConfigDict

Positive = Annotated[int, annotated_types.Ge(1)]
Share = Annotated[float, annotated_types.Interval(ge=0, le=1)]
Cost = Annotated[float, annotated_types.Interval(ge=0, lt=float("inf"))]


class Section(BaseModel):
    """A part of the config: immutable, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
