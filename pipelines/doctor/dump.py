"""An archive for a colleague: versions, settings, the doctor's report and a run's records and logs, without secrets."""

import io
import json
import os
import platform
import sys
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from nightshift.contracts.health import HealthReport
from pipelines.doctor.redaction import Redactor

# environment variables that say how a run is set up
PREFIXES = (
    "AIRFLOW",
    "AWS_",
    "CUDA_",
    "DOCKER_",
    "GOOGLE_",
    "KFP_",
    "MLFLOW_",
    "NIGHTSHIFT_",
    "NVIDIA_",
    "PROMETHEUS_",
)
MAX_FILE_BYTES = 1_000_000  # bytes of a log's end that are kept; larger files of other kinds are left out
SUFFIXES = (".json", ".txt", ".yaml")


@dataclass
class Dump:
    """The members of an archive so far.

    Attributes:
        redactor: removes secrets from each.
        limit: bytes of all members together.
        members: name -> content.
        left_out: names of files for which there is no room.
    """

    redactor: Redactor
    limit: int
    members: dict[str, bytes] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes of all members."""
        return sum(map(len, self.members.values()))

    def add_value(self, name: str, value: Any) -> None:
        """Add a JSON value."""
        self._add(name, json.dumps(self.redactor.clean_value(value), indent=2, sort_keys=True, default=str))

    def add_text(self, name: str, text: str) -> None:
        """Add a text."""
        self._add(name, self.redactor.clean_text(text))

    def add_file(self, name: str, path: Path) -> None:
        """Add a file: JSON as a value, of anything else the last megabyte from the beginning of a line."""
        if path.suffix == ".json" and path.stat().st_size > MAX_FILE_BYTES:
            self.left_out.append(name)
            return
        text = _read_end(path)
        try:
            self.add_value(name, json.loads(text)) if path.suffix == ".json" else self.add_text(name, text)
        except ValueError:  # a JSON file that is damaged
            self.add_text(name, text)

    def _add(self, name: str, text: str) -> None:
        content = text.encode()
        if self.size + len(content) > self.limit:
            self.left_out.append(name)
        else:
            self.members[name] = content


def gather(redactor: Redactor, limit: int, reports: Mapping[str, HealthReport], run: Path | None) -> Dump:
    """Collect what a colleague needs, the most important first.

    Args:
        redactor: removes secrets.
        limit: bytes of all members together.
        reports: the doctor's, by environment.
        run: folder of a run; None without one.
    """
    dump = Dump(redactor, limit)
    dump.add_value("versions.json", _versions())
    dump.add_value("variables.json", {name: os.environ[name] for name in os.environ if name.startswith(PREFIXES)})
    for name, report in reports.items():
        dump.add_value(f"doctor-{name}.json", report.model_dump(mode="json"))
    for path in _list_files(run) if run else ():
        dump.add_file(f"run/{path.relative_to(run)}", path)  # type: ignore[arg-type]  # there are files of a run only
    return dump


def write_archive(dump: Dump, file: Path) -> None:
    """Write the members as a .tar.gz that only its owner can read."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as target, tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, content in dump.members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _versions() -> dict[str, Any]:
    packages = {distribution.name: distribution.version for distribution in metadata.distributions()}
    return {"python": sys.version, "platform": platform.platform(), "cores": os.cpu_count(), "packages": packages}


def _list_files(run: Path) -> Iterator[Path]:
    """Yield a run's records, then its small JSON files and logs, the latest logs first."""
    files = [path for path in run.rglob("*") if path.suffix in SUFFIXES and path.is_file() and not path.is_symlink()]
    return iter(sorted(files, key=lambda path: (len(path.relative_to(run).parts), -path.stat().st_mtime)))


def _read_end(path: Path) -> str:
    with path.open("rb") as file:
        size = path.stat().st_size
        file.seek(max(0, size - MAX_FILE_BYTES))
        content = file.read(MAX_FILE_BYTES)
    if size > MAX_FILE_BYTES:
        content = content.partition(b"\n")[2]  # half a line could be half a secret
    return content.decode(errors="replace")
