"""What every JSON artifact has in common: a version of its schema, no unknown fields, one line when a file is wrong."""

from datetime import date
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nightshift import storage
from nightshift.runtime.errors import UserError

NEXT = "run the step that writes it again"
RESTORE = "restore it from a backup"


class Part(BaseModel):
    """A part of an artifact: immutable, no fields but these, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, serialize_by_alias=True)


class Artifact(Part):
    """A JSON file that one step writes and others read."""

    schema_: Literal[1] = Field(1, alias="schema", description="version of this schema")

    @classmethod
    def read(cls, uri: str) -> Self:
        """Read a file.

        Raises:
            UserError: when it is missing or not of this schema; one line names the file, the field and the next step.
        """
        return cls.parse(storage.read_json(uri), uri)

    @classmethod
    def parse(cls, value: Any, uri: str) -> Self:
        """Check the JSON value that a file holds; see `read`."""
        if not isinstance(value, dict) or "schema" not in value:
            raise UserError(f"{uri} is no {cls.__name__} of this version (no 'schema'); {NEXT}")
        computed = cls.model_computed_fields.keys()
        try:
            artifact = cls.model_validate({name: part for name, part in value.items() if name not in computed})
        except ValidationError as error:
            raise UserError(f"{uri} is no {cls.__name__} of this version: {_first(error)}; {NEXT}") from None
        for name in computed:
            if value.get(name) != getattr(artifact, name):
                raise UserError(f"{uri}: {name} is {_show(value.get(name))}, which the rest does not give; {NEXT}")
        return artifact

    @classmethod
    def parse_record(cls, content: bytes, uri: str) -> Self:
        """Check the bytes of a record, which no step can write again.

        Raises:
            UserError: when they are not of this schema; one line names the file, the field and the next step.
        """
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            raise UserError(f"{uri} is no {cls.__name__} of this version: {_first(error)}; {RESTORE}") from None

    def write(self, uri: str) -> None:
        """Write the file, atomically."""
        storage.write_json(uri, self.model_dump(mode="json"))


class Window(Part):
    """Closed range of UTC days."""

    first: date = Field(description="first day")
    last: date = Field(description="last day, inclusive")
    rows: int = Field(description="rows of these days")


class FoldWindow(Window):
    """Closed range of UTC days by which a model is fitted, chosen or judged."""

    open_days: int = Field(description="days among them that have rows: what counts per day is divided by these")
    positives: int | None = Field(None, description="positives among the rows; null where none are counted")


def _first(error: ValidationError) -> str:
    detail = error.errors(include_url=False, include_context=False)[0]
    field = ".".join(str(part) for part in detail["loc"])
    value = "" if detail["type"] == "missing" else f" is {_show(detail['input'])}"
    return f"{field}{value} ({detail['msg']})"


def _show(value: object) -> str:
    try:
        text = repr(value)
    except RecursionError:
        text = "nested too deeply"
    return text if len(text) <= 80 else f"{text[:80]}..."
