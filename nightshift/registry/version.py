"""A version of a model in a registry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from nightshift.contracts.package import ModelPackage
from nightshift.runtime.errors import UserError
from nightshift.runtime.lineage import user

CHAMPION = "champion"  # alias of the live version
MODEL = "model"  # folder of a version's files
CARD = "model_card.md"
PARENT_RUN = "parent_run"  # tag with the id of the run that made a version


@dataclass(frozen=True)
class Version:
    """A registered version of a model.

    Attributes:
        name: name of the registered model: the use case.
        version: number of the version, from 1.
        uri: folder of its files (see `package.py`) inside the registry.
        sha256: identity of the model, `ModelPackage.sha256`.
        tags: lineage, user and time of the registration.
        source: the registry's URI of the folder, if `uri` is a downloaded copy; else empty.
    """

    name: str
    version: int
    uri: str
    sha256: str
    tags: dict[str, str]
    source: str = ""


@dataclass(frozen=True)
class NewVersion:
    """A version to register.

    Attributes:
        name: the registered model.
        uri: folder of its files, see `package.save`.
        package: their manifest.
        tags: lineage, user and time of the registration.
        metrics: metrics of the gates.
        card: the model card, Markdown; may be empty.
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
        UserError: when there is none; the message lists the existing versions.
    """
    for version in versions:
        if version.version == number:
            return version
    existing = ", ".join(str(version.version) for version in versions) or "none"
    raise UserError(f"model {name!r} has no version {number}; existing versions: {existing}")


def audit(action: str) -> dict[str, str]:
    """Return the tags with the time and the user of an action."""
    return {f"{action}_at": datetime.now(UTC).isoformat(timespec="seconds"), f"{action}_by": user()}
