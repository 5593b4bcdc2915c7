"""Pages and tables in Markdown. A text is only ever text, except for what the functions here have marked."""

import re
from collections.abc import Iterable, Mapping

from nightshift.runtime.printable import printable

# brackets are no link without what follows them, so intervals stay as they are
INLINE = re.compile(r"[\\`*|~$]|\](?=[(\[:])|\[(?=\^)|(?<![^\W_])_|_(?![^\W_])")
START = re.compile(r"^\s*([#>+\-=:]|\[(?=[ xX]\])|\d+(?=[.)]))")  # the start of a line that is no paragraph


class Marked(str):
    """Markdown as it is."""

    __slots__ = ()


def escape(text: str) -> str:
    """Return a text as Markdown that shows it, in one line; what is marked stays as it is."""
    if isinstance(text, Marked):
        return text
    plain = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return Marked(INLINE.sub(r"\\\g<0>", plain))


def strong(text: str) -> str:
    """Return a text that stands out."""
    return Marked(f"**{escape(text)}**")


def code(text: str) -> str:
    """Return a text as code, such as a hash."""
    plain = printable(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", plain)), default=0))
    return Marked(f"{fence} {plain} {fence}" if "`" in plain else f"{fence}{plain}{fence}")


def line(*parts: str) -> str:
    """Return a paragraph of one line."""
    content = "".join(map(escape, parts))
    start = START.match(content)
    if start is None:
        return Marked(content)
    # a number is text where its point is escaped, a sign where it is itself
    at = start.end(1) if start[1].isdigit() else start.start(1)
    return Marked(f"{content[:at]}\\{content[at:]}")


def items(texts: Iterable[str]) -> list[str]:
    """Return a list's lines."""
    return [Marked(f"- {line(text)}") for text in texts]


def page(title: str, sections: Mapping[str, Iterable[str]]) -> str:
    """Return a page: its sections' lines by their titles."""
    texts = [f"# {escape(title)}", *(section(name, lines) for name, lines in sections.items())]
    return "\n\n".join(texts) + "\n"


def section(title: str, lines: Iterable[str]) -> str:
    """Return a section of a page."""
    return "\n".join(
        [f"## {escape(title)}", "", *(entry if isinstance(entry, Marked) else line(entry) for entry in lines)]
    )


def table(head: tuple[str, ...], cells: Iterable[tuple[str, ...]]) -> list[str]:
    """Return a table's lines: the first column holds names, the others numbers."""
    numbers = ["---"] + ["---:"] * (len(head) - 1)
    return [_row(head), _row(map(Marked, numbers)), *(_row(row) for row in cells)]


def _row(cells: Iterable[str]) -> str:
    return Marked("| " + " | ".join(map(escape, cells)) + " |")
