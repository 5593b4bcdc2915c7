"""Docstrings name what is there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SECTION = re.compile(r"^(?:Args|Attributes):\n((?:    .*(?:\n|$)|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \w+)*):", re.MULTILINE)
Documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def entries(documented: Documented) -> set[str]:
    """Return the names below `Args:` and `Attributes:` of a docstring."""
    sections = SECTION.findall(ast.get_docstring(documented) or "")
    return {name.strip("*") for text in sections for names in ENTRY.findall(text) for name in names.split(", ")}


def names(documented: Documented) -> Iterator[str]:
    """Yield the parameters of a function, or the fields, attributes and methods of a class."""
    if not isinstance(documented, ast.ClassDef):
        yield from (argument.arg for argument in ast.walk(documented.args) if isinstance(argument, ast.arg))
        return
    for node in ast.walk(documented):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg


@pytest.mark.parametrize("folder", ["components", "nightshift", "pipelines", "benchmarks"])
def test_a_docstring_names_parameters_and_attributes_that_exist(folder: str) -> None:
    unknown = {
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}": sorted(missing)
        for file in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, Documented) and (missing := entries(node) - set(names(node)))
    }
    assert unknown == {}
