"""Real Delta Lake and Iceberg tables, which hold the events of the Parquet files."""

import json
import os
import struct
from base64 import b85encode
from datetime import date, datetime, timedelta
from itertools import chain
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.transforms import DayTransform
from pyroaring import BitMap

from components.ingestion import sources
from nightshift.config import parse
from nightshift.contracts import tables
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift_testkit import s3

from .conftest import CONFIG, DATE

DAY = date.fromisoformat(DATE)
FSSPEC = "pyiceberg.io.fsspec.FsspecFileIO"
DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}),
    ]
)
EVENTS = {"event_id": "id", "event_time": "time", "label": "label"}


class Delta:
    """A Delta Lake table below a folder."""

    def __init__(self, root):
        self.source = {"delta": "events"}
        self.data, self._uri = str(root), f"{root}/events"

    def append(self, rows):
        write_deltalake(self._uri, rows, mode="append")

    def delete(self, name, value):
        DeltaTable(self._uri).delete(f"{name} = {value}")

    def compact(self):
        DeltaTable(self._uri).optimize.compact()

    def clean_up(self):
        table = DeltaTable(self._uri)
        table.delete()
        table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


class Iceberg:
    """An Iceberg table, partitioned by day, below a folder that says which metadata is the newest."""

    def __init__(self, root):
        self.source = {"iceberg": "sales/events"}
        self.data, self._root = str(root), root
        self._catalog = load_catalog("nights", **catalog(root))
        self._catalog.create_namespace("sales")

    @property
    def metadata(self):
        return Path(self._catalog.load_table("sales.events").metadata_location.removeprefix("file://"))

    def append(self, rows):
        if not self._catalog.table_exists("sales.events"):
            table = self._catalog.create_table("sales.events", schema=rows.schema)
            with table.update_spec() as spec:
                spec.add_field("time", DayTransform(), "day")
        self._catalog.load_table("sales.events").append(rows)
        self._hint()

    def delete(self, name, value):
        self._catalog.load_table("sales.events").delete(f"{name} = {value}")
        self._hint()

    def delete_by_position(self, row):
        """Commit what Spark writes: the file stays, beside one that names its deleted rows."""
        table, file = self._catalog.load_table("sales.events"), self._root / "deletes.parquet"
        (task,) = table.scan().plan_files()
        parquet.write_table(pa.table({"file_path": [task.file.file_path], "pos": [row]}, schema=DELETES), file)
        deletes = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES,
            file_path=f"file://{file}",
            file_format=FileFormat.PARQUET,
            partition=task.file.partition,
            record_count=1,
            file_size_in_bytes=file.stat().st_size,
        )
        deletes.spec_id = table.spec().spec_id
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
            snapshot.append_data_file(deletes)
        self._hint()

    def clean_up(self):
        for file in self._root.rglob("*.parquet"):
            file.unlink()

    def _hint(self):
        self.metadata.with_name("version-hint.text").write_text(self.metadata.name)


def catalog(root):
    return {"uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}"}


@pytest.fixture
def iceberg(tmp_path):
    root = tmp_path / "warehouse"
    root.mkdir()
    return Iceberg(root)


@pytest.fixture
def delta(tmp_path):
    return Delta(tmp_path)


@pytest.fixture(params=["delta", "iceberg"])
def table(request):
    return request.getfixturevalue(request.param)


def to_arrow(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


def rows(*times, first=0, kind=None):
    """Rows with ascending ids, at times of a type of Arrow's."""
    ids = range(first, first + len(times))
    columns = {"id": pa.array(ids, pa.int64()), "time": pa.array(times, kind), "label": [n % 2 for n in ids]}
    return pa.table(columns)


def connect(table, **source):
    config = CONFIG | {"source": table.source | source, "columns": EVENTS}
    return sources.connect(table.data, parse(config), DAY)


def at(day, hour=12):
    return datetime(2024, 3, day, hour)


def test_the_events_are_those_of_the_parquet_files(step, config, folder, table, clean_events):
    for file in sorted(folder.glob("*.parquet")):
        table.append(to_arrow(pd.read_parquet(file)))
    config["source"] = table.source
    ingested = step.ingest(config, table.data)
    assert ingested.sha256 == clean_events.sha256
    assert ingested.details["rows_without_time"] == 0
    assert ingested.details["version"] == connect_to(config, table).details["version"]


def connect_to(config, table):
    return sources.connect(table.data, parse(config), DAY)


def test_a_commit_makes_anew_the_days_that_it_touches_and_no_other(step, config, folder, table, days):
    frames = [pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))]
    for frame in frames:
        table.append(to_arrow(frame))
    config["source"] = table.source
    before = step.ingest(config, table.data)
    late = frames[3].head(1).assign(transaction_id=10**9)
    table.append(to_arrow(late))
    table.delete("transaction_id", frames[5]["transaction_id"].iloc[0])
    after = step.ingest(config, table.data)
    pairs = zip(before.partitions, after.partitions, strict=True)
    changed = {old.date: new.rows - old.rows for old, new in pairs if old.uri != new.uri}
    assert changed == {str(days[3]): 1, str(days[5]): -1}


