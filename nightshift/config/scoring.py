"""Where the champion's scores go, beside the lake."""

from pydantic import Field, field_validator

from nightshift import databases
from nightshift.config.section import ConfigSection

UPSERTS = ("postgresql", "duckdb", "sqlite")  # databases that know `insert ... on conflict`


class ScoreTable(ConfigSection):
    """A table into which the champion's scores are written, beside the lake."""

    database: str = Field(
        description="URI without a password, which NIGHTSHIFT_DATABASE_PASSWORD holds: 'postgresql://user@host/risk'"
    )
    table: str = Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?$",
        max_length=127,
        description="its name, which may begin with a schema's: 'risk.fraud_scores'",
    )

    @field_validator("database")
    @classmethod
    def _knows_upserts(cls, uri: str) -> str:
        scheme = databases.parse_uri(uri).scheme
        if scheme not in UPSERTS:
            raise ValueError(f"scores are written to {', '.join(UPSERTS)}, not to {scheme}")
        return uri

    @property
    def scheme(self) -> str:
        """The kind of the database."""
        return databases.parse_uri(self.database).scheme
