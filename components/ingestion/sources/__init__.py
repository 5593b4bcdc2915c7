"""Where a day's rows come from: the simulator, files, a database, a table of a lakehouse, a topic, or a package."""

from datetime import date

from components.ingestion import formats
from components.ingestion.digests import Digests
from components.ingestion.sources.contents import FileContents
from components.ingestion.sources.files import FolderSource, OneTable
from components.ingestion.sources.kafka import SCHEME, LandedTopic, Topic
from components.ingestion.sources.lakehouse import DeltaSnapshot, IcebergSnapshot, LakehouseTable
from components.ingestion.sources.protocol import EventSource
from components.ingestion.sources.simulated import Simulated
from components.ingestion.sources.sql import QuerySource
from nightshift import entry_points, storage, tasks
from nightshift.config import Config
from nightshift.config.columns import Holds
from nightshift.data import databases
from nightshift.runtime.errors import UserError

SIMULATOR = "simulator"


def connect(
    data: str, config: Config, labels_due: date, digests: Digests | None = None, landing: str = ""
) -> EventSource:
    """Return the source that `--data` and the config describe.

    Args:
        data: `simulator`, or the URI of a folder, a database, a catalog or brokers.
        config: the use case.
        labels_due: last day whose labels the simulator knows.
        digests: of files by day, as far as they are known; those that are read are added.
        landing: URI of the folder for messages of topics.

    Raises:
        UserError: when files are of another format, the simulator does not make the config's columns, a database
            refuses, or there is no such table or topic.
        UnavailableError: when a database, a table's files or brokers do not answer.
    """
    if data == SIMULATOR:
        _require_simulated(config)
        return Simulated(config.simulator, labels_due, config.task.kind)
    source = _open(data, config, {} if digests is None else digests, landing)
    for column in config.columns.holding(Holds.FILE).values():
        source = FileContents(source, data, column)
    return source


def _open(data: str, config: Config, digests: Digests, landing: str) -> EventSource:
    layout = config.source
    if third_party := entry_points.find(entry_points.SOURCES).get(data.partition("://")[0]):
        source: EventSource = third_party.load()(data, config)
        return source
    if databases.is_database(data) != bool(layout.query):
        raise UserError(
            f"--data is {data}, and the config has {'a' if layout.query else 'no'} source query; "
            f"a query needs the URI of a database ({', '.join(databases.DRIVERS)}), and a database needs a query"
        )
    if layout.query:
        return QuerySource(databases.open_database(data, read_only=True), config)
    if layout.topic:
        return LandedTopic(Topic(data.removeprefix(SCHEME).strip("/"), layout.topic), config, landing)
    if layout.delta:
        return LakehouseTable(DeltaSnapshot(storage.join(data, layout.delta)), config)
    if layout.iceberg:
        return LakehouseTable(IcebergSnapshot(data, layout.iceberg), config)
    formats.require_known(layout)
    return FolderSource(data, config, digests) if layout.files else OneTable(data, config)


def _require_simulated(config: Config) -> None:
    columns, simulated = config.columns, tasks.find(config.task.kind).simulator.list_columns(config.simulator)
    for name in columns.names:
        if name not in simulated:
            raise UserError(
                f"--data is {SIMULATOR!r}, which makes {', '.join(simulated)}, but config {config.name!r} names column "
                f"{name!r}; give --data with the folder of your files, or --config fraud"
            )
