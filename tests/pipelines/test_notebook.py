"""The notebook over a workspace: its cells run in their order, and none of their outputs is committed."""

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs/guides/workspace.ipynb"
CODE = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_is_committed_without_outputs() -> None:
    assert [cell for cell in CODE if cell["outputs"] or cell["execution_count"] is not None] == []


def test_the_notebooks_cells_read_a_workspace(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)
    scope: dict[str, Any] = {}

    for cell in CODE:
        exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), scope)  # noqa: S102 the cells are ours

    assert list(scope["runs"]["run"]) == ["fraud-1"]
    assert list(scope["models"]["champion"]) == [False, True, False]
    assert list(scope["drift"]["decision"]) == ["fail"]
    assert scope["costs"]["usd"].sum() == 0.5
    assert scope["page"].headline.headline == "Version 2 is the champion."
