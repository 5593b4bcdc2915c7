"""Links, files and lines of the documentation; its commands are in `test_documented_commands.py`."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from docs import graph
from nightshift.config import usecase

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for folder in ("docs", "infra", "packages") for path in (ROOT / folder).rglob("*.md")),
]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):.*## ", MAKEFILE, re.MULTILINE))


def test_there_is_a_runbook_for_each_of_the_usual_problems() -> None:
    wanted = {"bring-up", "tear-down", "upgrade", "gpu-quota", "spot-drought", "lustre-full", "restore", "alerts"}

    assert wanted <= {page.stem for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_have_at_most_120_characters(page: Path) -> None:
    prose = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]+`", "", prose)

    # tables and indented code have the lines that they need
    assert [line for line in prose.splitlines() if len(line) > 120 and not re.match(r" *\||    ", line)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_list_and_a_table_begin_after_an_empty_line_since_the_site_takes_them_for_text_otherwise(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    paragraph = r"^(?! *[-*] | *\d+\. |  |\||<!--).+\n"

    assert re.findall(paragraph + r"(?:[-*] |\d+\. |\|).*", text, re.MULTILINE) == []
    # blocks of an item are indented by four spaces, and the next item has an empty line in front
    assert re.findall(r"^ {1,3}(?:```|\|).*", page.read_text(), re.MULTILINE) == []
    assert re.findall(r"^ {4}```\n\n(?: {4}.+\n)+\d+\. .*", page.read_text(), re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"(?<![\w/])(?:infra|pipelines|docs|tests|containers)/[\w./-]*\w", page.read_text())

    assert [name for name in named if not (ROOT / name).exists() and not (page.parent / name).exists()] == []


def test_the_config_that_the_readme_shows_is_valid() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)

    assert usecase.parse(yaml.safe_load(block)).name == "bookings"


def test_the_picture_of_the_nightly_graph_is_the_one_of_the_compiled_graph() -> None:
    assert {file: file.read_text() for file in graph.draw_pictures()} == graph.draw_pictures()


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_every_link_leads_to_a_page_and_a_heading_of_it() -> None:
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True)

    assert done.returncode == 0, done.stdout + done.stderr
