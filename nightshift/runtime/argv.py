"""Arguments of processes and containers, which Linux limits to 131,071 bytes each."""

import json
from pathlib import Path
from typing import Any

from nightshift import storage
from nightshift.runtime.errors import UserError

LONGEST = 131_071  # bytes of one argument on Linux: MAX_ARG_STRLEN of 32 pages, without the final zero


def shorten(command: list[str], folder: Path) -> list[str]:
    """Return a command line whose long arguments are in files of a folder, each named as `@file`.

    Args:
        command: the step's command line; `nightshift.runtime.flags.StepParser` reads such files.
        folder: the step's, which its container has too.
    """
    return [_shorten(word, folder / f"argument-{number}.txt") for number, word in enumerate(command)]


def _shorten(word: str, file: Path) -> str:
    if len(word.encode()) <= LONGEST:
        return word
    storage.write_bytes(str(file), word.encode())
    return f"@{file}"


def require_short(parameters: dict[str, Any], engine: str) -> None:
    """Check that an engine that passes parameters as arguments of containers can pass these.

    Raises:
        UserError: with their size and the limit.
    """
    size = len(json.dumps({"inputs": {"parameterValues": parameters}}))
    if size > LONGEST:
        raise UserError(
            f"the run's parameters have {size:,} bytes, {len(json.dumps(parameters.get('config', ''))):,} of them the "
            f"config, and {engine} passes them to a container as one argument, of which Linux takes {LONGEST:,} bytes; "
            "name fewer columns in the config, or run it with `nightshift run` on one machine, which passes a file"
        )
