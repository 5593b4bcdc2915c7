"""A version of a model, as every registry takes and returns it."""

import getpass
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from nightshift.contracts.package import ModelPackage
from nightshift.errors import UserError

CHAMPION = "champion"  # alias of the live version
MODEL = "model"  # folder of a version's files
CARD = "model_card.md"


@dataclass(frozen=True)
class Version:
    """A registered version of a model.

    Attributes:
        name: the registered model, which is the use case.
        version: its number, from 1.
        uri: folder of its files (see `package.py`) inside the registry.
        sha256: identity of the model, `ModelPackage.sha256`.
        tags: lineage, and who registered it and when.
        source: what the registry calls the folder, where `uri` is a copy that was downloaded from it; else empty.
    """

    name: str
    version: int
    uri: str
    sha256: str
    tags: dict[str, str]
    source: str = ""


@dataclass(frozen=True)
class NewVersion:
    """A version to be made.

    Attributes:
        name: the registered model.
        uri: folder of its files, see `package.save`.
        package: their manifest.
        tags: lineage, and who registers it and when.
        metrics: what the gates have measured.
        card: the model card, Markdown; empty where there is none.
    """

    name: str
    uri: str
    package: ModelPackage
    tags: dict[str, str]
    metrics: Mapping[str, float]
    card: str


def pick(versions: Sequence[Version], name: str, number: int) -> Version:
    """Return the version of a number.

    Raises:
        UserError: when there is none; the message lists what exists.
    """
    for version in versions:
        if version.version == number:
            return version
    existing = ", ".join(str(version.version) for version in versions) or "none"
    raise UserError(f"model {name!r} has no version {number}; existing versions: {existing}")


def audit(action: str) -> dict[str, str]:
    """Return the tags that say when something was done to a version, and by whom."""
    return {f"{action}_at": datetime.now(UTC).isoformat(timespec="seconds"), f"{action}_by": user()}


def user() -> str:
    """Return who this process runs as."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"uid {os.getuid()}"
