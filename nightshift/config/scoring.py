"""How many events scoring may flag, and where the champion's scores go beside the lake."""

from typing import Annotated, Self

import annotated_types
from pydantic import Field, field_validator, model_validator

from nightshift.config.policy import Effect
from nightshift.config.section import ConfigSection
from nightshift.data import databases

MOST_REASONS = 20
UPSERTS = ("postgresql", "duckdb", "sqlite")  # databases that know `insert ... on conflict`


class Scoring(ConfigSection):
    """How many events may be flagged, and the table into which the champion's scores are written, if any."""

    max_flagged: Effect = Field(
        4.0, description="times the usual share of events that a day's scoring may flag before monitoring reports it"
    )
    reasons: Annotated[int, annotated_types.Interval(ge=0, le=MOST_REASONS)] = Field(
        0, description="inputs that moved each score most, written beside it; 0: none"
    )
    database: str | None = Field(
        None,
        description="URI without a password, which NIGHTSHIFT_DATABASE_PASSWORD holds: 'postgresql://user@host/risk'",
    )
    table: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$",
        max_length=127,
        description="of the database; its name may begin with a schema's: 'risk.fraud_scores'",
    )

    @field_validator("database")
    @classmethod
    def _knows_upserts(cls, uri: str | None) -> str | None:
        if uri and (scheme := databases.parse_uri(uri).scheme) not in UPSERTS:
            raise ValueError(f"scores are written to {', '.join(UPSERTS)}, not to {scheme}")
        return uri

    @model_validator(mode="after")
    def _names_both_or_neither(self) -> Self:
        if bool(self.database) != bool(self.table):
            present, missing = ("database", "table") if self.database else ("table", "database")
            raise ValueError(f"scoring.{present} is set without scoring.{missing}; set both, or neither")
        return self
