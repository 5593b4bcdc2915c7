"""Text of strangers on one line of a log, a terminal or a page."""


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
