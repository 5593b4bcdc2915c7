"""Output: text of strangers on one line of a log, a terminal or a page, and readers that have had enough."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

CLOSED = 141  # as a shell reports a program that SIGPIPE ended


def printable(text: str) -> str:
    r"""Return a text with an escape (`\n`, `\x1b`) for what ends a line, moves a cursor, or hides or turns text."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def printable_lines(text: str) -> str:
    """Return a text of our own of several lines, each of them as `printable` has it."""
    return "\n".join(map(printable, text.split("\n")))


@contextmanager
def exit_on_closed_pipe() -> Iterator[None]:
    """End the program without a message once the reader of its output, such as `head`, has enough."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(CLOSED)
