"""Where a day's rows come from: the simulator, a folder with files by day, one table with all days, or a database."""

from datetime import date

from components.ingestion import formats
from components.ingestion.digests import Digests
from components.ingestion.sources.contents import FileContents
from components.ingestion.sources.files import FolderSource, OneTable
from components.ingestion.sources.protocol import EventSource
from components.ingestion.sources.simulated import Simulated
from components.ingestion.sources.sql import QuerySource
from nightshift import databases, tasks
from nightshift.config import Config
from nightshift.config.columns import Holds
from nightshift.errors import UserError

SIMULATOR = "simulator"


def connect(data: str, config: Config, labels_due: date, digests: Digests | None = None) -> EventSource:
    """Return the source that `--data` and the config describe.

    Args:
        data: `simulator`, or the URI of a folder or database.
        config: the use case.
        labels_due: last day whose labels the simulator knows.
        digests: of files by day, as far as they are known; those that are read are added.

    Raises:
        UserError: when files are of another format, the database refuses, or the simulator does not make the config's
            columns.
        UnavailableError: when the database does not answer.
    """
    if data == SIMULATOR:
        _require_simulated(config)
        return Simulated(config.simulator, labels_due, config.task.kind)
    source = _connect_rows(data, config, {} if digests is None else digests)
    for column in config.columns.holding(Holds.FILE).values():
        source = FileContents(source, data, column)
    return source


def _connect_rows(data: str, config: Config, digests: Digests) -> EventSource:
    if databases.is_database(data) != bool(config.source.query):
        raise UserError(
            f"--data is {data}, and the config has {'a' if config.source.query else 'no'} source query; "
            f"a query needs the URI of a database ({', '.join(databases.DRIVERS)}), and a database needs a query"
        )
    if config.source.query:
        return QuerySource(databases.open_database(data, read_only=True), config)
    formats.require_known(config.source)
    return FolderSource(data, config, digests) if config.source.files else OneTable(data, config)


def _require_simulated(config: Config) -> None:
    columns, simulated = config.columns, tasks.find(config.task.kind).simulator.COLUMNS
    for name in columns.names:
        if name not in simulated:
            raise UserError(
                f"--data is {SIMULATOR!r}, which makes {', '.join(simulated)}, but config {config.name!r} names column "
                f"{name!r}; give --data with the folder of your files, or --config fraud"
            )
