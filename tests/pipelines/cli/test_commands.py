"""The table of commands: what it says is what the modules say, and a command imports its own module only."""

import argparse
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift_perf.cli import ACTIONS
from nightshift_testkit.processes import SECONDS
from pipelines.cli.__main__ import COMMANDS, GROUPS, parse_command_line
from tests.pipelines.samples import command

PACKAGES = [f"perf {name}" for name in ACTIONS] + [
    f"llm {name}" for name in ("convert", "quantize", "judge", "suite", "evaluate", "drift")
]
PACKAGES.append("image-text seen")
NAMES = [name for texts in COMMANDS.values() for name in texts] + PACKAGES
LISTED = """
import contextlib, sys
from pipelines.cli.__main__ import parse_command_line

with contextlib.redirect_stdout(None), contextlib.suppress(SystemExit):
    parse_command_line(sys.argv[1:])
print(*sys.modules)
"""


def added(module: str) -> dict[str, str]:
    """Return the commands that a module adds, and what `nightshift --help` says of them."""
    texts = dict[str, str]()

    class Commands:
        def add_parser(self, name: str, **options: str) -> argparse.ArgumentParser:
            texts[name] = options["help"]
            return argparse.ArgumentParser()

    importlib.import_module(f"pipelines.cli.{module}").add(Commands())
    return texts


@pytest.mark.parametrize("module", COMMANDS)
def test_the_table_names_the_commands_of_a_module_with_their_help(module: str) -> None:
    assert COMMANDS[module] == added(module)


@pytest.mark.parametrize("words", [["-h"], ["-h", "models"]])
def test_help_lists_all_commands_in_the_order_of_the_table(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_command_line(words)
    first = next(iter(GROUPS))
    listed = capsys.readouterr().out.partition(f"\n{first}:\n")[2]
    names = [name for modules in GROUPS.values() for module in modules for name in COMMANDS[module]]
    assert re.findall(r"^  (\S+)", listed, re.MULTILINE) == [*names, "image-text", "llm", "perf"]
    assert re.findall(r"^(\S+):$", f"{first}:\n{listed}", re.MULTILINE) == [*GROUPS, "image-text", "llm", "perf"]


def test_every_command_is_in_one_group() -> None:
    assert sorted(module for modules in GROUPS.values() for module in modules) == sorted(COMMANDS)


@pytest.mark.parametrize("name", NAMES)
def test_a_flags_help_is_understood_without_the_flags_name(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")  # a line each
    with pytest.raises(SystemExit):
        parse_command_line([*name.split(), "--help"])
    texts = re.findall(r"^  \S.*?(?:  +|\n {10,})(\S.*)$", capsys.readouterr().out, re.MULTILINE)
    assert texts
    assert [text for text in texts if re.match(r"\W|(of|that|which|until|in|for|as|where|what) ", text)] == []


@pytest.mark.slow
@pytest.mark.parametrize(("words", "modules"), [(["--help"], set()), (["gc", "--help"], {"gc"})])
def test_only_the_module_of_the_named_command_is_imported(words: list[str], modules: set[str]) -> None:
    done = subprocess.run([sys.executable, "-c", LISTED, *words], capture_output=True, text=True, check=True)
    imported = {name.removeprefix("pipelines.cli.") for name in done.stdout.split()}
    assert imported & COMMANDS.keys() == modules
    assert not [name for name in imported if name.startswith(("nightshift_llm.", "nightshift_perf."))]


@pytest.mark.parametrize("words", [["modles"], []])
def test_a_command_that_does_not_exist_is_answered_with_one_line_and_exit_code_two(words: list[str]) -> None:
    done = command(*words)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "usage: nightshift [-h] command ..."
    assert len(done.stderr.splitlines()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("words", [["models"], ["release", "status"], ["gc"]])
def test_a_command_about_versions_imports_no_library_that_takes_long(
    words: list[str], stocked: str, tmp_path: Path
) -> None:
    release_record.promote(ReleaseRef(stocked, "fraud"), 1)
    command = [sys.executable, "-X", "importtime", "-m", "pipelines.cli", *words, "--workspace", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    imported = set(re.findall(r"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert "pipelines.cli.options" in imported
    assert not imported & {"mlflow", "numpy", "onnxruntime", "pandas", "pyarrow", "sqlalchemy", "torch"}
