"""The model registry: a local folder (`folder.py`), or an MLflow tracking server behind http(s):// (`tracking.py`).

A version is a copy of a model's files, so it outlives its run. The alias `champion` marks the live version for people
and other tools; the release record decides which one that is (see `release.py`). All functions raise
`UnavailableError` when the server does not answer.
"""

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from nightshift.contracts import package
from nightshift.contracts.release_record import Release
from nightshift.registry.folder import FolderRegistry
from nightshift.registry.tracking import TrackingServer
from nightshift.registry.version import CARD, CHAMPION, PARENT_RUN, NewVersion, Version, audit
from nightshift.runtime.errors import UserError, nearest
from nightshift.runtime.lineage import user

TRACKING = "MLFLOW_TRACKING_URI"  # MLflow's own variable

__all__ = ["CARD", "CHAMPION", "PARENT_RUN", "Registry", "Version", "user"]


class Registry(Protocol):
    """The interface of every registry; see the functions of this module for errors."""

    def names(self) -> list[str]:
        """Return the names of all registered models, sorted."""

    def versions(self, name: str) -> list[Version]:
        """Return all versions of a model, oldest first; empty for an unknown model."""

    def find(self, name: str, number: int) -> Version:
        """Return a version with readable files at its `uri`."""

    def read_card(self, version: Version) -> str:
        """Return the model card of a version, Markdown; empty where none was registered."""

    def alias(self, name: str) -> int | None:
        """Return the number of the version with the alias `champion`; None without one."""

    def set_alias(self, name: str, number: int) -> None:
        """Give a version the alias `champion`."""

    def add(self, new: NewVersion) -> int:
        """Copy a model's files into a new version and return its number."""


def is_remote(registry: str) -> bool:
    """Return whether a registry is a tracking server; otherwise it is a folder.

    Raises:
        UserError: when it is neither.
    """
    scheme = registry.split("://", 1)[0] if "://" in registry else ""
    if scheme not in ("", "http", "https"):
        raise UserError(f"registry is {registry!r}; give a local folder or the http(s):// URL of a tracking server")
    return bool(scheme)


def find_tracking_server(registry: str, variables: Mapping[str, str] = os.environ) -> str:
    """Return the URL of the MLflow server that shows nights: the registry, or one beside a folder; empty for none."""
    default = variables.get(TRACKING, "")
    if is_remote(registry):
        return registry
    return default if default.startswith(("http://", "https://")) else ""


def names(registry: str) -> list[str]:
    """Return the names of all registered models."""
    return _open(registry).names()


def require_names(registry: str) -> list[str]:
    """Return the names of the registered models, at least one.

    Raises:
        UserError: when no model is registered.
    """
    models = names(registry)
    if not models:
        raise UserError(f"registry {registry} holds no model yet; `nightshift run` registers one")
    return models


def choose_name(registry: str, name: str | None) -> str:
    """Return the name of a registered model; without a name, that of the only model.

    Raises:
        UserError: when there is no such model, or several and no name.
    """
    known = require_names(registry)
    if name is None and len(known) == 1:
        return known[0]
    if name not in known:
        raise UserError(f"use case is {name!r}; registered models: {', '.join(known)}{nearest(name or '', known)}")
    return str(name)


def versions(registry: str, name: str) -> list[Version]:
    """Return all versions of a model, oldest first; empty for an unknown model."""
    return _open(registry).versions(name)


def alias(registry: str, name: str) -> int | None:
    """Return the number of the version with the alias `champion`; None without one."""
    return _open(registry).alias(name)


def set_alias(registry: str, name: str, version: int) -> None:
    """Give a version the alias `champion`."""
    _open(registry).set_alias(name, version)


def tag_live(registry: str, name: str, record: Release) -> None:
    """Have a tracking server say when versions were live; beside a folder the record alone does."""
    if is_remote(registry):
        TrackingServer(registry).tag_live(name, record)


def find(registry: str, name: str, version: int) -> Version:
    """Return a version with readable files at its `uri`.

    Raises:
        UserError: when there is no such version; the message lists the existing ones.
    """
    return _open(registry).find(name, version)


def read_card(registry: str, version: Version) -> str:
    """Return the model card of a version, Markdown; empty where none was registered."""
    return _open(registry).read_card(version)


def register(
    registry: str,
    name: str,
    model_uri: str,
    tags: dict[str, str],
    metrics: Mapping[str, float] = MappingProxyType({}),
    card: str = "",
) -> Version:
    """Copy a model's files into the registry as a new version; a registered model keeps its version.

    Args:
        registry: folder or URL.
        name: name of the model; created when it is new.
        model_uri: folder of the model, see `package.save`.
        tags: lineage of this version.
        metrics: metrics of the version.
        card: the model card, Markdown; stored beside the files as `model_card.md`.

    Returns:
        the version, with readable files at its `uri`.

    Raises:
        UserError: when a file of the model is missing or differs from its manifest.
    """
    model, target = package.load(model_uri), _open(registry)
    with lock(registry):
        existing = next((version for version in target.versions(name) if version.sha256 == model.sha256), None)
        new = NewVersion(name, model_uri, model, tags | audit("registered"), metrics, card)
        return target.find(name, existing.version if existing else target.add(new))


def remove(registry: str, name: str, numbers: Iterable[int]) -> None:
    """Remove versions and their files from a local registry; their records stay, with the user of the removal.

    An interrupted removal leaves whole versions, and files for the next removal (see `leftovers`).

    Raises:
        UserError: when there is no such version, or permission is missing.
    """
    with lock(registry):
        FolderRegistry(root(registry)).remove(name, numbers)


def leftovers(registry: str, name: str) -> list[str]:
    """Return the version folders of interrupted removals from a local registry."""
    return FolderRegistry(root(registry)).leftovers(name)


def lock(registry: str) -> AbstractContextManager[object]:
    """Lock out this machine's other writers of a local registry; calls may be nested.

    Raises:
        UserError: on entering, when another process holds the lock too long or the folder is not writable.
    """
    return nullcontext() if is_remote(registry) else FolderRegistry(root(registry)).lock()


def read_holder(registry: str) -> str | None:
    """Return a text that is new each time a writer locks a local registry; None while nobody does."""
    return FolderRegistry(root(registry)).read_holder()


def root(registry: str) -> str:
    """Return the canonical path of a local registry."""
    return str(Path(registry).resolve())


def _open(registry: str) -> Registry:
    return TrackingServer(registry) if is_remote(registry) else FolderRegistry(root(registry))
