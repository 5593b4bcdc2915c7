"""Which source files a night reads: those that their store says have changed, and no other."""

import os
from datetime import date

import pandas as pd
import pytest

from components.ingestion import digests, sources
from nightshift import storage
from nightshift.config import parse
from nightshift.runtime.errors import UnavailableError
from nightshift.tasks.tabular import simulator
from nightshift_testkit import gcs
from nightshift_testkit.processes import wait_until
from nightshift_testkit.s3 import Faulty, bucket

from .conftest import CONFIG, DATE

pytestmark = pytest.mark.slow

DAY = date.fromisoformat(DATE)
NEXT = "2024-03-11"


def test_the_second_night_reads_nothing_of_old_days(step, config, folder):
    step.lake = "s3://lake/digests"
    with bucket() as url, Faulty(url).serving() as store:

        def put(name: str, data: bytes) -> None:
            storage.write_bytes(f"s3://lake/raw/{name}", data)

        def night(day: str) -> tuple[list[str], list[str]]:
            """Ingest; return which files were read, and the partitions."""
            store.requests.clear()
            table = step.ingest(config, "s3://lake/raw", day)
            reads = [request for request in store.requests if request.startswith("GET /lake/raw/2")]
            return sorted(read.split("/")[-1][:10] for read in reads), [part.uri for part in table.partitions]

        for file in folder.iterdir():
            put(file.name, file.read_bytes())
        first, before = night(DATE)
        assert len(first) == len(before) == 7
        put(f"{DATE}.parquet", (folder / f"{DATE}.parquet").read_bytes())
        assert night(DATE) == ([], before), "the same bytes once more are no other content"

        simulator.write_days(str(folder), parse(config).simulator, [date.fromisoformat(NEXT)])
        frame = pd.read_parquet(folder / f"{DATE}.parquet")
        frame.assign(amount=frame["amount"] + 1).to_parquet(folder / f"{DATE}.parquet")
        for day in (DATE, NEXT):
            put(f"{day}.parquet", (folder / f"{day}.parquet").read_bytes())
        read, after = night(NEXT)
        assert set(read) == {DATE, NEXT}
        assert [uri for uri in after if uri in before] == before[1:-1]


def rewrite(file, data):
    file.write_bytes(data)


def rewrite_in_secret(file, data):
    """As a copy does that keeps times."""
    stat = file.stat()
    file.write_bytes(data)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def replace_by_a_copy(file, data):
    stat, draft = file.stat(), file.with_suffix(".new")
    draft.write_bytes(data)
    os.utime(draft, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    draft.rename(file)


def settle(folder):
    """Wait until the clock of the file system has ticked since the last change."""
    wait_until(lambda: None not in storage.versions(str(folder)).values(), "files are no longer new")


EDITS = [rewrite, rewrite_in_secret, replace_by_a_copy]


def test_a_change_is_noticed_however_it_was_made_and_when(tmp_path):
    known: digests.Digests = {}

    def digest():
        return sources.connect(str(tmp_path), parse(CONFIG), DAY, known).read(DAY).sha256

    file = tmp_path / f"{DATE}.parquet"
    for number in range(30):  # within a tick of the clock, some of them
        content = b"%04d" % number
        (EDITS[number % 3] if number else rewrite)(file, content)
        assert digest() == storage.sha256(content)
    assert not known
    settle(tmp_path)
    assert digest() == storage.sha256(content)
    (name,) = known
    known[name] = (known[name][0], "remembered")
    assert digest() == "remembered", "it is not read"
    raw = sources.connect(str(tmp_path), parse(CONFIG), DAY, known).read(DAY)
    for number, edit in enumerate(EDITS):
        edit(file, b"new%d" % number)
        assert digest() == storage.sha256(b"new%d" % number)
    with pytest.raises(UnavailableError, match=f"{DATE}.parquet changed while it was read"):
        raw.load()


def test_a_generation_is_a_version():
    with gcs.bucket():
        storage.write_bytes("gs://lake/raw/a.parquet", b"one")
        first = storage.versions("gs://lake/raw")
        storage.write_bytes("gs://lake/raw/a.parquet", b"two")
        second = storage.versions("gs://lake/raw")
    assert list(first) == list(second) == ["a.parquet"]
    assert None not in {first["a.parquet"], second["a.parquet"]}
    assert first != second
