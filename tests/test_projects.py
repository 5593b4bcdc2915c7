"""The pages of docs/projects: each command runs, and the page shows what it prints."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import projects
from pipelines.cli.projects import PAGES, list_commands

QUICK = {"cheapest-server", "efficiency-across-nodes", "serve-70b", "top-operations"}
EVERY = "NIGHTSHIFT_TEST_PROJECTS"  # environment variable: all pages, some of minutes, with commands of other tests
NAMES = sorted(page.stem for page in PAGES.glob("*.md"))


@pytest.mark.slow
def test_the_command_lists_every_project_with_its_page_and_its_first_command() -> None:
    command = [sys.executable, "-m", "pipelines.cli", "projects"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert len(NAMES) == 12
    assert re.findall(r"docs/projects/([\w-]+)\.md", printed) == NAMES
    for name in NAMES:
        text = (PAGES / f"{name}.md").read_text()
        assert f"{text.partition(chr(10))[0].removeprefix('# ')}\n" in printed
        assert f"    {next(list_commands(text))}\n" in printed


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_its_first_command_on_its_first_screen_and_shows_what_it_printed(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text()

    assert text[: text.index("    nightshift ")].count("\n") < 24
    assert f"<!-- figures: project-{name} -->" in text
    assert "**What to read in it**" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES if EVERY in os.environ else sorted(QUICK))
def test_the_commands_of_a_page_run_and_print_what_it_shows(name: str, tmp_path: Path) -> None:
    lines = projects.run_page(PAGES / f"{name}.md", tmp_path)

    commands = len(list(list_commands((PAGES / f"{name}.md").read_text())))
    shown = {number for number, line in lines if re.search(projects.SHOWN[name], line)}
    assert shown == set(range(1, commands + 1)), lines
