"""The files of a project, rendered for its name and its data."""

import shlex
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from pydantic import Field

from nightshift import DISTRIBUTION, storage
from nightshift.contracts.artifact import Artifact
from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError
from pipelines import configs
from pipelines.configs import edits

RECORD = ".nightshift.json"
CONFIG = "dags/{name}.yaml"  # beside the DAG, so that Airflow needs that folder only
SCHEMA_COMMENT = "# yaml-language-server:"  # names a file that only a checkout has
# file -> template
TEMPLATES = {
    "README.md": "README.md.j2",
    "pyproject.toml": "pyproject.toml.j2",
    "dags/{module}.py": "dag.py.j2",
    "infra/aws-dev.yaml": "answers.yaml.j2",
    "tests/test_project.py": "test_project.py.j2",
    ".github/workflows/checks.yaml": "checks.yaml.j2",
    ".gitignore": "gitignore.j2",
}


class ProjectRecord(Artifact):
    """What a project's files were rendered from and how they looked, which an update compares with."""

    version: str = Field(description="version of the distribution that has rendered the files")
    name: str = Field(description="name of the use case", pattern=r"^[a-z][a-z0-9-]*$")
    data: str = Field(description="folder or URI of the raw events, or simulator")
    files: dict[str, str] = Field(description="file, relative to the project -> its text as rendered")


def create(folder: Path, name: str, config: str, data: str) -> list[str]:
    """Write the files of a new project, and return their names.

    Args:
        folder: has nothing in it but hidden entries, such as `.git` and `.venv`.
        name: of the use case.
        config: that the project's begins as: the name of a shipped one, or a YAML file.
        data: folder or URI of the raw events, or `simulator`.

    Raises:
        UserError: when the folder is not empty, or there is no such config, or the name is not valid. Nothing is
            written.
    """
    config_file = {CONFIG.format(name=name): copy_config(name, config)}
    project = render(name, data)
    files = project.files | config_file
    visible = [entry.name for entry in folder.iterdir() if not entry.name.startswith(".")]
    occupied = sorted({*visible, *(file for file in (*files, RECORD) if (folder / file).exists())})
    if occupied:
        raise UserError(f"{folder.resolve()} has {occupied[0]} already; run nightshift init in an empty folder")
    write_files(folder, files)
    project.write(str(folder / RECORD))
    return [*files, RECORD]


def render(name: str, data: str) -> ProjectRecord:
    """Return the files of a project as this version renders them, without its config, which is the user's."""
    # nothing of it is HTML; what a user names is quoted where it is put
    environment = Environment(  # noqa: S701
        loader=PackageLoader("pipelines.scaffold"), undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters["shell"] = shlex.quote
    installed, module = version(DISTRIBUTION), name.replace("-", "_")
    values = {"name": name, "module": module, "data": data, "distribution": DISTRIBUTION, "version": installed}
    files = {
        file.format(module=module): environment.get_template(template).render(values)
        for file, template in TEMPLATES.items()
    }
    return ProjectRecord.model_validate({"schema": 1, "version": installed, "name": name, "data": data, "files": files})


def copy_config(name: str, config: str) -> str:
    """Return the text of a config under another name.

    Raises:
        UserError: when there is no such config, or it is not valid with that name.
    """
    text = configs.find_file(config).read_text(encoding="utf-8")
    if text.startswith(SCHEMA_COMMENT):
        text = text.partition("\n")[2]
    renamed = edits.set_values(text, {("name",): name})
    if renamed is None:
        raise UserError(f"config {config!r} has no name that can be replaced; set it to {name!r} in a copy")
    configs.complete(strict_yaml.load_document(renamed))
    return renamed


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write texts into files of a project, each with its folder."""
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        storage.write_bytes(str((folder / file).resolve()), text.encode())
