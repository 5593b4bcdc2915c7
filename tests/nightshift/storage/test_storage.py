"""Files behind URIs, on a disk and on an S3 server that really answers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from nightshift import storage
from nightshift.runtime.errors import UserError
from nightshift_testkit import s3


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """The URI of a bucket on an S3 server of this test."""
    with s3.bucket() as url, s3.reached_at(url):
        yield "s3://lake"


@pytest.fixture
def other_bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a bucket on another S3 server."""
    with s3.rclone(tmp_path_factory.mktemp("rclone")):
        yield "s3://lake"


@pytest.fixture(params=["disk", "bucket", pytest.param("other_bucket", marks=pytest.mark.slow)])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder on a disk, and one on each server."""
    return str(tmp_path) if request.param == "disk" else f"{request.getfixturevalue(request.param)}/{tmp_path.name}"


def test_bytes_come_back_as_they_were_written(root: str) -> None:
    storage.write_bytes(storage.join(root, "deep", "down", "a.bin"), b"\x00\xff")

    assert storage.read_bytes(storage.join(root, "deep", "down", "a.bin")) == b"\x00\xff"


def test_a_write_replaces_what_was_there(root: str) -> None:
    for text in (b"a much longer first version", b"second"):
        storage.write_bytes(storage.join(root, "a"), text)

    assert storage.read_bytes(storage.join(root, "a")) == b"second"


def test_a_file_exists_once_it_is_written(root: str) -> None:
    uri = storage.join(root, "a.json")
    before = storage.exists(uri)
    storage.write_json(uri, {})

    assert (before, storage.exists(uri)) == (False, True)


def test_json_comes_back_as_it_was_written(root: str) -> None:
    storage.write_json(storage.join(root, "a.json"), {"b": [1, None, "ü"], "a": 0.1})

    assert storage.read_json(storage.join(root, "a.json")) == {"a": 0.1, "b": [1, None, "ü"]}


def test_a_frame_comes_back_as_it_was_written_and_its_hash_is_that_of_the_file(root: str) -> None:
    frame = pd.DataFrame({"x": [1.5, None], "label": pd.array([1, None], dtype="Int8"), "s": ["a", "b"]})

    sha256 = storage.write_frame(storage.join(root, "a.parquet"), frame)

    pd.testing.assert_frame_equal(storage.read_frame(storage.join(root, "a.parquet")), frame)
    assert sha256 == storage.sha256(storage.read_bytes(storage.join(root, "a.parquet")))
    assert sha256 == storage.write_frame(storage.join(root, "b.parquet"), frame)


def test_batches_become_one_file_with_their_rows_in_order(root):
    frame = pd.DataFrame({"id": [f"t{i}" for i in range(10)], "score": [i / 10 for i in range(10)]})

    rows, sha256 = storage.write_batches(storage.join(root, "a.parquet"), (frame[i : i + 4] for i in (0, 4, 8)))

    assert rows == 10
    assert sha256 == storage.sha256(storage.read_bytes(storage.join(root, "a.parquet")))
    pd.testing.assert_frame_equal(storage.read_frame(storage.join(root, "a.parquet")), frame)


def test_the_names_in_a_folder_are_sorted_and_without_their_path(root: str) -> None:
    for name in ("b.txt", "a.txt", "c/inner.txt"):
        storage.write_bytes(storage.join(root, name), b"")

    assert storage.names(root) == ["a.txt", "b.txt", "c"]
    assert storage.names(storage.join(root, "nothing")) == []


def test_every_file_below_a_folder_is_found_with_its_size_and_when_it_was_written(root: str) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)  # an object store counts in seconds
    for name, data in (("a.txt", b"abc"), ("b/c/d.txt", b"")):
        storage.write_bytes(storage.join(root, "tree", name), data)

    entries = sorted(storage.walk(storage.join(root, "tree")), key=lambda entry: entry.uri)

    assert [(entry.uri, entry.size) for entry in entries] == [(f"{root}/tree/a.txt", 3), (f"{root}/tree/b/c/d.txt", 0)]
    assert all(before < entry.written < datetime.now(UTC) + timedelta(seconds=2) for entry in entries)
    assert not list(storage.walk(storage.join(root, "nothing")))


def test_a_removed_file_is_gone_and_removing_it_again_is_no_mistake(root: str) -> None:
    for name in ("a.txt", "b.txt"):
        storage.write_bytes(storage.join(root, name), b"")
    for _ in range(2):
        storage.remove(storage.join(root, "a.txt"))

    assert storage.names(root) == ["b.txt"]


def test_a_removed_folder_is_gone_with_all_that_was_in_it(tmp_path: Path) -> None:
    storage.write_bytes(str(tmp_path / "a" / "b" / "c"), b"")
    for _ in range(2):
        storage.remove_folder(str(tmp_path / "a"))

    assert not (tmp_path / "a").exists()
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match=r"file: Not a directory; check the path"):
        storage.remove_folder(str(tmp_path / "file"))


def test_a_missing_file_is_named_with_what_to_check(root: str) -> None:
    with pytest.raises(UserError) as raised:
        storage.read_bytes(storage.join(root, "2024-03-18.parquet"))

    assert str(raised.value) == f"{root}/2024-03-18.parquet does not exist; check the path and the date"


def test_a_file_that_is_no_json_is_named(root: str) -> None:
    storage.write_bytes(storage.join(root, "a.json"), b'{"a": ')

    with pytest.raises(UserError, match=r"a\.json is not JSON .*; delete it and run the step again"):
        storage.read_json(storage.join(root, "a.json"))


def test_a_number_that_is_none_is_never_written(root: str) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        storage.write_json(storage.join(root, "a.json"), {"auc": float("nan")})

    assert not storage.exists(storage.join(root, "a.json"))


@pytest.mark.slow
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    storage.write_bytes(str(path), b"old")
    # a process that may write files of one kilobyte at most meets the same error as a full disk
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\n"
        "from nightshift import storage\n"
        "storage.write_bytes(sys.argv[1], bytes(100_000))"
    )

    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)

    assert f"UserError: {path}: File too large" in done.stderr
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_what_a_killed_writer_left_is_taken_up_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    # past its limit of one kilobyte, the process is killed in the middle of the write
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1024, 1024))\n"
        "from nightshift import storage\n"
        "storage.write_bytes(sys.argv[1], b'a' * 100_000)"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    left = [file.stat().st_size for file in tmp_path.iterdir()]

    storage.write_bytes(str(path), b"b" * 10)

    assert (killed.returncode, left) == (-signal.SIGXFSZ, [1024])
    assert path.read_bytes() == b"b" * 10
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_a_reader_never_sees_half_a_file_while_two_write_it(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    versions = [bytes([digit]) * 2_000_000 for digit in range(2)]
    storage.write_bytes(str(path), versions[0])
    script = (
        "import sys; from nightshift import storage\n"
        "for turn in range(20): storage.write_bytes(sys.argv[1], bytes([turn % 2]) * 2_000_000)"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(path)]) for _ in range(2)]
    seen = [path.read_bytes()]
    while any(writer.poll() is None for writer in writers):
        seen.append(path.read_bytes())

    assert [writer.returncode for writer in writers] == [0, 0]
    assert set(seen) == set(versions)
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(UserError, match=r"file/a\.bin: "):
        storage.write_bytes(str(tmp_path / "file" / "a.bin"), b"")


def test_a_bucket_that_is_missing_is_named(bucket: str) -> None:
    with pytest.raises(UserError, match=r"s3://elsewhere/a\.bin"):
        storage.write_bytes("s3://elsewhere/a.bin", b"")


def test_a_scheme_nobody_knows_is_refused() -> None:
    with pytest.raises(UserError, match=r"ftpx://host/a.*; give a folder, s3://... or gs://..."):
        storage.read_bytes("ftpx://host/a")


@pytest.mark.slow
def test_a_store_that_does_not_answer_is_named() -> None:
    script = "from nightshift import storage; storage.exists('s3://lake/a')"
    environment = os.environ | s3.environment("http://127.0.0.1:9")

    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=300
    )

    assert "UnavailableError: s3://lake/a: EndpointConnectionError: " in done.stderr


def test_a_fingerprint_does_not_depend_on_the_order_of_keys() -> None:
    assert storage.fingerprint({"a": 1, "b": 2}) == storage.fingerprint({"b": 2, "a": 1})
    assert storage.fingerprint({"a": 1}) != storage.fingerprint({"a": 2})


def test_parts_are_joined_by_one_slash() -> None:
    assert storage.join("s3://lake/", "a", "b") == storage.join("s3://lake", "a", "b") == "s3://lake/a/b"


def test_a_folder_has_a_share_that_is_free_and_a_store_has_none(tmp_path: Path) -> None:
    assert 0 < (storage.free_share(str(tmp_path)) or 0) < 1
    assert storage.free_share("memory://lake") is None


def test_what_arrow_reads_holds_no_bytes_of_python() -> None:
    data = bytes(range(256)) * 9
    before = sys.getrefcount(data)
    file = storage.arrow_file(data)
    assert sys.getrefcount(data) == before
    assert file.read() == data


@pytest.mark.parametrize(
    "name",
    [
        "a?b",
        "a#b",
        "a%20b",
        "100%",
        "a b",
        "a+b&c=d;e",
        "Größe 日本",
        "-rf",
        "a'b\"c",
        "a\nb",
        "[a]{date}*",
        "~a",
        "file:a",
    ],
)
def test_a_file_lies_in_its_folder_whatever_that_is_called(name, tmp_path):
    uri = str(tmp_path / name / "below" / "file")
    storage.write_bytes(uri, b"content")

    assert (tmp_path / name / "below" / "file").read_bytes() == storage.read_bytes(uri) == b"content"
    assert storage.names(str(tmp_path / name / "below")) == ["file"]
    storage.remove_folder(str(tmp_path / name / "below"))
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] in ([name], [])


@pytest.mark.parametrize("uri", ["/tmp/a::b/c", "a::b", "file:///tmp/a::b", "s3://bucket/a::b"])
def test_a_path_that_fsspec_reads_as_two_places_is_refused_and_nothing_is_written(uri, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="fsspec chains schemes at '::'"):
        storage.write_bytes(uri, b"content")
    assert not list(tmp_path.iterdir())
