"""Tasks' logs in an object store, where they outlive the pods that wrote them.

Airflow takes this module for `[logging] logging_config_class = pipelines.engines.airflow.logs.LOGGING_CONFIG` and keeps
the logs below `remote_base_log_folder`, an `s3://` or `gs://` URI. `remote_logging` stays off: it asks for the clouds'
providers, in whose place is the project's own storage.
"""

from pathlib import Path
from typing import Any

from airflow.config_templates.airflow_local_settings import DEFAULT_LOGGING_CONFIG as LOGGING_CONFIG
from airflow.configuration import conf

from components.common import storage

__all__ = ["LOGGING_CONFIG", "REMOTE_TASK_LOG"]


class StoredLogs:
    """Uploads a task's log when it has ended, and reads it for its page.

    Args:
        local: folder where Airflow writes logs.
        remote: URI of the folder where they are kept, under the same names.
    """

    processors: tuple[Any, ...] = ()  # nothing is done with single lines

    def __init__(self, local: str, remote: str) -> None:
        self._local = Path(local)
        self._remote = remote

    def upload(self, path: Path | str, _ti: Any = None) -> None:
        """Store the log at a path, which may be relative to the folder of logs."""
        found = self._local / path
        storage.copy(str(found), storage.join(self._remote, found.relative_to(self._local).as_posix()))

    def read(self, relative_path: str, _ti: Any = None) -> tuple[list[str], list[str]]:
        """Return where the logs of one try lie, and what they say; a triggerer adds its own to the worker's."""
        folder, _, name = storage.join(self._remote, relative_path).rpartition("/")
        found = [storage.join(folder, each) for each in storage.names(folder) if each.startswith(name)]
        return found, [storage.read_bytes(uri).decode(errors="replace") for uri in found]


_FOLDER = conf.get("logging", "remote_base_log_folder", fallback="")
REMOTE_TASK_LOG = StoredLogs(conf.get("logging", "base_log_folder"), _FOLDER) if _FOLDER else None
