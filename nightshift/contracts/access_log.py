"""The access log: which persons' files were opened, by whom and what for."""

from datetime import datetime

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part


class OpenedFile(Part):
    """A file about a person."""

    subject: str = Field(description="pseudonym of the person whom it is about")
    sha256: str = Field(description="hash of its bytes")


class AccessRecord(Artifact):
    """Files that were opened together."""

    use_case: str = Field(description="name in the config")
    at: datetime = Field(description="when, UTC")
    by: str = Field(description="user of the process that opened them")
    purpose: str = Field(description="what for, such as `ingestion of 2026-11-30`")
    files: list[OpenedFile] = Field(description="what was opened")


class AccessList(Artifact):
    """Who has opened the files of a person."""

    subject: str = Field(description="pseudonym of the person")
    records: list[AccessRecord] = Field(description="with no one else's files, oldest first")
