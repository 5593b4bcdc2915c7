"""Manage registered models by hand: list, promote, roll back, stop the endpoint. `nightshift` calls these functions."""

from typing import TYPE_CHECKING

from nightshift import registry, release
from nightshift.contracts.release import Release
from nightshift.contracts.state import State
from nightshift.errors import UserError
from nightshift.local import endpoint, examples
from nightshift.registry import Version

if TYPE_CHECKING:
    from rich.table import Table


def models(state: State, name: str | None = None) -> None:
    """Print the versions of one model, or of all.

    Args:
        state: where the registry and its release records are.
        name: the registered model, which is the use case.

    Raises:
        UserError: when nothing is registered.
    """
    from rich.console import Console

    for each in [name] if name else registry.existing(state.registry):
        record = release.read(release.Place.of(state, each))
        Console().print(_table(each, registry.versions(state.registry, each), record))


def promote(state: State, number: str, name: str | None = None) -> None:
    """Make a version the champion, and have a running endpoint serve it.

    Args:
        state: where the registry and its release records are.
        number: the version, as the user wrote it.
        name: the registered model; the only one where it is left out.

    Raises:
        UserError: when there is no such model or version; the message lists what exists.
    """
    place = release.Place.of(state, registry.one(state.registry, name))
    with registry.exclusive(state.registry):
        _say(release.promote(place, _number(place.registry, place.name, number), lambda it: _update(state, it)))


def rollback(state: State, name: str | None = None) -> None:
    """Take the newest version out of service, and have a running endpoint serve the one before; arguments as `promote`.

    Raises:
        UserError: when there is no such model, or it has no previous champion.
    """
    place = release.Place.of(state, registry.one(state.registry, name))
    with registry.exclusive(state.registry):
        _say(release.rollback(place, lambda it: _update(state, it)))


def stop(state: State, name: str | None = None) -> None:
    """Stop the endpoint of a model, or all of a registry's."""
    stopped = endpoint.stop(state.registry, name)
    _print(f"stopped the endpoint of {', '.join(stopped)}" if stopped else "no endpoint is running")


def _update(state: State, version: Version) -> None:
    """Have a running endpoint serve a version, before the record says so: what fails here changes nothing."""
    if registry.is_remote(state.registry) or not endpoint.running(state.registry, version.name):
        _print("no endpoint is running here")
        return
    server = endpoint.start_or_update(state, version, examples.of(state, version.name, version.uri))
    _print(f"{server.url} answers with version {version.version}")


def _number(registry_uri: str, name: str, number: str) -> int:
    if number.isdecimal():
        return int(number)
    existing = ", ".join(str(version.version) for version in registry.versions(registry_uri, name))
    raise UserError(f"version is {number!r}; existing versions of {name!r}: {existing}")


def _table(name: str, versions: list[Version], record: Release | None) -> "Table":
    from rich import box
    from rich.table import Table

    # narrow enough for 80 columns
    table = Table(title=f"{name} (* champion)", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    metric = next((each.tags["promise"] for each in reversed(versions) if "promise" in each.tags), "metric")
    for heading in ("version", "trained on", metric.replace("_", "\n"), "registered", "live since (UTC)"):
        table.add_column(heading, no_wrap=True)
    since = {number: str(moment)[:16] for number, moment in record.live_since.items()} if record else {}
    for version in versions:
        tags = version.tags
        table.add_row(
            f"{version.version} *" if record and record.live.version == version.version else str(version.version),
            f"{tags.get('train_first')} .. {tags.get('train_last')}",
            f"{float(tags[metric]):.4f}" if metric in tags else "-",
            tags["registered_at"][:10],
            since.get(version.version, "-"),
        )
    return table


def _say(version: Version) -> None:
    _print(f"{version.name}: version {version.version} is the champion now")


def _print(line: str) -> None:
    from rich.console import Console

    Console().print(line, markup=False, highlight=False, soft_wrap=True)
