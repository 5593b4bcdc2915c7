"""Tables in Markdown."""

from collections.abc import Iterable


def table(head: tuple[str, ...], cells: Iterable[tuple[str, ...]]) -> list[str]:
    """Return a table's lines: the first column holds names, the others numbers."""
    numbers = ["---"] + ["---:"] * (len(head) - 1)
    return [_row(head), _row(numbers), *(_row(row) for row in cells)]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
