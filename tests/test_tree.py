"""Every module says what it is for."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = (
    "components",
    "nightshift",
    "pipelines",
    "dags",
    "infra",
    "packages/image-text/nightshift_image_text",
    "packages/llm/nightshift_llm",
    "packages/perf/nightshift_perf",
)


def test_every_module_says_in_one_line_what_it_is_for() -> None:
    modules = [module for room in ROOMS for module in (ROOT / room).rglob("*.py")]

    assert [str(path.relative_to(ROOT)) for path in modules if not ast.get_docstring(ast.parse(path.read_text()))] == []