def test_a_run_reads_one_snapshot_whatever_is_committed_meanwhile(table):
    table.append(rows(at(9), at(10)))
    source = connect(table)
    raw = source.read(DAY)
    table.append(rows(at(10, 13), first=2))
    assert raw.load()["id"].tolist() == [1]
    assert connect(table).read(DAY).load()["id"].tolist() == [1, 2]


def test_a_file_that_a_clean_up_removed_meanwhile_is_said_to_be_gone(table):
    table.append(rows(at(10)))
    raw = connect(table).read(DAY)
    table.clean_up()
    with pytest.raises(UnavailableError, match=r"cleaned up \(vacuum, expired snapshots\).*run the same command again"):
        raw.load()


@pytest.mark.parametrize(
    ("kind", "day_before", "of_day"),
    [
        (pa.timestamp("us", "UTC"), datetime(2024, 3, 9, 23, 59, 59, 999999), datetime(2024, 3, 10)),
        (pa.timestamp("us"), datetime(2024, 3, 10, 0, 59), datetime(2024, 3, 10, 1)),  # Berlin's clock
        (pa.date32(), date(2024, 3, 10), date(2024, 3, 11)),  # midnight there is the day before
        (pa.string(), "2024-03-10T00:59:59+01:00", "2024-03-10T01:00:00+01:00"),
    ],
    ids=str,
)
def test_days_are_cut_at_midnight_utc_whatever_type_times_have(delta, kind, day_before, of_day):
    delta.append(rows(day_before, of_day, kind=kind))
    source = connect(delta, timezone="Europe/Berlin")
    assert source.read(DAY).load()["id"].tolist() == [1]
    assert source.read(date(2024, 3, 9)).load()["id"].tolist() == [0]


@pytest.mark.parametrize("change", [date(2015, 3, 29), date(2015, 10, 25)], ids=str)
def test_a_change_of_clocks_at_midnight_utc_loses_no_row(delta, change):
    walls = pd.date_range(change - timedelta(days=1), periods=144, freq="30min").tolist()
    delta.append(rows(*walls, kind=pa.timestamp("us")))
    source = connect(delta, timezone="Asia/Baku")
    read = [source.read(change + timedelta(days=shift)).load()["id"].tolist() for shift in range(-2, 3)]
    assert sorted(chain.from_iterable(read)) == list(range(144))


def test_days_by_text_are_known_by_all_files(delta):
    delta.append(rows("2024-03-09", "2024-03-10"))
    before = connect(delta)
    delta.append(rows("2024-03-11", first=2))
    after = connect(delta)
    assert (before.has(DAY), before.has(date(2024, 3, 11)), after.has(date(2024, 3, 11))) == (True, False, True)
    assert before.read(DAY).sha256 != after.read(DAY).sha256


def test_rows_without_a_time_are_counted(table):
    table.append(rows(at(10), None, None))
    assert connect(table).details["rows_without_time"] == 2


def test_of_rows_with_one_id_the_same_is_first_however_files_are_arranged(delta):
    for label in (1, 0):
        delta.append(pa.table({"id": [7], "time": [at(10)], "label": [label]}))
    before = connect(delta).read(DAY).load()
    delta.compact()
    assert connect(delta).read(DAY).load().equals(before)
    assert before["label"].tolist() == [0, 1]


def test_a_day_without_rows_is_allowed_from_the_first_row_on(table):
    table.append(rows(at(8)))
    source = connect(table, empty_days="allowed")
    assert [source.has(date(2024, 3, day)) for day in (7, 8, 9)] == [False, True, True]
    assert not connect(table).has(date(2024, 3, 9))


def z85(data):
    """Another alphabet for the same digits."""
    ours = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    theirs = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    return b85encode(data).decode().translate(str.maketrans(ours, theirs))


