"""Tasks' logs in an object store, where they outlive the pods that wrote them.

Airflow takes this module for `[logging] logging_config_class = pipelines.engines.airflow.logs.LOGGING_CONFIG` and keeps
the logs below `remote_base_log_folder`, an `s3://` or `gs://` URI. `remote_logging` stays off: it asks for the clouds'
providers, in whose place is the project's own storage.
"""

import sys
from pathlib import Path
from typing import Any

from airflow.config_templates.airflow_local_settings import DEFAULT_LOGGING_CONFIG as LOGGING_CONFIG
from airflow.configuration import conf

from nightshift import storage

__all__ = ["LOGGING_CONFIG", "REMOTE_TASK_LOG"]


ENDED = ("failed", "success", "up_for_retry")  # after they ran
ELSEWHERE = "a task whose log could not be stored has printed it: see the log of its pod (kubectl logs)"


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
        """Store the log at a path, which may be relative to the folder of logs.

        Where the store refuses it, the pod's own log keeps it: Airflow logs the error to the file that will be gone.
        """
        log = self._local / path
        uri = storage.join(self._remote, log.relative_to(self._local).as_posix())
        try:
            storage.copy(str(log), uri)
        except Exception as error:
            print(f"nightshift: the task's log could not be stored at {uri}: {error}; it follows", file=sys.stderr)
            print(log.read_text(errors="replace"), file=sys.stderr, flush=True)
            raise

    def read(self, relative_path: str, ti: Any = None) -> tuple[list[str], list[str]]:
        """Return where the logs of one try lie, and what they say; a triggerer adds its own to the worker's.

        Of a task that has ended and whose log is not there, or cannot be read, that is said instead.
        """
        uri = storage.join(self._remote, relative_path)
        folder, _, name = uri.rpartition("/")
        try:
            uris = [storage.join(folder, file) for file in storage.names(folder) if file.startswith(name)]
            logs = [storage.read_bytes(log).decode(errors="replace") for log in uris]
        except Exception as error:
            return [uri], [f"{uri} cannot be read: {error}; {ELSEWHERE}"]
        if not uris and getattr(ti, "state", None) in ENDED:
            return [uri], [f"{uri} is not there; {ELSEWHERE}"]
        return uris, logs


_FOLDER = conf.get("logging", "remote_base_log_folder", fallback="")
REMOTE_TASK_LOG = StoredLogs(conf.get("logging", "base_log_folder"), _FOLDER) if _FOLDER else None
