"""A project's files, and what is refused before one is written."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from nightshift.runtime.errors import UserError
from pipelines import configs
from pipelines.scaffold import project
from tests.test_docs import ROOT
from tests.test_workflows import WORKFLOWS

HOSTILE = 'it\'s "data" {{ 7 * 7 }}; $(reboot)\nschedule: {}'


@pytest.mark.parametrize("config", ["fraud", "leads", "digits", "topics"])
def test_a_project_holds_a_valid_config_of_its_name_and_little_else(config: str, tmp_path: Path) -> None:
    files = project.create(tmp_path, "my-case", config, "simulator")

    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()} == set(files)
    assert len(files) == 9
    assert configs.load(str(tmp_path / "dags/my-case.yaml")) == configs.load(config) | {"name": "my-case"}


@pytest.mark.parametrize("data", ["simulator", "s3://bucket/raw", HOSTILE])
def test_data_of_any_name_is_one_value_in_each_file(data: str) -> None:
    files = project.render("my-case", data).files

    (keyword,) = ast.parse(files["dags/my_case.py"]).body[-1].value.keywords
    assert (keyword.arg, keyword.value.value) == ("data", data)
    assert yaml.safe_load(files["infra/aws-dev.yaml"])["schedule"]["data"] == data
    compile(files["tests/test_project.py"], "test_project.py", "exec")
    assert tomllib.loads(files["pyproject.toml"])["project"]["name"] == "my-case"


@pytest.mark.slow
def test_a_checkout_reads_the_answers_of_a_project(tmp_path: Path) -> None:
    project.create(tmp_path, "my-case", "fraud", "simulator")
    command = [sys.executable, "-m", "infra.cloud", "schedule", "aws", "dev", "--dry-run"]
    variables = os.environ | {"NIGHTSHIFT_ANSWERS": str(tmp_path / "infra")}

    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=True)

    assert "--config ../my-case/dags/my-case.yaml --data simulator" in done.stdout


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("My Case", "fraud", "name: .*, got 'My Case'"),
        ("../case", "fraud", "name: .*, got '../case'"),
        ("", "fraud", "name: .*, got ''"),
        ("my-case", "froud", "'froud' does not exist; .*; did you mean 'fraud'"),
        ("my-case", "broken.yaml", "'broken.yaml' does not exist"),
    ],
)
def test_a_wrong_name_or_config_writes_nothing(name: str, config: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        project.create(tmp_path, name, config, "simulator")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("occupied", ["notes.txt", "dags", ".gitignore"])
def test_a_folder_with_something_in_it_is_refused_and_left_alone(occupied: str, tmp_path: Path) -> None:
    (tmp_path / occupied).touch()

    with pytest.raises(UserError, match=f"has {re.escape(occupied)} already; .* empty folder"):
        project.create(tmp_path, "my-case", "fraud", "simulator")

    assert [path.name for path in tmp_path.iterdir()] == [occupied]


def test_an_environment_and_a_repository_may_be_there_already(tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".git").mkdir()

    assert "dags/my-case.yaml" in project.create(tmp_path, "my-case", "fraud", "simulator")


def test_the_workflow_pins_the_actions_of_our_own() -> None:
    ours = {action for workflow in WORKFLOWS for action in re.findall(r"uses: (.*)", workflow.read_text())}
    theirs = project.render("my-case", "simulator").files[".github/workflows/checks.yaml"]

    assert set(re.findall(r"uses: (.*)", theirs)) <= ours
    assert yaml.safe_load(theirs)["permissions"] == {}
