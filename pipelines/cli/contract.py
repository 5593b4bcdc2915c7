"""The commands about data contracts, in the Open Data Contract Standard."""

import argparse
import shlex
from pathlib import Path

from nightshift.config import parse
from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError
from nightshift.runtime.printable import printable
from pipelines import configs
from pipelines.cli import options

HEAD = "Imported by `nightshift contract import`. Comments say what was assumed, and what of the contract is not here."


def add(commands: options.Commands) -> None:
    """Add the commands."""
    command = options.add_command(
        commands, "contract", "Import a config from a data contract (ODCS 3), or export a use case's."
    )
    actions = command.add_subparsers(required=True, metavar="action")
    _add_import(actions)
    exporting = options.add_command(actions, "export", export.__doc__)
    options.add_config(exporting)
    exporting.add_argument("--data", default="", help="URI of the data, for a server (default: none)")
    exporting.add_argument("--owner", default="", help="who answers for the data, such as an e-mail address")
    exporting.add_argument("--output", help="file to write (default: print it)")
    exporting.set_defaults(command=export)


def import_(args: argparse.Namespace) -> int:
    """Write a config for the events of a data contract, and list what of it has no counterpart there."""
    from nightshift.odcs.importing import ContractChoices, import_contract

    document = strict_yaml.load(_read(args.file), args.file)
    contract = import_contract(document, ContractChoices(args.schema, args.label, args.time, args.id))
    parse(contract.config)
    output = Path(args.output or f"{contract.config['name']}.yaml")
    _write_new(output, [HEAD, *contract.notes, *_list_missing(contract.left_out)], strict_yaml.dump(contract.config))
    for sentence in [*contract.notes, *_list_missing(contract.left_out)]:
        options.say(f"- {printable(sentence)}")
    flags = ["--config", str(output), *(["--data", contract.data] if contract.data else [])]
    return options.say(f"wrote {output}; read it, then: nightshift run {shlex.join(flags)}")


def export(args: argparse.Namespace) -> int:
    """Print the data contract of a use case: columns, limits, when data and labels arrive."""
    from nightshift.odcs.exporting import export_contract

    config = parse(configs.load(args.config or configs.DEFAULT))
    text = strict_yaml.dump(export_contract(config, args.data, args.owner))
    if not args.output:
        return options.say(text.rstrip("\n"))
    _write_new(Path(args.output), [], text)
    return options.say(f"wrote {args.output}")


def _add_import(actions: options.Commands) -> None:
    command = options.add_command(actions, "import", import_.__doc__)
    command.add_argument("file", help="the contract, YAML")
    command.add_argument("--schema", default="", help="table of the events (default: the only one)")
    command.add_argument("--label", default="", help="column to predict, which no contract says")
    command.add_argument("--time", default="", help="column of the event's time (default: the only timestamp)")
    command.add_argument("--id", default="", help="column of the event's id (default: the primary key)")
    command.add_argument("--output", help="file to write (default: <name of the contract>.yaml, here)")
    command.set_defaults(command=import_)


def _list_missing(paths: list[str]) -> list[str]:
    return [f"No counterpart in a config: {path}" for path in paths]


def _read(file: str) -> bytes:
    path = Path(file)
    if not path.is_file():
        raise UserError(f"{file} does not exist; give the file of a contract")
    return path.read_bytes()


def _write_new(output: Path, comments: list[str], text: str) -> None:
    if output.exists():
        raise UserError(f"{output} exists; move it away, or give another --output")
    output.write_text("".join(f"# {printable(line)}\n" for line in comments) + text, encoding="utf-8")
