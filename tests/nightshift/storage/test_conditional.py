"""Compare-and-set on a disk, on an S3 server and on a server that speaks Google Cloud Storage's API."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightshift import storage
from nightshift.runtime.errors import UserError
from nightshift.storage import conditional
from nightshift_testkit import gcs, s3


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    with s3.bucket() as url, s3.reached_at(url):
        yield "s3://lake"


@pytest.fixture
def google() -> Iterator[gcs.BucketStore]:
    with gcs.bucket() as store:
        yield store


@pytest.fixture(params=["disk", "s3", "gs"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "disk":
        return str(tmp_path / "deep" / "record.json")
    fixture = request.getfixturevalue("bucket" if request.param == "s3" else "google")
    return f"{fixture if request.param == 's3' else 'gs://lake'}/{tmp_path.name}/record.json"


def test_only_the_writer_that_saw_the_newest_version_writes(uri: str) -> None:
    nothing, absent = conditional.read(uri)
    assert (nothing, absent) == (None, conditional.ABSENT)
    assert conditional.compare_and_set(uri, absent, b"one")
    assert not conditional.compare_and_set(uri, absent, b"another first one")

    content, version = conditional.read(uri)
    assert content == b"one"
    assert conditional.compare_and_set(uri, version, b"two")
    assert not conditional.compare_and_set(uri, version, b"three")
    assert conditional.read(uri)[0] == storage.read_bytes(uri) == b"two"


def test_a_file_that_was_removed_meanwhile_is_not_written(uri: str) -> None:
    if uri.startswith("gs"):
        pytest.skip("the small store removes nothing")
    conditional.compare_and_set(uri, conditional.ABSENT, b"one")
    _, version = conditional.read(uri)
    storage.remove(uri)

    assert not conditional.compare_and_set(uri, version, b"two")
    assert conditional.read(uri) == (None, conditional.ABSENT)


def test_a_refused_write_leaves_no_draft(tmp_path: Path) -> None:
    uri = str(tmp_path / "record.json")
    conditional.compare_and_set(uri, conditional.ABSENT, b"one")
    conditional.compare_and_set(uri, "another version", b"two")

    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


@pytest.mark.slow
def test_a_write_whose_answer_was_lost_counts_as_written(google: gcs.BucketStore, bucket: str) -> None:
    google.failures, google.lost = [503], True
    assert conditional.compare_and_set("gs://lake/record.json", conditional.ABSENT, b"one")

    with s3.Faulty(os.environ["AWS_ENDPOINT_URL"]).serving() as store:
        store.faults.append(s3.Fault("PUT", "lost", "lost", 1))
        assert conditional.compare_and_set("s3://lake/lost", conditional.ABSENT, b"one")


def test_a_store_without_conditions_is_refused() -> None:
    for write in (lambda: conditional.read("memory://a"), lambda: conditional.compare_and_set("memory://a", "", b"")):
        with pytest.raises(UserError, match=r"cannot write on a condition; give a folder, s3://\.\.\. or gs://\.\.\."):
            write()


@pytest.mark.slow
def test_a_server_that_ignores_conditions_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with s3.rclone(tmp_path):
        with pytest.raises(UserError, match=r"^s3://lake/run/record.json: this server ignores the condition"):
            conditional.compare_and_set("s3://lake/run/record.json", conditional.ABSENT, b"one")
        assert not storage.walk("s3://lake")
