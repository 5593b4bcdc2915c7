"""Docstrings name what is there."""

import ast
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nightshift.contracts import package
from tests.nightshift.serving.events import CHOSEN, EVENTS, LATER, PAST, model, raw
from tests.nightshift.tabular.online.streams import written

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


@pytest.mark.parametrize("folder", ["components", "nightshift", "pipelines", "benchmarks", "packages"])
def test_a_docstring_names_parameters_and_attributes_that_exist(folder: str) -> None:
    unknown = {
        f"{file.relative_to(ROOT)}:{node.lineno} {node.name}": sorted(missing)
        for file in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, Documented) and (missing := entries(node) - set(names(node)))
    }
    assert unknown == {}


def describe_server(folder: Path) -> dict[str, Any]:
    """Return what a server of raw events has: a package, a lake with a snapshot, a folder, an event."""
    day = folder / "lake" / "fraud" / "online" / "date=2024-03-07"
    day.mkdir(parents=True)
    written(EVENTS, CHOSEN, PAST, str(day))
    names: dict[str, Any] = {"package": package.load(model(folder / "model")), "lake": str(folder / "lake")}
    return names | {"folder": str(folder / "state"), "raw": raw(LATER[0])}


# file with an example -> what makes the names that its text says are there
EXAMPLES: dict[str, Callable[[Path], dict[str, Any]]] = {"nightshift/tabular/online/__init__.py": describe_server}
BLOCK = re.compile(r"(?:^\n|\A)((?:(?: {4}.*)?\n)*(?: {4}.*)?)", re.MULTILINE)


def examples(file: Path) -> Iterator[str]:
    """Yield the indented Python code of a file's docstrings, other than single words."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Module | Documented):
            continue
        for block in BLOCK.findall(ast.get_docstring(node) or ""):
            code = textwrap.dedent(block).strip()
            if code and is_python(code):
                yield code


def is_python(text: str) -> bool:
    try:
        return any(isinstance(node, ast.Assign | ast.Call | ast.Import) for node in ast.walk(ast.parse(text)))
    except SyntaxError:
        return False


def test_an_example_in_a_docstring_runs_as_it_stands(tmp_path: Path) -> None:
    folders = ("components", "nightshift", "pipelines", "benchmarks", "packages")
    files = (file for folder in folders for file in sorted((ROOT / folder).rglob("*.py")))
    texts = {str(file.relative_to(ROOT)): list(examples(file)) for file in files}
    documented = {name: codes for name, codes in texts.items() if codes}
    assert documented.keys() == EXAMPLES.keys()
    for name, codes in documented.items():
        namespace = EXAMPLES[name](tmp_path)
        for code in codes:
            exec(compile(code, name, "exec"), namespace)  # noqa: S102 our own docstrings
        namespace["store"].close()
        assert len(namespace["rows"][0]) == len(namespace["package"].inputs.numeric)
