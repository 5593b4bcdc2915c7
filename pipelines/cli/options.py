"""Flags that several commands share, and what they stand for."""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from nightshift.contracts.artifact import Artifact
from nightshift.contracts.state import State
from nightshift.runtime import strict_json
from nightshift.runtime.errors import UserError
from pipelines import arguments, configs
from pipelines.environments import local

if TYPE_CHECKING:
    from rich.table import Table

WIDEST = 1000  # characters of a table

Commands = Any  # what argparse's add_subparsers returns, a class of its own


def add_command(commands: Commands, name: str, text: str | None, **options: Any) -> argparse.ArgumentParser:
    """Add a command that is described by its function's docstring, or the like."""
    command: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text, **options)
    return command


def add_workspace(command: argparse.ArgumentParser) -> None:
    """Add the folder of everything a local environment keeps."""
    command.add_argument(
        "--workspace", default=".", help="folder of lake, registry and runs (default: the current folder)"
    )


def add_pipeline(command: argparse.ArgumentParser) -> None:
    """Add the pipeline by its purpose."""
    shipped = ", ".join(arguments.list_shipped())
    text = f"pipeline to run: {shipped}, or a file of compiled YAML (default: %(default)s)"
    command.add_argument("pipeline", nargs="?", default=arguments.DEFAULT, help=text)


def add_date(command: argparse.ArgumentParser) -> None:
    """Add the logical date of a run."""
    command.add_argument("--date", help="logical date, YYYY-MM-DD: the last complete UTC day (default: yesterday)")


def add_config(command: argparse.ArgumentParser) -> None:
    """Add the use case."""
    command.add_argument("--config", help="use case, by its name in pipelines/configs/ or a YAML file (default: fraud)")


def add_use_case(command: argparse.ArgumentParser) -> None:
    """Add the use case whose models or releases a command is about."""
    command.add_argument("--config", help="use case, by its name or a YAML file (default: the registry's only one)")


def use_case(args: argparse.Namespace) -> str | None:
    """Return the name of the use case that `add_use_case` has read, which a file gives itself; None without one."""
    is_file = (args.config or "").endswith((".yaml", ".yml"))
    return str(configs.load(args.config)["name"]) if is_file else args.config


def add_parameters(command: argparse.ArgumentParser) -> None:
    """Add the parameters of a pipeline that a person chooses."""
    command.add_argument("--data", help=f"folder or URI of the raw events (default: {arguments.SIMULATOR})")
    add_config(command)
    command.add_argument("--device", choices=["cpu", "cuda"], help="device to compute on (default: cpu)")
    add_set(command)


def add_set(command: argparse.ArgumentParser) -> None:
    """Add any parameter of a pipeline by its name."""
    command.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set a parameter of the pipeline, or a location such as state.lake; repeatable",
    )


def add_json(command: argparse.ArgumentParser, *schemas: str) -> None:
    """Add the choice of a JSON document for programs, of one of the schemas in docs/schemas."""
    files = " or ".join(f"docs/schemas/{schema}.json" for schema in schemas)
    command.add_argument("--json", action="store_true", help=f"print only a JSON document, see {files}")


def add_reason(command: argparse.ArgumentParser, required: bool = False) -> None:
    """Add why a person does something."""
    suffix = "" if required else " (default: none)"
    command.add_argument("--reason", required=required, default="", help=f"reason, for the audit log{suffix}")


def add_registry(command: argparse.ArgumentParser) -> None:
    """Add where models are registered, where it is not in the workspace."""
    command.add_argument(
        "--registry", help="tracking server or folder of the models (default: the workspace's registry)"
    )
    command.add_argument("--audit", help="URI of the release records, needed with a tracking server")


def parameters(args: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters that were given.

    Raises:
        UserError: when one after `--set` has no value.
    """
    named = {name: getattr(args, name, None) for name in ("date", "data", "config", "device")}
    return {name: value for name, value in named.items() if value} | dict(_assignment(item) for item in args.set)


def state(args: argparse.Namespace) -> State:
    """Return the state of the workspace."""
    return local(Path(args.workspace))


def select_state(args: argparse.Namespace) -> State:
    """Return the workspace's state, or with another registry."""
    usual = state(args)
    # a tracking server's records are never guessed to be in the workspace
    return replace(usual, registry=args.registry, audit=args.audit or "") if args.registry else usual


def say(line: str) -> int:
    """Print a line and return the exit code of a command that is done."""
    print(line)
    return 0


def report(args: argparse.Namespace, line: str) -> None:
    """Print a line about progress."""
    print(line, file=progress_stream(args))


def progress_stream(args: argparse.Namespace) -> TextIO:
    """Return where a command reports its progress: not on stdout where that is for a JSON document."""
    return sys.stderr if args.json else sys.stdout


def print_table(table: "Table") -> int:
    """Print a table as wide as it needs, so that ids are whole, and return the exit code."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console()
    needed = Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum
    Console(width=max(console.width, needed)).print(table)
    return 0


def print_document(document: Artifact, code: int = 0) -> int:
    """Print a JSON document and return the exit code."""
    print(document.model_dump_json(indent=2))
    return code


def _assignment(item: str) -> tuple[str, Any]:
    name, sign, value = item.partition("=")
    if not sign:
        raise UserError(f"--set takes name=value, got {item!r}")
    try:
        json.loads(value)
    except ValueError:  # text, or a number of thousands of digits
        return name, value
    except RecursionError:  # which is refused below
        pass
    return name, strict_json.loads(value, f"--set {name}")
