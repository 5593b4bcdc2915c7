"""Where a day's rows come from: the simulator, a folder with files by day, or one table with all days."""

from datetime import date

from components.ingestion import formats
from components.ingestion.digests import Digests
from components.ingestion.sources.contents import FileContents
from components.ingestion.sources.files import FolderSource, OneTable
from components.ingestion.sources.protocol import EventSource
from components.ingestion.sources.simulated import Simulated
from nightshift import tasks
from nightshift.config import Config
from nightshift.config.columns import Holds
from nightshift.errors import UserError

SIMULATOR = "simulator"


def connect(data: str, config: Config, labels_due: date, digests: Digests | None = None) -> EventSource:
    """Return the source that `--data` and the config describe.

    Args:
        data: `simulator`, or the URI of a folder.
        config: the use case.
        labels_due: last day whose labels the simulator knows.
        digests: of files by day, as far as they are known; those that are read are added.

    Raises:
        UserError: when files are of another format, or the simulator does not make the config's columns.
    """
    if data == SIMULATOR:
        _require_simulated(config)
        return Simulated(config.simulator, labels_due, config.task.kind)
    formats.require_known(config.source)
    known = {} if digests is None else digests
    source: EventSource = FolderSource(data, config, known) if config.source.files else OneTable(data, config)
    for column in config.columns.holding(Holds.FILE).values():
        source = FileContents(source, data, column)
    return source


def _require_simulated(config: Config) -> None:
    columns, simulated = config.columns, tasks.find(config.task.kind).simulator.COLUMNS
    for name in columns.names:
        if name not in simulated:
            raise UserError(
                f"--data is {SIMULATOR!r}, which makes {', '.join(simulated)}, but config {config.name!r} names column "
                f"{name!r}; give --data with the folder of your files, or --config fraud"
            )
