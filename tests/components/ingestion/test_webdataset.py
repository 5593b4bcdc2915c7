"""WebDataset's tar files as a source: what of them becomes a row, and what only pretends to be a member."""

import io
import json
import tarfile
from collections.abc import Iterable
from datetime import date, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from components.ingestion import core, formats, sources, webdataset
from nightshift import storage
from nightshift.config import parse
from nightshift.config.images import ImageColumns
from nightshift.config.texts import TextColumns
from nightshift.runtime.errors import UserError
from tests.components import pictures
from tests.components.pictures import DATE, config, file, ingest
from tests.nightshift.config.test_classes import text

DAY = date.fromisoformat(DATE)
IMAGES = {"event_id": "__key__", "event_time": "time", "image": "jpg", "label": "cls"}
TEXTS = {"event_id": "__key__", "event_time": "time", "text": "txt", "group": "author", "label": "topic"}
BY_DAY = {"files": "{date}-*.tar"}


def member(name: str, content: bytes = b"", **raw: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for field, value in raw.items():
        setattr(info, field, value)
    return info, content


def tar(members: Iterable[tuple[tarfile.TarInfo, bytes]], **options: Any) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", encoding="utf-8", **options) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def sample(key: str, content: bytes, label: str, day: date = DAY) -> list[tuple[tarfile.TarInfo, bytes]]:
    meta = json.dumps({"time": f"{day}T08:00:00", "width": 20}).encode()
    return [member(f"{key}.jpg", content), member(f"{key}.cls", f"{label}\n".encode()), member(f"{key}.json", meta)]


def read(data: bytes, columns: dict[str, str]) -> pd.DataFrame:
    section = ImageColumns if "image" in columns else TextColumns
    return webdataset.parse(data, section(**columns))


def split(data: bytes, columns: dict[str, str], labels_due: bool = True) -> core.SplitRows:
    raw = config(columns=columns) if "image" in columns else text(columns=columns)
    raw["columns"] = columns
    return core.split(read(data, columns), parse(raw), DAY, labels_due)


def test_days_of_several_shards_are_ingested(tmp_path: Path) -> None:
    raw = config(source=BY_DAY) | {"columns": IMAGES}
    plan = pictures.plan()
    for number, day in enumerate(plan.events):
        for shard in range(2):
            content = file("JPEG", seed=10 * number + shard)
            (tmp_path / f"{day}-{shard:03}.tar").write_bytes(tar(sample(f"{day}/{shard}", content, "cross", day)))
    table = ingest(tmp_path, raw, str(tmp_path))
    good = storage.read_frame(table.partitions[-1].uri)
    assert [part.rows for part in table.partitions] == [2] * 7
    assert good["event_id"].tolist() == [f"{DATE}/0", f"{DATE}/1"]
    assert good["image"].tolist() == [file("JPEG", seed=60), file("JPEG", seed=61)]
    assert good["label"].tolist() == ["cross", "cross"]
    assert good["event_time"].tolist() == [pd.Timestamp(f"{DATE} 08:00")] * 2


def test_a_day_is_another_one_when_a_shard_has_come(tmp_path: Path) -> None:
    parsed_config = parse(config(source=BY_DAY) | {"columns": IMAGES})
    (tmp_path / f"{DATE}-0.tar").write_bytes(tar(sample("a", file("JPEG"), "cross")))
    before = sources.connect(str(tmp_path), parsed_config, DAY).read(DAY)
    (tmp_path / f"{DATE}-1.tar").write_bytes(tar(sample("b", file("JPEG", seed=1), "cross")))
    after = sources.connect(str(tmp_path), parsed_config, DAY).read(DAY)
    assert before.sha256 != after.sha256
    assert (len(before.load()), len(after.load())) == (1, 2)


def test_of_several_files_the_bad_one_is_named(tmp_path: Path) -> None:
    (tmp_path / f"{DATE}-0.tar").write_bytes(tar(sample("a", file("JPEG"), "cross")))
    (tmp_path / f"{DATE}-1.tar").write_bytes(b"")
    source = sources.connect(str(tmp_path), parse(config(source=BY_DAY) | {"columns": IMAGES}), DAY)
    with pytest.raises(UserError, match=rf"^\({DATE}-1.tar\) is empty"):
        source.read(DAY).load()


def test_several_files_a_day_may_be_tables_too(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{DATE}.part[{number}].csv").write_text(
            f"image_id,time,image,label\n00{number},soon,a.png,cross\n"
        )
    (tmp_path / f"{DATE}.party.csv.tmp").write_text("")
    source = sources.connect(str(tmp_path), parse(config(source={"files": "{date}.part[*].csv"})), DAY)
    assert source.has(DAY)
    assert not source.has(DAY - timedelta(days=1))
    assert source.read(DAY).load()["image_id"].tolist() == ["000", "001"]
    (tmp_path / f"{DATE}.part[1].csv").write_text("image_id,time,image\n001,soon,a.png\n")
    with pytest.raises(UserError, match="has no column 'label'"):
        sources.connect(str(tmp_path), parse(config(source={"files": "{date}.part[*].csv"})), DAY).read(DAY).load()


def test_one_tar_may_hold_all_days(tmp_path: Path) -> None:
    days = [DAY - timedelta(days=1), DAY]
    rows = [sample(str(day), file("JPEG", seed=day.day), "cross", day) for day in days]
    (tmp_path / "all.tar").write_bytes(tar(chain(*rows)))
    parsed_config = parse(config(source={"files": None, "table": "all.tar"}) | {"columns": IMAGES})
    frame = sources.connect(str(tmp_path), parsed_config, DAY).read(DAY).load()
    assert frame["jpg"].tolist() == [file("JPEG", seed=10)]


def test_texts_are_read_and_every_column_may_be_a_field_of_the_json() -> None:
    raw = {"time": f"{DATE}T08:00:00Z", "author": 7, "topic": "Exodus", "likes": [1], "txt": "not this one"}
    data = tar([member("a.json", json.dumps(raw).encode()), member("a.txt", "caf\u00e9 \n".encode())])
    good = split(data, TEXTS).good
    assert good.drop(columns="event_time").to_dict("records") == [
        {"event_id": "a", "text": "caf\u00e9 \n", "group": 7, "label": "Exodus"}
    ]


def test_the_extension_begins_at_the_first_dot_of_the_name() -> None:
    data = tar(
        [
            member("v1.2/a.b.JPG", b"x"),
            member("v1.2/a.jpg", b"y"),
            member("v1.2/a.__key__", b"b"),
            member("v1.2/a.time", DATE.encode()),
        ]
    )
    rows = read(data, IMAGES)
    assert rows["__key__"].tolist() == [b"v1.2/a"]
    assert rows["jpg"].tolist() == [b"y"]
    assert split(data, IMAGES | {"image": "b.jpg"}).bad["b.jpg"].tolist() == [b"x"]


def test_a_column_that_is_nowhere_is_named_with_what_there_is() -> None:
    data = tar(sample("a", file("JPEG"), "cross"))
    with pytest.raises(
        UserError,
        match=r"has no column 'jpeg' \(columns.image; did you mean 'jpg'.*it has __key__, cls, jpg, json, time",
    ):
        read(data, IMAGES | {"image": "jpeg"})


def test_labels_may_be_to_come() -> None:
    data = tar(sample("a", file("JPEG"), "cross")[::2])
    assert split(data, IMAGES, labels_due=False).good["label"].isna().all()
    assert split(data, IMAGES).unlabeled_rows == 1


def test_a_tar_without_samples_has_no_rows() -> None:
    with pytest.raises(UserError, match=r"^has no rows"):
        split(tar([member("README"), member(".hidden.jpg"), member("a.jpg", type=tarfile.DIRTYPE)]), IMAGES)


def with_holes(name: str) -> tuple[tarfile.TarInfo, bytes]:
    """A member that claims to be a terabyte of zeros."""
    return member(name, b"0\n", pax_headers={"GNU.sparse.size": str(1 << 40), "GNU.sparse.major": "1",
                                             "GNU.sparse.minor": "0", "GNU.sparse.name": name})  # fmt: skip


JPEG = file("JPEG")
PRETENDING = {
    "link": member("{key}.jpg", type=tarfile.SYMTYPE, linkname="../secret.jpg"),
    "hard link": member("{key}.jpg", type=tarfile.LNKTYPE, linkname="good.jpg"),
    "device": member("{key}.jpg", type=tarfile.CHRTYPE),
    "pipe": member("{key}.jpg", type=tarfile.FIFOTYPE),
    "holes": with_holes("holes.jpg"),
}


@pytest.mark.parametrize("key", [*PRETENDING, "/absolute", "../outside", "a/../../b"])
def test_what_only_pretends_to_be_a_member_is_no_image(key: str) -> None:
    info, content = PRETENDING.get(key, member("{key}.jpg", JPEG))
    info.name = info.name.replace("{key}", key)
    _, *others = sample(key.strip("./"), b"", "cross")
    for other, _ in others:
        other.name = key + other.name[other.name.rindex(".") :]
    plain = key in PRETENDING
    data = tar([(info, content), *others, *sample("good", file("JPEG", seed=1), "cross")], format=tarfile.PAX_FORMAT)
    day = split(data, IMAGES)
    assert day.good["event_id"].tolist() == ["good"]
    assert day.rejected_rows == ({"empty": 1} if plain else {"unparsable_time": 1})


def test_a_key_that_comes_again_is_another_row_that_is_quarantined() -> None:
    twice = [*sample("a", JPEG, "cross"), *sample("b", file("JPEG", seed=1), "cross")]
    again = [*twice, *sample("a", file("JPEG", seed=2), "square"), *sample("a", file("JPEG", seed=3), "circle")]
    day = split(tar(again), IMAGES)
    assert day.rejected_rows == {"duplicate_id": 2}
    assert day.good["label"].tolist() == ["cross", "cross"]


@pytest.mark.parametrize(
    ("raw", "rule"),
    [
        (b"", "missing_key"),
        (b"{", "missing_key"),
        (b"[1]", "missing_key"),
        (b"\xff", "missing_key"),
        pytest.param(b"[" * 100_000, "missing_key", id="deep"),
        pytest.param(b'{"time": ' + b"9" * 100_000 + b"}", "missing_key", id="a large number"),
        (b'{"time": null, "author": 1, "topic": "Exodus"}', "unparsable_time"),
        (b'{"time": "2024-03-10", "topic": "Exodus"}', "missing_key"),
        (b'{"time": "2024-03-10", "author": 1, "topic": "\\ud800"}', "unknown_label"),
        (b'{"time": "2024-03-10", "author": 1, "topic": "Exodus", "txt": "\\ud800"}', "invalid_utf8"),
        (b'{"time": "2024-03-10", "author": 1, "topic": "Exodus", "txt": "\\u0000"}', "binary"),
        (b'{"time": "2024-03-10", "author": 1, "topic": "Exodus", "__key__": "good"}', "empty"),
    ],
)
def test_what_is_wrong_with_a_json_is_found_by_the_rules(raw: bytes, rule: str) -> None:
    right = b'{"time": "2024-03-10", "author": 2, "topic": "Exodus"}'
    data = tar([member("good.txt", b"verse"), member("good.json", right), member("bad.json", raw)])
    day = split(data, TEXTS)
    assert day.rejected_rows == {rule: 1}
    assert day.good["event_id"].tolist() == ["good"]
    assert day.bad["__key__"].tolist() == ["bad"]


def test_names_in_another_encoding_are_names_all_the_same() -> None:
    data = tar(sample("caf\udce9", JPEG, "cross"), format=tarfile.GNU_FORMAT, errors="surrogateescape")
    assert split(data, IMAGES).good["event_id"].tolist() == ["caf\\xe9"]


def with_size(data: bytes, header: int, size: int) -> bytes:
    """The file whose member at a place is said to have such a size, in base 256."""
    head = bytearray(data[header : header + 512])
    head[124:136] = size.to_bytes(12, signed=True) if size < 0 else b"\x80" + size.to_bytes(11)
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    return data[:header] + head + data[header + 512 :]


WHOLE = tar([*sample("a", JPEG, "cross"), *sample("b", JPEG, "cross")])
SECOND = 512 + -(-len(JPEG) // 512) * 512  # where its second member begins


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"not a tar" * 100, id="something else"),
        pytest.param(WHOLE[:SECOND] + b"\xff" * 512 + WHOLE[SECOND + 512 :], id="a damaged header"),
        pytest.param(with_size(WHOLE, SECOND, -512), id="a negative size, which would be read forever"),
    ],
)
def test_a_damaged_tar_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(UserError, match=r"^is not a tar file, or a damaged one \(.+\); write") as error:
        formats.parse("x.tar", data, ImageColumns(**IMAGES))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(WHOLE[: SECOND - 200], id="cut in a member"),
        pytest.param(WHOLE[:SECOND], id="cut between members"),
        pytest.param(WHOLE[: SECOND + 100], id="cut in a header"),
        pytest.param(with_size(WHOLE, SECOND, 1 << 60), id="a size beyond all disks"),
    ],
)
def test_a_tar_that_was_cut_short_is_refused_as_such(data: bytes) -> None:
    with pytest.raises(UserError, match=r"^is not whole \(it.+\): it was cut short, or is still being written"):
        formats.parse("x.tar", data, ImageColumns(**IMAGES))


def test_a_json_member_that_has_a_field_twice_has_no_fields() -> None:
    assert webdataset._fields(b'{"label": "cross", "more": {"a": 1}}') == {"label": b"cross", "more": b'{"a": "1"}'}
    assert webdataset._fields(b'{"label": "cross", "label": "square"}') == {}
