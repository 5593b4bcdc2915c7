"""JSON that people write, read so that nothing of it is lost.

A key given twice is refused, and so is a number that another engine would round.
"""

import json
import math
import re
from typing import Any

from nightshift.runtime.errors import UserError

LARGEST = 2**53  # the largest integer that a double holds; Kubeflow passes every number on as one
DEEPEST = 50
SHOWN = 40
# all but tab and line feed, and halves of characters beyond 2^16, which no file can hold
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def loads(text: str, name: str) -> Any:
    """Return a JSON value.

    Args:
        text: of the JSON.
        name: of what holds it, for messages.

    Raises:
        UserError: when it is no JSON, holds a key twice, a number that is none or over 2^53, a control character, or
            is nested more than 50 deep.
    """
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=integer, parse_float=finite, parse_constant=finite
        )
        check_depth(value)
    except json.JSONDecodeError as error:
        raise UserError(f"{name} is not JSON ({error}), it begins {text[:SHOWN]!r}") from None
    except RecursionError:
        raise UserError(f"{name} is nested more than {DEEPEST} deep") from None
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    return value


def integer(text: str) -> int:
    """Return an integer that a double holds.

    Raises:
        UserError: when it is beyond 2^53.
    """
    if len(text) > SHOWN or abs(int(text)) > LARGEST:
        raise UserError(f"the number {text[:SHOWN]} is beyond 2^53; write a smaller one")
    return int(text)


def finite(text: str) -> float:
    """Return a number that is neither NaN nor infinite.

    Raises:
        UserError: when it is.
    """
    value = float(text)
    if not math.isfinite(value):
        raise UserError(f"{text[:SHOWN]} is no finite number; write one")
    return value


def check_text(text: str) -> str:
    """Return a text without control characters.

    Raises:
        UserError: when it has one other than a tab or a line feed.
    """
    if wrong := CONTROL.search(text):
        raise UserError(f"{text[:SHOWN]!r} holds the control character U+{ord(wrong.group()):04X}; leave it out")
    return text


def check_depth(value: Any) -> None:
    """Look at every text of a value, and how deep it is.

    Raises:
        UserError: when it is nested more than 50 deep, or a text holds a control character.
    """
    level = [value]
    for _ in range(DEEPEST):
        for text in level:
            if isinstance(text, str):
                check_text(text)
        level = [part for item in level for part in _parts(item)]
        if not level:
            return
    raise UserError(f"it is nested more than {DEEPEST} deep; write it flat")


def _parts(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return [*item, *item.values()]
    return item if isinstance(item, list) else []


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise UserError(f"the key {twice!r} is given twice; give it once")
    return value
