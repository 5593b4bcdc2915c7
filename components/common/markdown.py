"""Pages and tables in Markdown."""

from collections.abc import Iterable, Mapping


def page(title: str, sections: Mapping[str, Iterable[str]]) -> str:
    """Return a page: its sections' lines by their titles."""
    texts = [f"# {title}", *("\n".join([f"## {name}", "", *lines]) for name, lines in sections.items())]
    return "\n\n".join(texts) + "\n"


def table(head: tuple[str, ...], cells: Iterable[tuple[str, ...]]) -> list[str]:
    """Return a table's lines: the first column holds names, the others numbers."""
    numbers = ["---"] + ["---:"] * (len(head) - 1)
    return [_row(head), _row(numbers), *(_row(row) for row in cells)]


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
