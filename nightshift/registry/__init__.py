"""The model registry: a local folder (`folder.py`), or an MLflow tracking server behind http(s):// (`tracking.py`).

A version is a copy of a model's files, so it outlives the run that made it. The alias `champion` marks the live
version for people and other tools; which one that is stands in the release record (see `release.py`). Whatever asks a
server that does not answer raises `UnavailableError`.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from nightshift.contracts import package
from nightshift.errors import UserError, nearest
from nightshift.registry.folder import FolderRegistry
from nightshift.registry.tracking import TrackingServer
from nightshift.registry.version import CARD, CHAMPION, NewVersion, Version, audit, user

__all__ = ["CARD", "CHAMPION", "Registry", "Version", "user"]


class Registry(Protocol):
    """What every registry does; the functions of this module say what for, and what they raise."""

    def names(self) -> list[str]:
        """Return the names of all registered models, sorted."""

    def versions(self, name: str) -> list[Version]:
        """Return all versions of a model, oldest first; none when the model is not known."""

    def find(self, name: str, number: int) -> Version:
        """Return one version with files that can be read at its `uri`."""

    def alias(self, name: str) -> int | None:
        """Return the number of the version with the alias `champion`, None when there is none."""

    def set_alias(self, name: str, number: int) -> None:
        """Give a version the alias `champion`."""

    def add(self, new: NewVersion) -> int:
        """Copy a model's files into a new version and return its number."""


def is_remote(registry: str) -> bool:
    """Return whether a registry is a tracking server and not a folder.

    Raises:
        UserError: when it is neither.
    """
    scheme = registry.split("://", 1)[0] if "://" in registry else ""
    if scheme not in ("", "http", "https"):
        raise UserError(f"registry is {registry!r}; give a local folder or the http(s):// URL of a tracking server")
    return bool(scheme)


def names(registry: str) -> list[str]:
    """Return the names of all registered models."""
    return _open(registry).names()


def existing(registry: str) -> list[str]:
    """Return the names of the registered models.

    Raises:
        UserError: when nothing is registered.
    """
    known = names(registry)
    if not known:
        raise UserError(f"registry {registry} holds no model yet; `nightshift run` registers one")
    return known


def one(registry: str, name: str | None) -> str:
    """Return the registered model of a name; the only one where it is left out.

    Raises:
        UserError: when there is no such model, or none is named where there are several.
    """
    known = existing(registry)
    if name is None and len(known) == 1:
        return known[0]
    if name not in known:
        raise UserError(f"--name is {name!r}; registered models: {', '.join(known)}{nearest(name or '', known)}")
    return str(name)


def versions(registry: str, name: str) -> list[Version]:
    """Return all versions of a model, oldest first; none when the model is not known."""
    return _open(registry).versions(name)


def alias(registry: str, name: str) -> int | None:
    """Return the number of the version with the alias `champion`, None when there is none."""
    return _open(registry).alias(name)


def set_alias(registry: str, name: str, version: int) -> None:
    """Give a version the alias `champion`."""
    _open(registry).set_alias(name, version)


def find(registry: str, name: str, version: int) -> Version:
    """Return one version with files that can be read at its `uri`.

    Raises:
        UserError: when there is no such version; the message lists what exists.
    """
    return _open(registry).find(name, version)


def register(
    registry: str,
    name: str,
    model_uri: str,
    tags: dict[str, str],
    metrics: Mapping[str, float] = MappingProxyType({}),
    card: str = "",
) -> Version:
    """Copy a model's files into the registry as a new version; the same model again is the version it was.

    Args:
        registry: folder or URL.
        name: the registered model; made when it is new.
        model_uri: folder of the model, see `package.save`.
        tags: lineage of this version.
        metrics: kept with the version.
        card: the model card, Markdown; kept beside the files as `model_card.md`.

    Returns:
        the version, with files that can be read at its `uri`.

    Raises:
        UserError: when a file of the model is missing or not the one its manifest names.
    """
    model, opened = package.load(model_uri), _open(registry)
    with exclusive(registry):
        known = next((version for version in opened.versions(name) if version.sha256 == model.sha256), None)
        new = NewVersion(name, model_uri, model, tags | audit("registered"), metrics, card)
        return opened.find(name, known.version if known else opened.add(new))


def remove(registry: str, name: str, numbers: Iterable[int]) -> None:
    """Remove versions and their files from a local registry; who removed them stays written down.

    A removal that ended in between leaves whole versions, and files that the next one removes (see `leftovers`).

    Raises:
        UserError: when there is no such version, or its files may not be removed.
    """
    with exclusive(registry):
        FolderRegistry(root(registry)).remove(name, numbers)


def leftovers(registry: str, name: str) -> list[str]:
    """Return the folders of versions whose removal from a local registry was cut short."""
    return FolderRegistry(root(registry)).leftovers(name)


def exclusive(registry: str) -> AbstractContextManager[object]:
    """Keep other writers of this machine out of a local registry; calls may be nested.

    Raises:
        UserError: on entering, when somebody else keeps it for too long or the folder is not writable.
    """
    return nullcontext() if is_remote(registry) else FolderRegistry(root(registry)).exclusive()


def root(registry: str) -> str:
    """Return the one absolute path of a local registry."""
    return str(Path(registry).resolve())


def _open(registry: str) -> Registry:
    return TrackingServer(registry) if is_remote(registry) else FolderRegistry(root(registry))
