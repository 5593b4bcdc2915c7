"""Numbers in flags."""

from nightshift.runtime.errors import UserError

MAX_DIGITS = 9


def parse_number(name: str, text: str, most: int = 1_000_000, least: int = 1) -> int:
    """Parse a flag's number.

    Raises:
        UserError: when it is not a number from `least` to `most`.
    """
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    if not (is_number and least <= int(text) <= most):
        raise UserError(f"{name} is {text!r}; give a number from {least} to {most}")
    return int(text)