def delete_by_vector(folder, row):
    """Commit what Databricks writes: the file stays, with a vector of deleted rows."""
    log = sorted((folder / "_delta_log").glob("*.json"))
    (added,) = [json.loads(line)["add"] for line in log[0].read_text().splitlines() if "add" in json.loads(line)]
    bitmap = BitMap([row]).serialize()
    blob = struct.pack("<iqi", 1681511377, 1, 0) + bitmap
    vector = {"storageType": "i", "pathOrInlineDv": z85(blob + b"\0" * (-len(blob) % 4)), "sizeInBytes": len(blob)}
    features = ["deletionVectors", "timestampNtz"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}
    removed = {"path": added["path"], "deletionTimestamp": 0, "dataChange": True}
    actions = [
        {"protocol": protocol},
        {"remove": removed},
        {"add": added | {"deletionVector": vector | {"cardinality": 1}}},
    ]
    (folder / "_delta_log" / f"{len(log):020d}.json").write_text("\n".join(map(json.dumps, actions)))


def test_rows_deleted_by_a_vector_are_gone_and_the_day_is_another(delta, tmp_path):
    delta.append(rows(at(10), at(10, 13), at(10, 14)))
    before = connect(delta).read(DAY)
    delete_by_vector(tmp_path / "events", row=1)
    after = connect(delta).read(DAY)
    assert after.load()["id"].tolist() == [0, 2]
    assert after.sha256 != before.sha256


@pytest.mark.slow
def test_a_catalog_is_found_by_its_name(step, config, folder, iceberg, clean_events):
    for file in folder.glob("*.parquet"):
        iceberg.append(to_arrow(pd.read_parquet(file)))
    variables = {f"PYICEBERG_CATALOG__NIGHTS__{name.upper()}": value for name, value in catalog(iceberg.data).items()}
    config["source"] = {"iceberg": "sales.events"}
    done = step.run(config, "iceberg://nights", **os.environ | variables)
    assert done.returncode == 0, done.stderr
    assert tables.read_table(step.events).sha256 == clean_events.sha256


def test_rows_deleted_by_position_are_gone_and_the_day_is_another(iceberg):
    iceberg.append(rows(at(10), at(10, 13), at(10, 14)))
    before = connect(iceberg).read(DAY)
    iceberg.delete_by_position(row=1)
    after = connect(iceberg).read(DAY)
    assert after.load()["id"].tolist() == [0, 2]
    assert after.sha256 != before.sha256


def test_without_a_catalog_the_newest_metadata_is_not_guessed(iceberg):
    iceberg.append(rows(at(10)))
    iceberg.metadata.with_name("version-hint.text").unlink()
    with pytest.raises(UserError, match=r"no version-hint.text .* --data iceberg://<catalog>"):
        connect(iceberg)
    iceberg.source = {"iceberg": f"sales/events/metadata/{iceberg.metadata.name}"}
    assert connect(iceberg).read(DAY).load()["id"].tolist() == [0]


def test_tables_may_lie_in_an_object_store(monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    with s3.bucket() as url, s3.reached_at(url):
        delta = Delta("s3://lake/tables")
        delta.append(rows(at(10)))
        assert connect(delta).read(DAY).load()["id"].tolist() == [0]
        stored = catalog(tmp_path) | {"warehouse": "s3://lake/tables", "py-io-impl": FSSPEC}
        prod = load_catalog("prod", **stored)
        prod.create_namespace("sales")
        prod.create_table("sales.events", rows(at(10)).schema).append(rows(at(10)))
        delta.data, name = prod.load_table("sales.events").metadata_location.rsplit("/metadata/", 1)
        delta.source = {"iceberg": f"metadata/{name}"}
        assert connect(delta).read(DAY).load()["id"].tolist() == [0]


def test_a_missing_table_column_or_catalog_is_named(delta, tmp_path):
    with pytest.raises(UserError, match=rf"^{tmp_path}/events \(source.delta\): .*check the path"):
        connect(delta)
    delta.append(rows(at(10)).rename_columns(["id", "time", "outcome"]))
    with pytest.raises(UserError, match=r"/events, version 0 has no column 'label' \(columns.label\); it has id, time"):
        connect(delta)
    delta.data, delta.source = "iceberg://nowhere", {"iceberg": "sales.events"}
    with pytest.raises(UserError, match=r"source.iceberg.*PYICEBERG_CATALOG__NOWHERE__URI"):
        connect(delta)


def test_exactly_one_layout_is_given():
    for source in ({"delta": "a", "table": "a.csv"}, {}):
        with pytest.raises(UserError, match=r"source: give exactly one of 'files' \(by day\), .*'delta'"):
            parse(CONFIG | {"source": source})
