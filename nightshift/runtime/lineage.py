"""Which code made something, and who ran it."""

import getpass
import os
import subprocess
from importlib import metadata
from pathlib import Path

from nightshift import DISTRIBUTION

CHECKOUT = Path(__file__).parents[2]


def code_version(checkout: Path = CHECKOUT) -> str:
    """Return the version of the code: `0.3.0` as installed, `0.3.0+abc1234` or `0.3.0+abc1234.dirty` in a checkout.

    Args:
        checkout: folder that may be a git checkout of this project.
    """
    version = metadata.version(DISTRIBUTION)
    # an installed copy may lie below somebody else's checkout, which says nothing about it
    commit = _commit(checkout) if (checkout / ".git").exists() else ""
    return f"{version}+{commit}" if commit else version


def _commit(checkout: Path) -> str:
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    try:
        described = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return described.replace("-dirty", ".dirty")


def user() -> str:
    """Return the user of this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"
