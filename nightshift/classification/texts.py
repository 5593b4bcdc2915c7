"""Which texts can be used, wherever they come from."""

from unicodedata import category

ENCODING = "utf-8-sig"  # without a byte order mark

# Unicode's general categories of spaces, controls and what has no width, such as a mark of direction
BLANK = ("Zs", "Zl", "Zp", "Cc", "Cf")


def fault(text: str) -> str | None:
    """Return the rule that rejects a text: `binary` or `empty`, or None."""
    if "\0" in text:  # a file that is no text
        return "binary"
    return "empty" if all(category(character) in BLANK for character in text) else None
