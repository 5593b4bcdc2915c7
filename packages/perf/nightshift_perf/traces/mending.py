"""JSON that is none, as profilers and what people do to their files leave it: one value at a time.

What is meant has to be beyond doubt: numbers that are none (`N/A`, `-nan`), control characters, backslashes of Windows
paths, commas too many, and quotes inside a text. Brackets and quotes that are missing are never supplied, since that is
what a truncated file looks like.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

WINDOW = 1 << 14  # characters that nearly every value fits in: errors in a long text are slow to raise
MARGIN = 64  # characters: a literal so near the end of a window may be cut
ENDS = 64  # where a broken value may end, before it is given up
PROBLEMS = (ValueError, RecursionError)
DECODER = json.JSONDecoder(strict=False)  # with control characters in texts, NaN and Infinity

UNREADABLE = re.compile("[\udc80-\udcff]")  # bytes that are no UTF-8, as surrogateescape decodes them
CONTROL = re.compile(r"[\x00-\x1f]")
END = re.compile(r"\}(?=\s*(?:,\s*[{\]]|\]|$))")
BACKSLASH = re.compile(r'(\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))|\\')
# a text; a bare word; a colon without a value; a comma too many
TOKEN = re.compile(r'("(?:[^"\\]|\\.)*")|([^\s",:{}\[\]]+)|(:(?=\s*[,}\]]))|(,(?=\s*[,}\]]))')
VALUE = re.compile(r"true|false|null|-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# a text ends at the first quote after which the object ends or another key follows
TEXT = re.compile(r'(:\s*")(.*?)("(?=\s*(?:\}\s*(?:[,}\]]|$)|,\s*"[^"]*"\s*:)))')
QUOTE = re.compile(r'(\\.)|"')


def decode(data: bytes) -> str:
    """Return UTF-8 as text; each byte that is none becomes a question mark, so that the length stays."""
    return UNREADABLE.sub("?", data.decode(errors="surrogateescape"))


def read(text: str, start: int, last: int) -> tuple[Any, int, bool]:
    """Read the value that starts at a position of a text.

    Args:
        text: with the value.
        start: its position.
        last: values that start behind it may be cut, so they are not mended.

    Returns:
        The value, the position after it, and whether it was no JSON.

    Raises:
        ValueError: when it does not end in the text, or what it means is in doubt.
        RecursionError: when it is nested too deep.
    """
    window = text[start : start + WINDOW]
    try:
        value, end = DECODER.raw_decode(window)
        return value, start + end, False
    except json.JSONDecodeError as error:
        is_cut = error.msg.startswith("Unterminated") or error.pos > len(window) - MARGIN
    except RecursionError:
        is_cut = True
    if not is_cut and start <= last and (mended := _mend(window, 0)):
        return mended[0], start + mended[1], True
    try:
        return *DECODER.raw_decode(text, start), False
    except PROBLEMS:
        if start <= last and (mended := _mend(text, start)):
            return *mended, True
        raise


def _mend(text: str, start: int) -> tuple[Any, int] | None:
    for end in _ends(text, start):
        for value in _read_mended(text[start:end]):
            return value, end
    return None


def _ends(text: str, start: int) -> Iterator[int]:
    for number, end in enumerate(END.finditer(text, start)):
        if number == ENDS:
            return
        yield end.end()


def _read_mended(text: str) -> Iterator[Any]:
    """Return the value that a text means, if any: with its texts as they are, or else with quotes inside them."""
    plain = BACKSLASH.sub(lambda match: match[1] or r"\\", CONTROL.sub(" ", text))
    for repaired in (plain, TEXT.sub(_quote, CONTROL.sub(" ", text))):
        try:
            yield DECODER.decode(TOKEN.sub(_token, BACKSLASH.sub(lambda match: match[1] or r"\\", repaired)))
            return
        except PROBLEMS:
            continue


def _quote(match: re.Match[str]) -> str:
    """Escape the quotes inside a text, and a backslash at its end."""
    body = QUOTE.sub(lambda quote: quote[1] or '\\"', match[2])
    alone = len(body) - len(body.rstrip("\\"))
    return match[1] + body + "\\" * (alone % 2) + match[3]


def _token(match: re.Match[str]) -> str:
    text, word, colon, comma = match.groups()
    if text or (word and VALUE.fullmatch(word)):
        return str(text or word)
    if word:
        return _number(word)
    return "" if comma else f"{colon}null"


def _number(word: str) -> str:
    """Return a number that JSON does not write like that, and null for what is none."""
    return json.dumps(float(word)) if NUMBER.fullmatch(word) else "null"
