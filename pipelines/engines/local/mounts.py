"""What of this machine a step's container sees: the state, the raw data, its own folder, and how to log in."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nightshift.contracts.state import ROOTS
from nightshift.data import databases
from nightshift.runtime.errors import UserError
from pipelines import ir

# variables that name a file, and where it is without them, as the stores' libraries look for it
LOGINS = {
    "GOOGLE_APPLICATION_CREDENTIALS": "~/.config/gcloud/application_default_credentials.json",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
# keys, regions and endpoints, which are no files
PREFIXES = (
    *("AWS_", "HF_ENDPOINT", "HF_TOKEN", "MLFLOW_TRACKING_", "NIGHTSHIFT_KAFKA", "NIGHTSHIFT_NOTIFY"),
    *("OPENLINEAGE_", "OTEL_", "PYICEBERG_", "TRACEPARENT"),
)


def volumes(task: ir.PipelineTask, arguments: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return what a step sees, path -> `rw` or `ro`, beside the files of `logins`.

    A step without the state reads the lake too, by the URIs in its inputs, but has nothing to write there.

    Args:
        task: the step.
        arguments: the run's parameters.
        folder: the run's.
    """
    mode = "rw" if "state" in task.parameters else "ro"
    data = [databases.local_folder(arguments["data"]) or arguments["data"]] if "data" in task.parameters else []
    seen = dict.fromkeys(filter(is_local, data), "ro") | dict.fromkeys(roots(arguments, folder), mode)
    return seen | {str(folder / task.name): "rw"}


def roots(arguments: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the folders of this machine that hold a run's state, the one of all runs among them."""
    state = arguments.get("state", {})
    return [*filter(is_local, (state[root] for root in ROOTS if root in state)), str(folder.parent)]


def is_local(uri: str) -> bool:
    """Return whether data is a folder of this machine, and neither a URI nor the simulator."""
    return uri.startswith("/")


def logins(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return variable -> file, of those files that hold a login to a store and are there.

    Raises:
        UserError: when a variable names a file that is not there.
    """
    files = {}
    for name, usual in LOGINS.items():
        file = Path(variables.get(name) or usual.replace("~", variables.get("HOME", "~"), 1))
        if file.is_file():
            files[name] = str(file.resolve())
        elif variables.get(name):
            raise UserError(f"{name} is {str(file)!r}, and there is no such file; correct it or unset it")
    return files


def credentials(variables: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment variables by which a step logs in to stores, catalogs, brokers, a database, receivers."""
    names = [name for name in variables if name.startswith(PREFIXES) or name == databases.PASSWORD]
    return {name: variables[name] for name in names} | logins(variables)
