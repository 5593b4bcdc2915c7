"""Draw the compiled graph of the nightly training for README.md: `make compile`, in light and in dark."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

from pipelines import ir

DOCS = Path(__file__).resolve().parent
GRAPH = DOCS.parent / "pipelines" / "compiled" / "local" / "training.yaml"
# step -> what it adds to the night, in the width of a box
CAPTIONS = {
    "ingestion": "checks the day",
    "features": "past days only",
    "training": "candidates",
    "profiling": "where time goes",
    "optimization": "form to be served",
    "evaluation": "gates, intervals",
    "scoring": "newest events",
    "drift": "shift, with limits",
    "deployment": "release, or not",
    "reporting": "reasons for all",
}
# theme -> page's text, captions, lines, box, border
COLORS = {
    "light": ("#1f2328", "#59636e", "#818b98", "#f6f8fa", "#d1d9e0"),
    "dark": ("#f0f6fc", "#9198a1", "#656c76", "#151b23", "#3d444d"),
}
WIDTH, HEIGHT, GAP, ROW = 112, 46, 18, 70  # pixels: a box, the space between two columns, and from row to row

Cell = tuple[int, int]


def read_parents(path: Path) -> dict[str, set[str]]:
    """Return step -> the steps right before it, without those that come earlier on another way."""
    tasks = ir.load(path).tasks
    parents = {
        task.name: {*task.needs, *(ref.task for refs in task.artifacts.values() for ref in refs)} for task in tasks
    }
    ancestors: dict[str, set[str]] = {}
    for name, before in parents.items():
        ancestors[name] = before.union(*(ancestors[parent] for parent in before))
    return {name: before - set().union(*(ancestors[parent] for parent in before)) for name, before in parents.items()}


def place_steps(parents: dict[str, set[str]]) -> dict[str, Cell]:
    """Return step -> column and row: the longest way lies in the middle row, other steps above and below by turns."""
    columns: dict[str, int] = {}
    for name, before in parents.items():
        columns[name] = max((columns[parent] + 1 for parent in before), default=0)
    step = max(columns, key=columns.__getitem__)
    longest = [step]
    while before := parents[step]:
        step = max(sorted(before), key=columns.__getitem__)
        longest.append(step)
    beside = [name for name in columns if name not in longest]
    rows = dict.fromkeys(longest, 1) | {name: 2 * (index % 2) for index, name in enumerate(beside)}
    return {name: (column, rows[name]) for name, column in columns.items()}


def draw_box(name: str, cell: Cell, text: str, faint: str) -> Iterator[str]:
    """Yield a step's box with its name and caption."""
    left, top = cell[0] * (WIDTH + GAP) + 1, cell[1] * ROW + 1
    middle = left + WIDTH / 2
    yield f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
    for offset, size, color, words in ((20, 14, text, name), (36, 11, faint, CAPTIONS[name])):
        style = f'fill="{color}" stroke="none" font-size="{size}"'
        yield f'<text x="{middle}" y="{top + offset}" {style}>{escape(words)}</text>'


def draw_arrow(start: Cell, end: Cell) -> str:
    """Return the line from one box to a later one, which changes rows beside the box in the middle row."""
    left, right = start[0] * (WIDTH + GAP) + WIDTH + 1, end[0] * (WIDTH + GAP) - 3
    top, bottom = (row * ROW + HEIGHT / 2 + 1 for row in (start[1], end[1]))
    turn = left if start[1] == 1 else right - GAP + 4
    bend = f"C {turn + GAP / 2} {top} {turn + GAP / 2} {bottom} {turn + GAP - 4} {bottom}"
    return f'<path d="M {left} {top} H {turn} {bend} H {right}" fill="none" marker-end="url(#tip)"/>'


def draw(parents: dict[str, set[str]], theme: str) -> str:
    """Return the graph as an SVG document."""
    text, faint, line, box, border = COLORS[theme]
    cells = place_steps(parents)
    width = max(column for column, _ in cells.values()) * (WIDTH + GAP) + WIDTH + 2
    height = max(row for _, row in cells.values()) * ROW + HEIGHT + 2
    arrows = [draw_arrow(cells[parent], cells[name]) for name in parents for parent in sorted(parents[name])]
    boxes = [part for name, cell in cells.items() for part in draw_box(name, cell, text, faint)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" text-anchor="middle" '
            'font-family="system-ui, sans-serif">',
            '<marker id="tip" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" markerHeight="6" orient="auto">'
            f'<path d="M 0 0 L 6 3 L 0 6 z" fill="{line}"/></marker>',
            f'<g stroke="{line}" stroke-width="1.5">',
            *arrows,
            "</g>",
            f'<g fill="{box}" stroke="{border}">',
            *boxes,
            "</g>",
            "</svg>\n",
        ]
    )


def draw_pictures() -> dict[Path, str]:
    """Return file -> SVG document, one per theme."""
    parents = read_parents(GRAPH)
    return {DOCS / "images" / f"graph-{theme}.svg": draw(parents, theme) for theme in COLORS}


if __name__ == "__main__":
    for file, picture in draw_pictures().items():
        file.write_text(picture)
