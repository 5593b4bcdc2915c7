"""The names of the distributions: `nightshift` is another project's on the package index."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from nightshift import DISTRIBUTION
from nightshift_image_text import DISTRIBUTION as IMAGE_TEXT
from nightshift_llm import DISTRIBUTION as LLM

ROOT = Path(__file__).parents[1]
OURS = (DISTRIBUTION, IMAGE_TEXT, LLM, "nightshift-perf", "nightshift-testkit")
# a requirement, a word of an installer, a question to the metadata
OTHERS = re.compile(
    r"""(?<![\w./-])nightshift(\[[\w,]+\]|\s*[=~>]=\s*\d)|(pip install|uv add)\b[^\n]*[ '"]nightshift(['" ]|$)"""
    r"""|\b(version|requires|distribution|files)\(["']nightshift["']\)""",
    re.MULTILINE,
)


def test_each_project_has_the_name_that_the_code_knows() -> None:
    files = [ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml"))]

    assert tuple(tomllib.loads(file.read_text())["project"]["name"] for file in files) == OURS


@pytest.mark.slow
def test_no_file_means_the_distribution_of_others() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    texts = {name: (ROOT / name).read_bytes().decode(errors="ignore") for name in listed.stdout.splitlines()}

    assert [f"{name}: {match[0]}" for name, text in texts.items() for match in OTHERS.finditer(text)] == []
