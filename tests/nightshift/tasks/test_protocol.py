"""What steps may ask of a task, and what is written of it."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import pytest

from nightshift import tasks
from nightshift.kinds import BUILT_IN, TaskKind
from nightshift.runtime.errors import UserError
from nightshift.tasks import Task

DOCS = Path(__file__).parents[3] / "docs" / "guides" / "extending.md"
MARK = "<!-- written by tests/nightshift/tasks/test_protocol.py -->\n"
MODULES = [name for name, value in vars(Task).items() if isinstance(value, property)]


def required_names(module: str) -> list[str]:
    """What the protocol of a module has: functions, and constants in capitals."""
    protocol = get_type_hints(getattr(Task, module).fget, vars(tasks))["return"]
    return [name for name in [*vars(protocol), *protocol.__annotations__] if not name.startswith("_")]


def table() -> Iterator[str]:
    yield "| module | purpose | functions that steps call |"
    yield "|---|---|---|"
    for module in MODULES:
        purpose = inspect.getdoc(getattr(Task, module)) or ""
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(required_names(module)))
        yield f"| `{module}` | {purpose.rstrip('.')} | {names} |"


def test_the_page_lists_every_module_of_a_task_and_what_steps_ask_of_it() -> None:
    text = DOCS.read_text()
    assert MARK in text
    rows = text.split(MARK)[1].strip().splitlines()
    assert rows[: len(MODULES) + 2] == list(table())


@pytest.mark.parametrize("kind", BUILT_IN.values(), ids=list(BUILT_IN))
@pytest.mark.parametrize("module", MODULES)
def test_each_built_in_task_has_every_module_with_all_that_steps_ask(kind: TaskKind, module: str) -> None:
    implementation = getattr(Task(kind), module)
    assert [name for name in required_names(module) if not hasattr(implementation, name)] == []


def test_an_unknown_task_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError, match=r"task\.kind: is 'tabulr'; allowed: tabular, .*did you mean 'tabular'"):
        tasks.find("tabulr")


def test_a_module_that_a_task_lacks_is_named() -> None:
    with pytest.raises(UserError, match=r"task\.kind 'mine' has no module 'drift' in nightshift\.stats; add one"):
        Task(TaskKind("mine", ("nightshift.stats",), "", "")).module("drift")


if __name__ == "__main__":
    before, _, after = DOCS.read_text().partition(MARK)
    rest = after.split("\n\n## ", 1)
    DOCS.write_text(before + MARK + "\n".join(table()) + "\n" + ("\n## " + rest[1] if len(rest) > 1 else ""))
