"""Say who has opened the files of a patient."""

import argparse
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nightshift.config import parse
from nightshift.contracts.access_log import AccessList
from nightshift.registry import access_log
from nightshift.runtime.errors import UserError
from nightshift.runtime.printable import printable
from nightshift_image_text.config import ImageTextConfig
from nightshift_image_text.source import read_key
from pipelines import configs
from pipelines.cli import options

if TYPE_CHECKING:
    from rich.table import Table

PSEUDONYM = re.compile("[a-z2-7]{16}")  # see `Pseudonyms.name`


def add(commands: options.Commands, _: Sequence[str]) -> None:
    """Add the command with its action."""
    actions = options.add_command(commands, "image-text", __doc__).add_subparsers(required=True, metavar="action")
    command = options.add_command(actions, "seen", seen.__doc__)
    command.add_argument("patient", help="pseudonym, or PatientID, for which the key of studies.key is needed")
    options.add_workspace(command)
    command.add_argument("--config", required=True, help="use case, by its name or a YAML file")
    command.add_argument("--audit", help="URI of the audit root (default: the workspace's)")
    options.add_json(command, "access_list")
    command.set_defaults(command=seen)


def seen(args: argparse.Namespace) -> int:
    """Say which processes have opened a patient's files, when, as whom and what for."""
    config = parse(configs.load(args.config))
    if not isinstance(config, ImageTextConfig):
        raise UserError(f"--config is {args.config!r}, of task {config.task.kind!r}; give one of task image-text")
    subject = args.patient if PSEUDONYM.fullmatch(args.patient) else find_pseudonym(args.patient, config)
    accesses = access_log.find_accesses(args.audit or options.state(args).audit, config.name, subject)
    if args.json:
        return options.print_document(accesses)
    if accesses.records:
        options.print_table(build_table(accesses))
    return options.say(f"{len(accesses.records)} times, files of {subject} were opened.")


def find_pseudonym(patient: str, config: ImageTextConfig) -> str:
    """Return the pseudonym of a PatientID.

    Raises:
        UserError: without the key.
    """
    from nightshift_image_text.deidentification.pseudonyms import Pseudonyms

    return Pseudonyms(read_key(config.studies.key)).name(patient)


def build_table(accesses: AccessList) -> "Table":
    """Return a row for each time that files were opened."""
    from rich import box
    from rich.table import Table

    table = Table("When (UTC)", "By", "For", "Files", box=box.SIMPLE_HEAD, pad_edge=False)
    for record in accesses.records:
        table.add_row(f"{record.at:%Y-%m-%d %H:%M:%S}", printable(record.by), record.purpose, str(len(record.files)))
    return table
