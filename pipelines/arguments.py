"""The arguments of a run of a pipeline, gathered and checked for every engine."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nightshift.contracts.state import State
from nightshift.data.databases import is_database, parse_uri
from nightshift.data.dates import parse_date
from nightshift.data.splits import last_complete_day
from nightshift.runtime.errors import UserError, nearest
from pipelines import documents, ir
from pipelines.environments import LOCAL, site
from pipelines.images import find_pushed_images
from pipelines.placement import place_steps

COMPILED = Path(__file__).parent / "compiled"
DEFAULT = "training"
SIMULATOR = "simulator"
FIELD = "state."  # in options: one field of the state
_TYPES: dict[str, tuple[type, ...]] = {
    "STRING": (str,),
    "NUMBER_INTEGER": (int,),
    "NUMBER_DOUBLE": (int, float),
    "BOOLEAN": (bool,),
    "STRUCT": (dict,),
    "LIST": (list,),
}


def gather_arguments(pipeline: ir.Pipeline, options: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a pipeline's parameters.

    Args:
        pipeline: the pipeline.
        options: values for its parameters, the config whole or by its name, a field of the state as `state.<field>`;
            what it does not declare is an error.
        state: the environment's fields of the state.

    Raises:
        UserError: for an unknown name, a missing value, a wrong type, an invalid config or a password in `data`.
    """
    if is_database(data := str(options.get("data", SIMULATOR))):
        parse_uri(data)  # before the run's files and logs show it
    defaults = {"date": yesterday(), "data": SIMULATOR, "device": "cpu"}
    # a compiled pipeline's own defaults go before these
    required = {name for name, parameter in pipeline.parameters.items() if parameter.default is None}
    values = {name: value for name, value in defaults.items() if name in required} | options
    if "config" in pipeline.parameters:
        from pipelines import configs

        config = values.get("config", configs.DEFAULT)
        values["config"] = configs.complete(config) if isinstance(config, dict) else configs.load(str(config))
    if "state" in pipeline.parameters:
        values = _merge_state(pipeline.parameters["state"], values, state)
    return check_arguments(pipeline, values)


def _merge_state(parameter: ir.Parameter, values: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return the values with their fields of the state merged into one, which is checked."""
    whole = _check_value("state", parameter, values.get("state", {}))
    single = {name.removeprefix(FIELD): value for name, value in values.items() if name.startswith(FIELD)}
    others = {name: value for name, value in values.items() if not name.startswith(FIELD)}
    return others | {"state": State.from_mapping({**state, **(parameter.default or {}), **whole, **single}).dump()}


def run_name(pipeline: ir.Pipeline, values: dict[str, Any], end: str = "") -> str:
    """Return the name of a run with these parameters: use case, pipeline, date and an end, by default the time."""
    use_case = [values["config"]["name"]] if "config" in values else []
    days = [str(parse_date(values["date"]))] if "date" in values else []
    return "-".join([*use_case, pipeline.name, *days, end or f"{datetime.now(UTC):%Y%m%dT%H%M%S%f}"])


def load_compiled(name_or_file: str, environment: str = LOCAL.name) -> ir.Pipeline:
    """Read a compiled pipeline by the name of a shipped one, placed as in an environment, or by its file.

    What was compiled for that environment, such as with `--trainjobs`, goes before what is placed now. A shipped one
    names the images that were pushed, see `pipelines.images`.

    Raises:
        UserError: when there is none of that name, or the file is not there.
    """
    if name_or_file.endswith((".yaml", ".yml")):
        return ir.load(Path(name_or_file))
    known = list_shipped()
    if name_or_file not in known:
        raise UserError(
            f"pipeline {name_or_file!r} does not exist; give a file of compiled YAML or one of "
            f"{', '.join(known)}{nearest(name_or_file, known)}"
        )
    own, common = (COMPILED / folder / f"{name_or_file}.yaml" for folder in (environment, LOCAL.name))
    parsed = documents.read(own) if own.exists() else place_steps(documents.read(common)[0], site(environment))
    images = find_pushed_images()
    for executor in parsed[0]["deploymentSpec"]["executors"].values():
        container = executor["container"]
        container["image"] = images.get(container["image"], container["image"])
    return ir.interpret(parsed)


def list_shipped() -> list[str]:
    """Return the names of the shipped pipelines."""
    return sorted(path.stem for path in (COMPILED / LOCAL.name).glob("*.yaml"))


def check_arguments(pipeline: ir.Pipeline, values: dict[str, Any]) -> dict[str, Any]:
    """Check the values for a pipeline's parameters and add the defaults.

    Raises:
        UserError: for an unknown name, a missing value or a wrong type.
    """
    for name in values:
        if name not in pipeline.parameters:
            allowed = ", ".join(pipeline.parameters) or "none"
            raise UserError(
                f"{pipeline.name} has no parameter {name!r}; it has: {allowed}{nearest(name, pipeline.parameters)}"
            )
    return {
        name: _check_value(name, parameter, values.get(name, parameter.default))
        for name, parameter in pipeline.parameters.items()
    }


def _check_value(name: str, parameter: ir.Parameter, value: Any) -> Any:
    if value is None:
        raise UserError(f"parameter {name!r} has no value and no default; give it with --set {name}=...")
    if not isinstance(value, _TYPES[parameter.type]) or (isinstance(value, bool) and parameter.type != "BOOLEAN"):
        raise UserError(f"parameter {name!r} is {value!r}; it takes a {parameter.type}")
    return value


def yesterday() -> str:
    """Return the last complete UTC day."""
    return str(last_complete_day(datetime.now(UTC)))


def absolute(data: str) -> str:
    """Make a local path independent of the working folder, so that a run can be resumed from anywhere."""
    return data if data == SIMULATOR or "://" in data else str(Path(data).resolve())
