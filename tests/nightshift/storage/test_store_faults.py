"""Object stores that fail: a real S3 server behind one that answers errors, late, or breaks off."""

import copy
from collections.abc import Iterator
from typing import ClassVar

import fsspec
import pandas as pd
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from nightshift import storage
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.storage import stores
from nightshift_testkit import gcs
from nightshift_testkit.s3 import Fault, Faulty, bucket

URI = "s3://lake/faulty/a.parquet"
TWICE = [
    Fault("", "", 500, 2),
    Fault("", "", 503, 2, "ServiceUnavailable"),
    Fault("", "", 503, 2, "SlowDown"),
    Fault("", "", "hang", 2),
]


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    with bucket() as url:
        yield url


@pytest.fixture
def store(moto: str) -> Iterator[Faulty]:
    with Faulty(moto).serving() as server:
        storage.write_bytes(URI, b"before")
        server.requests.clear()
        yield server


def break_twice(store: Faulty, like: Fault, method: str) -> None:
    store.faults.append(Fault(method, "lake", like.answer, like.times, like.code))


@pytest.mark.slow
@pytest.mark.parametrize("fault", TWICE, ids=lambda fault: f"{fault.answer} {fault.code}")
def test_a_write_comes_through_when_the_store_recovers(store: Faulty, fault: Fault) -> None:
    break_twice(store, fault, "PUT")

    storage.write_bytes(URI, b"after")

    assert storage.read_bytes(URI) == b"after"
    assert [request[:3] for request in store.requests].count("PUT") == 3


@pytest.mark.slow
@pytest.mark.parametrize("fault", [*TWICE, Fault("", "", "reset", 2)], ids=lambda fault: f"{fault.answer} {fault.code}")
def test_a_read_comes_through_when_the_store_recovers(store: Faulty, fault: Fault) -> None:
    break_twice(store, fault, "GET")

    assert storage.read_bytes(URI) == b"before"
    assert [request[:3] for request in store.requests].count("GET") == 3


def test_questions_what_there_is_are_asked_again(store: Faulty) -> None:
    store.faults += [Fault("HEAD", "a.parquet", 503, 1), Fault("GET", "list-type", 500, 1)]

    assert storage.exists(URI)
    assert storage.names("s3://lake/faulty") == ["a.parquet"]


def test_a_read_in_batches_is_tried_again_too(store: Faulty) -> None:
    frame = pd.DataFrame({"x": range(1000)})
    storage.write_frame(URI, frame)
    store.faults += [Fault("GET", "a.parquet", "reset", 1), Fault("GET", "a.parquet", 500, 1)]

    pd.testing.assert_frame_equal(pd.concat(storage.read_batches(URI, ["x"])), frame)


@pytest.mark.slow
def test_a_store_that_stays_broken_is_given_up_on_with_what_it_said_and_how_often(store: Faulty) -> None:
    store.faults.append(Fault("PUT", "lake", 503, 100, "SlowDown"))

    with pytest.raises(UnavailableError) as raised:
        storage.write_bytes(URI, b"after")

    assert str(raised.value) == f"{URI}: We are sorry. (5 tries); check the store, then run the same command again"
    assert [request[:3] for request in store.requests].count("PUT") == 5
    assert storage.read_bytes(URI) == b"before"


@pytest.mark.parametrize("code", ["RequestTimeout", "Throttling"])
def test_throttling_that_s3_answers_with_status_400_is_tried_again(store: Faulty, code: str) -> None:
    store.faults.append(Fault("PUT", "lake", 400, 1, code))

    storage.write_bytes(URI, b"after")

    assert storage.read_bytes(URI) == b"after"


@pytest.mark.parametrize(("status", "code"), [(403, "AccessDenied"), (404, "NoSuchBucket"), (400, "InvalidRequest")])
def test_a_users_mistake_is_asked_once(store: Faulty, status: int, code: str) -> None:
    store.faults.append(Fault("PUT", "lake", status, 100, code))

    with pytest.raises(UserError, match=r"s3://lake/faulty/a\.parquet"):
        storage.write_bytes(URI, b"after")

    assert len(store.requests) == 1


def test_a_mistake_of_ours_is_no_answer_of_a_store_and_is_made_once(store: Faulty) -> None:
    with pytest.raises(UserError, match="TypeError"):
        storage.write_bytes(URI, 3)


def test_a_bucket_whose_name_cannot_be_is_the_users_mistake(store: Faulty) -> None:
    with pytest.raises(UserError, match="Invalid bucket name"):
        storage.write_bytes("s3://no such bucket/a", b"")


def test_no_option_of_ours_reaches_other_users_of_fsspec(store: Faulty) -> None:
    before = copy.deepcopy(fsspec.config.conf)

    storage.read_bytes(URI)

    assert fsspec.config.conf == before
    assert fsspec.filesystem("s3").retries > 1


class Azure(MemoryFileSystem):
    """A store whose answers carry a `status_code`, as those of Azure do."""

    protocol = "azure"
    answers: ClassVar[list[int]] = []

    def cat_file(self, path: str, *_: object, **__: object) -> bytes:
        error = RuntimeError("The server is busy.")
        error.status_code = self.answers.pop(0)
        raise error


@pytest.mark.slow
@pytest.mark.parametrize(("answers", "expected"), [([429, 503, 401], UserError), ([503] * 5, UnavailableError)])
def test_throttling_by_azure_is_not_the_users_mistake(answers: list[int], expected: type[Exception]) -> None:
    fsspec.register_implementation("azure", Azure, clobber=True)
    Azure.answers[:] = answers

    with pytest.raises(expected, match="The server is busy"):
        storage.read_bytes("azure://lake/a")

    assert not Azure.answers


@pytest.mark.parametrize(("code", "expected"), [(429, UnavailableError), (503, UnavailableError), (401, UserError)])
def test_googles_answers_are_judged_by_their_status(code: int, expected: type[Exception]) -> None:
    with gcs.bucket():
        fs, _ = stores.open_store("gs://lake/a")
        from gcsfs.retry import HttpError

        error = stores.translate(HttpError({"code": code, "message": "We are sorry."}), "gs://lake/a", fs)

    assert type(error) is expected
    assert str(error).startswith(f"gs://lake/a: HttpError: We are sorry., {code}; check the ")
