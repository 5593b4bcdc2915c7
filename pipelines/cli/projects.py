"""The command that lists the projects of docs/projects: what practitioners do, each on a page that runs."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

from nightshift.runtime.errors import UserError
from pipelines.cli import options

PAGES = Path(__file__).parents[2] / "docs" / "projects"
COMMAND = re.compile(r"^    ((?:nightshift|python) .+)$", re.MULTILINE)


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "projects", projects.__doc__)
    command.set_defaults(command=projects)


def projects(args: argparse.Namespace) -> int:  # noqa: ARG001 it has no flags
    """List what practitioners do with this, a page and a first command each; needs a checkout of the repository."""
    if not PAGES.is_dir():
        raise UserError(
            "this installation has no docs/projects; run nightshift projects in a checkout of the repository"
        )
    for page in sorted(PAGES.glob("*.md")):
        text = page.read_text()
        options.say(f"{read_title(text)}\n    docs/projects/{page.name}\n    {next(list_commands(text))}\n")
    return options.say(
        "Each page runs on a laptop, and says what to expect on GPUs. Next: open one, and run its commands."
    )


def read_title(text: str) -> str:
    """Return a page's title."""
    return text.partition("\n")[0].removeprefix("# ")


def list_commands(text: str) -> Iterator[str]:
    """Yield the commands of a page, in their order, each in one line."""
    yield from COMMAND.findall(text.replace("\\\n", ""))
