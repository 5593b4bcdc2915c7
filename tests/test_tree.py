"""The page with one line per module, written from the modules' docstrings."""

import ast
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tree.md"
INTRODUCTION = """\
# The tree, file by file

For readers who look for the place of something: every module with the first line of its docstring.
[architecture.md](concepts/architecture.md) explains how the rooms fit together, and which files every step has.
Written by `python tests/test_tree.py`.
"""
ROOMS = ("components", "nightshift", "pipelines", "dags", "infra")


def summarize(module: Path) -> str:
    """Return the first line of a module's docstring, fit for a cell of a table."""
    docstring = ast.get_docstring(ast.parse(module.read_text())) or ""
    return docstring.partition("\n")[0].replace("|", r"\|")


def write_folder(folder: Path, modules: list[Path]) -> Iterator[str]:
    """Yield the lines about a folder: what its package is for, then a row per module."""
    name = str(folder.relative_to(ROOT))
    yield f"\n{'###' if '/' in name else '##'} {name}\n"
    rows = {module.name: summarize(module) for module in modules}
    if package := rows.pop("__init__.py", ""):
        yield package
    if rows:
        yield "\n| file | purpose |\n|---|---|"
    for file, purpose in rows.items():
        yield f"| `{file}` | {purpose} |"


def write_page() -> str:
    """Return the page: a section per room, a table per folder."""
    modules = sorted(module for room in ROOMS for module in (ROOT / room).rglob("*.py"))
    folders = groupby(sorted(modules, key=lambda module: module.parent), key=lambda module: module.parent)
    return (
        INTRODUCTION + "\n".join(line for folder, files in folders for line in write_folder(folder, list(files))) + "\n"
    )


def test_the_page_of_the_tree_is_current() -> None:
    assert PAGE.read_text() == write_page(), "write it anew: python tests/test_tree.py"


def test_every_module_says_in_one_line_what_it_is_for() -> None:
    modules = [module for room in ROOMS for module in (ROOT / room).rglob("*.py")]

    assert [str(module.relative_to(ROOT)) for module in modules if not summarize(module)] == []


if __name__ == "__main__":
    PAGE.write_text(write_page())
