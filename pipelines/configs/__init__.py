"""The use cases that ship with the project and its packages, one YAML file each."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic.json_schema import models_json_schema

from nightshift import kinds
from nightshift.config import parse
from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError, nearest

FOLDER = Path(__file__).parent
DEFAULT = "fraud"


def find_file(name_or_file: str) -> Path:
    """Return the file of a config: of a shipped one by its name.

    Raises:
        UserError: when there is none.
    """
    if name_or_file.endswith((".yaml", ".yml")):
        paths = iter([Path(name_or_file)])
    else:
        paths = (folder / f"{name_or_file}.yaml" for folder in _folders())
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        raise UserError(f"config {name_or_file!r} does not exist; give a YAML file or one of {_choices(name_or_file)}")
    return path


def _folders() -> Iterator[Path]:
    """Yield the folders of shipped configs: the project's, then those of installed packages."""
    yield FOLDER
    for kind in kinds.load_kinds().values():
        if kind.configs and (spec := find_spec(kind.configs)):
            yield from map(Path, spec.submodule_search_locations or ())


def load(name_or_file: str) -> dict[str, Any]:
    """Read and check a config by the name of a shipped one or by its file.

    Returns:
        the config with all its defaults filled in, as JSON values.

    Raises:
        UserError: when there is no such config, or it is not valid.
    """
    path = find_file(name_or_file)
    value = strict_yaml.load(path.read_bytes(), f"config {path}")
    if not isinstance(value, dict):
        raise UserError(f"config {path} is empty or not a mapping; start from {FOLDER / 'fraud.yaml'}")
    return complete(value)


def complete(value: dict[str, Any]) -> dict[str, Any]:
    """Check a config and return it with all its defaults filled in, as JSON values.

    Raises:
        UserError: when it is not valid.
    """
    # None inside a structure does not survive Kubeflow; what is absent takes its default again
    return parse(value).model_dump(mode="json", exclude_none=True)


def clocks(config: dict[str, Any]) -> dict[str, str | None]:
    """Return the cron of each pipeline of a use case.

    It is None for training where only a request starts it, and for release where nothing is released in steps.
    """
    starts = {"training": config["controller"]["retrain"] == "daily", "release": config["release"]["gradual"]}
    return {name: cron if starts.get(name, True) else None for name, cron in config["schedule"].items()}


def names() -> list[str]:
    """Return the names of the shipped configs."""
    return sorted(path.stem for folder in _folders() for path in folder.glob("*.yaml"))


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a config, by which editors check and complete one."""
    classes = {name: kind.config_class for name, kind in kinds.load_kinds().items()}
    references, definitions = models_json_schema([(config, "validation") for config in classes.values()])
    cases = [{"if": _task_schema({"const": name}), "then": references[config, "validation"]}
             for name, config in classes.items()]  # fmt: skip
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return dialect | _task_schema({"enum": list(classes)}) | {"allOf": cases} | definitions


def _task_schema(kind: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a mapping whose `task.kind` has one."""
    task = {"type": "object", "properties": {"kind": kind}, "required": ["kind"]}
    return {"type": "object", "properties": {"task": task}, "required": ["task"]}


def _choices(name: str) -> str:
    return ", ".join(names()) + nearest(name, names())
