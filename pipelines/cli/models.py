"""Commands about registered models and the local endpoint."""

import argparse
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from nightshift import registry, tasks
from nightshift.contracts import package
from nightshift.contracts.listings import ListedVersion
from nightshift.contracts.state import State
from nightshift.local import endpoint, examples
from nightshift.registry import Version, approvals, release_record
from nightshift.registry.approvals import ApprovalReason
from nightshift.registry.audit_log import log_action
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UserError
from pipelines.cli import options
from pipelines.workspace import Workspace

if TYPE_CHECKING:
    from rich.table import Table


def add(commands: options.Commands) -> None:
    """Add the commands."""
    for function in (models, approve, promote, rollback, serve, stop):
        command = options.add_command(commands, function.__name__, str(function.__doc__))
        options.add_workspace(command)
        if function in (approve, promote):
            command.add_argument("version", help="number of the version, from `nightshift models`")
        if function in (approve, promote, rollback):
            options.add_reason(command, required=function is approve)
        if function not in (serve, stop):
            options.add_registry(command)
        if function is models:
            options.add_json(command, "model_list")
        options.add_use_case(command)
        command.set_defaults(command=function)


def models(args: argparse.Namespace) -> int:
    """List the registered model versions."""
    from rich.console import Console

    listed = Workspace(options.select_state(args)).list_models(options.use_case(args))
    if args.json:
        return options.print_document(listed)
    for name, versions in groupby(listed.versions, lambda version: version.use_case):
        Console().print(_table(name, list(versions)))
    return 0


def approve(args: argparse.Namespace) -> int:
    """Approve a version that has passed its gates and waits for a person."""
    state = options.select_state(args)
    ref = _find_ref(state, options.use_case(args))
    number = _parse_version(ref, args.version)
    with log_action(state, "approve", ref.name, f"version {number}", args.reason), registry.lock(state.registry):
        record = approvals.approve(ref, number, ApprovalReason(args.reason), partial(_update, state))
    if record.live.version == number:
        return options.say(_describe_champion(ref.name, number))
    return options.say(f"{ref.name}: version {number} is approved; `nightshift run release` takes it on to live")


def promote(args: argparse.Namespace) -> int:
    """Make a version the champion and serve it."""
    state = options.select_state(args)
    ref = _find_ref(state, options.use_case(args))
    number = _parse_version(ref, args.version)
    with log_action(state, "promote", ref.name, f"version {number}", args.reason), registry.lock(state.registry):
        version = release_record.promote(ref, number, partial(_update, state), args.reason)
    return options.say(_describe_champion(ref.name, version.version))


def rollback(args: argparse.Namespace) -> int:
    """Restore the previous champion."""
    state = options.select_state(args)
    ref = _find_ref(state, options.use_case(args))
    with log_action(state, "rollback", ref.name, "champion", args.reason), registry.lock(state.registry):
        version = release_record.rollback(ref, partial(_update, state), args.reason)
    return options.say(_describe_champion(ref.name, version.version))


def serve(args: argparse.Namespace) -> int:
    """Run the local endpoint in the foreground, for a supervisor that restarts it."""
    state = options.state(args)
    endpoint.run(state, registry.choose_name(state.registry, options.use_case(args)))


def stop(args: argparse.Namespace) -> int:
    """Stop the local endpoint."""
    stopped = endpoint.stop(options.state(args).registry, options.use_case(args))
    return options.say(f"stopped the endpoint of {', '.join(stopped)}" if stopped else "no endpoint is running")


def _find_ref(state: State, name: str | None) -> ReleaseRef:
    return ReleaseRef.from_state(state, registry.choose_name(state.registry, name))


def _parse_version(ref: ReleaseRef, number: str) -> int:
    if number.isdecimal():
        return int(number)
    existing = ", ".join(str(version.version) for version in registry.versions(ref.registry, ref.name))
    raise UserError(f"version is {number!r}; existing versions of {ref.name!r}: {existing}")


def _update(state: State, version: Version) -> None:
    """Have a running endpoint serve a version, before the record says so: what fails here changes nothing."""
    is_remote = registry.is_remote(state.registry)
    if is_remote or not endpoint.find_running(state.registry, version.name):
        if not is_remote:
            _update_beside(state, version)
        options.say(endpoint.ABSENT.format(number=version.version))
        return
    server = endpoint.start_or_update(state, version, examples.build_example(state, version.name, version.uri))
    options.say(f"{server.url} answers with version {version.version}")


def _update_beside(state: State, version: Version) -> None:
    """Update what the task runs beside an endpoint, where it outlived that."""
    serving = tasks.find(package.load(version.uri).kind).serving
    if serving.find_url(state.registry, version.name):
        serving.follow(state.registry, version, endpoint.PATIENCE)


def _describe_champion(name: str, number: int) -> str:
    return f"{name}: version {number} is the champion now"


def _table(name: str, versions: list[ListedVersion]) -> "Table":
    from rich import box
    from rich.table import Table

    any_waits = any(version.waits for version in versions)
    # narrow enough for 80 columns
    table = Table(
        title=f"{name} (* champion{', ? waits for an approval' if any_waits else ''})",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    metric = versions[-1].metric or "metric"
    for heading in ("version", "trained on", metric.replace("_", "\n"), "registered", "live since (UTC)"):
        table.add_column(heading, no_wrap=True)
    for version in versions:
        table.add_row(
            f"{version.version}{' *' if version.champion else ' ?' if version.waits else ''}",
            f"{version.train_first} .. {version.train_last}",
            "-" if version.metric_value is None else f"{version.metric_value:.4f}",
            str(version.registered_at.date()),
            f"{version.live_since:%Y-%m-%d %H:%M}" if version.live_since else "-",
        )
    return table
