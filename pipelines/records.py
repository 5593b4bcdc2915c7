"""The folders of runs, which every engine fills alike, and their records."""

from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightshift import storage
from nightshift.runtime.errors import UserError, nearest

if TYPE_CHECKING:
    from pydantic import TypeAdapter

FILE = "run.json"


@dataclass(frozen=True)
class Record:
    """What readers need of a run's `run.json`.

    Attributes:
        pipeline: what it ran.
        started: when, UTC.
        parameters: its arguments.
        complete: whether every step went well.
        steps: those that ended -> how, see `pipelines.engines.local.run.Run.record`.
    """

    pipeline: str
    started: datetime
    parameters: dict[str, Any]
    complete: bool
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def use_case(self) -> str | None:
        """The name in its config; None of a pipeline that has none."""
        config = self.parameters.get("config")
        name = config.get("name") if isinstance(config, dict) else None
        return None if name is None else str(name)


def read(folder: Path) -> Record:
    """Read a run's record.

    Raises:
        UserError: when it is missing or no record.
    """
    path = str(folder / FILE)
    return parse(storage.read_bytes(path), path)


def parse(content: bytes, path: str) -> Record:
    """Check the bytes of a run's record.

    Raises:
        UserError: when they are no record.
    """
    from pydantic import ValidationError

    try:
        return _adapter().validate_json(content)
    except ValidationError as error:
        (first, *_) = error.errors()
        what = ": ".join([*map(str, first["loc"]), first["msg"]])
        raise UserError(f"{path} is no record of a run ({what}); start a new run, remove this one by hand") from None


@cache
def _adapter() -> "TypeAdapter[Record]":
    from pydantic import TypeAdapter

    return TypeAdapter(Record)


def find_folder(run: str, runs: str) -> Path:
    """Return a run's folder.

    Raises:
        UserError: when no folder of that name has a record; a path is no name.
    """
    if run not in {path.parent.name for path in Path(runs).glob(f"*/{FILE}")}:
        known = [path.name for path in newest_first(Path(runs))]
        newest = f"; the newest is {known[0]}" if known else ""
        raise UserError(f"there is no run {run!r} in {runs}{newest}{nearest(run, known)}")
    return (Path(runs) / run).resolve()


def newest_first(runs: Path, prefix: str = "") -> list[Path]:
    """Return the folders of the runs whose names begin like that, in the order of their last records.

    Names are in no order: those of Airflow's runs end in whatever Airflow, or a person, has called them.
    """
    files = [path for path in runs.glob(f"{prefix}*/{FILE}") if not path.parent.is_symlink()]
    return [path.parent for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)]
