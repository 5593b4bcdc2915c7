"""Look after registered models by hand: list, promote, roll back, end the endpoint.

python -m components.deployment.manage models|promote VERSION|rollback|stop --registry R [--name N]
"""

import argparse
from typing import TYPE_CHECKING

from components.common.errors import UserError, nearest
from components.common.step import Parser, run

if TYPE_CHECKING:
    from rich.table import Table

    from components.common.registry import Version


def parser() -> Parser:
    """Return the flags."""
    flags = Parser("deployment.manage", "Manage registered models and the local endpoint.")
    flags.add_argument("action", choices=sorted(ACTIONS), help="what to do")
    flags.add_argument("version", nargs="?", help="version to promote")
    flags.add_argument("--registry", required=True, help="model registry: a folder or the URL of a tracking server")
    flags.add_argument("--name", help="the registered model (default: the only one; stop: all)")
    return flags


def body(args: argparse.Namespace) -> None:
    """Do what was asked for."""
    ACTIONS[args.action](args)


def models(args: argparse.Namespace) -> None:
    """Print the versions of one model, or of all."""
    from rich.console import Console

    from components.common import registry

    for name in [args.name] if args.name else _names(args):
        champion = registry.champion(args.registry, name)
        Console().print(_table(name, registry.versions(args.registry, name), champion))


def promote(args: argparse.Namespace) -> None:
    """Make a version the champion."""
    from components.common import registry

    name = _name(args)
    with registry.exclusive(args.registry):
        version = registry.find(args.registry, name, _number(args, name))
        _update(args, version)
        _say(registry.promote(args.registry, name, version.version))


def rollback(args: argparse.Namespace) -> None:
    """Make the champion before this one the champion again."""
    from components.common import registry

    name = _name(args)
    with registry.exclusive(args.registry):
        _update(args, registry.previous(args.registry, name))
        _say(registry.rollback(args.registry, name))


def stop(args: argparse.Namespace) -> None:
    """End the endpoints of a registry, or that of one model."""
    from components.deployment import endpoint

    stopped = endpoint.stop(args.registry, args.name)
    _print(f"ended the endpoint of {', '.join(stopped)}" if stopped else "no endpoint is running")


ACTIONS = {"models": models, "promote": promote, "rollback": rollback, "stop": stop}


def _update(args: argparse.Namespace, version: "Version") -> None:
    """Have a running endpoint serve a version, before the registry says so: what fails here changes nothing."""
    from components.common import registry
    from components.deployment import endpoint

    if registry.is_remote(args.registry) or not endpoint.running(args.registry, version.name):
        _print("no endpoint is running here")
        return
    state = endpoint.start_or_update(args.registry, version, endpoint.example(version.uri))
    _print(f"{state.url} answers with version {version.version}")


def _names(args: argparse.Namespace) -> list[str]:
    from components.common import registry

    known = registry.names(args.registry)
    if not known:
        raise UserError(f"registry {args.registry} holds no model yet; `nightshift run` registers one")
    return known


def _name(args: argparse.Namespace) -> str:
    known = _names(args)
    if args.name is None and len(known) == 1:
        return known[0]
    if args.name not in known:
        close = nearest(args.name or "", known)
        raise UserError(f"--name is {args.name!r}; registered models: {', '.join(known)}{close}")
    return str(args.name)


def _number(args: argparse.Namespace, name: str) -> int:
    from components.common import registry

    if args.version and args.version.isdecimal():
        return int(args.version)
    existing = ", ".join(str(version.version) for version in registry.versions(args.registry, name))
    raise UserError(f"version is {args.version!r}; existing versions of {name!r}: {existing}")


def _table(name: str, versions: "list[Version]", champion: "Version | None") -> "Table":
    from rich import box
    from rich.table import Table

    # narrow enough for 80 columns
    table = Table(title=f"{name} (* champion)", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("version", "trained on", "average\nprecision", "registered", "promoted (UTC)"):
        table.add_column(heading, no_wrap=True)
    for version in versions:
        tags = version.tags
        table.add_row(
            f"{version.version} *" if champion and champion.version == version.version else str(version.version),
            f"{tags.get('train_first')} .. {tags.get('train_last')}",
            f"{float(tags['average_precision']):.4f}" if "average_precision" in tags else "-",
            tags["registered_at"][:10],
            tags.get("promoted_at", "-")[:16].replace("T", " "),
        )
    return table


def _say(version: "Version") -> None:
    _print(f"{version.name}: version {version.version} is the champion now")


def _print(line: str) -> None:
    from rich.console import Console

    Console().print(line, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    run(parser(), body)
