"""Images and texts by day: what is taken, what is quarantined and why, and where the bytes come from."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pandera.errors import SchemaError, SchemaErrors
from PIL import Image

from components.ingestion import __main__ as ingestion
from components.ingestion import core, section, sources
from components.ingestion.sources.protocol import FAULT
from components.ingestion.tally import Totals
from nightshift import storage
from nightshift.config import parse
from nightshift.contracts.tables import Partition
from nightshift.data.splits import Days
from nightshift.runtime.errors import UserError
from nightshift.tasks.images import simulator as pictures
from tests.components import pictures as pictures_of
from tests.components.pictures import CONFIG, DATE, bytes_of, config, file, ingest, parsed
from tests.nightshift.config.test_classes import text as text_config

DAY = date.fromisoformat(DATE)


def rows(images: list, **columns) -> pd.DataFrame:
    """A day's rows with such images."""
    count = len(images)
    usual = {
        "image_id": range(count),
        "time": pd.date_range(DATE, periods=count, freq="min", unit="us"),
        "image": pd.Series(images, dtype=object),
        "label": ["circle"] * count,
    }
    return pd.DataFrame(usual | columns)


def quarantined(frame: pd.DataFrame, parsed_config=None) -> dict[int, str]:
    split = core.split(frame, parsed_config or parsed(), DAY, labels_due=True)
    assert len(split.good) + len(split.bad) == len(frame)
    return dict(zip(split.bad.iloc[:, 0].astype(int), split.bad[core.REASON], strict=True))


def test_each_bad_image_is_quarantined_with_its_reason_and_no_other():
    images = [file(), b"", None, "gone.png", b"nothing", file("JPEG", "CMYK"), file(size=(20, 7)), file(), file(seed=1)]
    assert quarantined(rows(images)) == {
        1: "empty",
        2: "empty",
        3: "missing_file",
        4: "undecodable",
        5: "wrong_mode",
        6: "too_small",
        7: "duplicate_content",
    }


def test_a_day_may_have_no_image_at_all():
    assert quarantined(rows([None, None])) == {0: "empty", 1: "empty"}


def test_a_row_that_its_source_rejects_is_quarantined_by_the_source_s_rule():
    frame = rows([file(seed=seed) for seed in range(3)], **{FAULT: ["no_identity", None, None]})
    frame.loc[1, "image"] = b"nothing"
    assert quarantined(frame) == {0: "no_identity", 1: "undecodable"}


def test_a_label_is_one_of_the_classes():
    frame = rows([file(seed=seed) for seed in range(3)], label=["cross", "hexagon", None])
    assert quarantined(frame) == {1: "unknown_label"}  # a third of the labels is late


def test_the_schema_refuses_classes_that_the_config_does_not_name():
    good = core.split(rows([file(seed=seed) for seed in range(2)]), parsed(), DAY, labels_due=True).good
    unlabeled = good.assign(label=pd.array(["circle", None], dtype="string"))
    due, not_due = (core.schema(parsed(), {"event_id": "integer"}, labels_due) for labels_due in (True, False))
    due.validate(good)
    not_due.validate(unlabeled)
    unknown = good.assign(label=pd.array(["circle", "hexagon"], dtype="string"))
    for frame in (unlabeled, unknown, good.assign(label=good["label"].astype("category"))):
        with pytest.raises((SchemaError, SchemaErrors)):
            due.validate(frame)


def test_what_is_kept_of_a_bad_image_are_its_bytes():
    split = core.split(rows([file(), b"nothing", "gone.png"]), parsed(), DAY, labels_due=True)
    assert split.bad["image"].tolist() == [b"nothing", b"gone.png"]
    assert core.examples([split.bad], parsed(), "undecodable") == [
        f"image_id=***, time={DATE} 00:01:00, image=(7 bytes), label=circle"
    ]


def test_good_images_keep_the_bytes_of_their_files():
    split = core.split(rows([file("JPEG"), file("WEBP", seed=1)]), parsed(), DAY, labels_due=True)
    assert split.good["image"].tolist() == [file("JPEG"), file("WEBP", seed=1)]
    assert list(split.good) == ["event_id", "event_time", "image", "label"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of files with a table a day that names them."""
    raw = tmp_path / "raw"
    for name, seed in (("a.png", 0), ("deep/b.png", 1)):
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_bytes(file(seed=seed))
    (tmp_path / "secret.png").write_bytes(file(seed=2))
    return raw


def loaded(raw: Path, names: list[str]) -> list:
    rows(names).to_parquet(raw / f"{DATE}.parquet")
    parsed_config = parsed(source={"files": "{date}.parquet"})
    return sources.connect(str(raw), parsed_config, DAY).read(DAY).load()["image"].tolist()


def test_a_table_may_name_files_below_its_folder(folder):
    assert loaded(folder, ["a.png", "deep/b.png"]) == [file(seed=0), file(seed=1)]


def test_a_file_that_is_there_and_cannot_be_read_stops_the_run(folder):
    (folder / "loop.png").symlink_to("loop.png")
    with pytest.raises(UserError, match=r"loop.png: Too many levels of symbolic links"):
        loaded(folder, ["a.png", "loop.png"])


def test_a_day_with_files_that_were_missing_is_read_again_until_they_have_come(folder, tmp_path):
    parsed_config = parsed(source={"files": "{date}.csv"}, quarantine={"max_share": 1.0, "max_label_share": 1.0})
    rows(["a.png", "late.png"]).to_csv(folder / f"{DATE}.csv", index=False)
    plan = replace(pictures_of.plan(), events=Days(DAY, DAY))

    def run():
        source = sources.connect(str(folder), parsed_config, DAY)
        (part,) = ingestion.ingest(ingestion.IngestionSetup(parsed_config, plan, source, str(tmp_path / "lake")))
        return part

    first = run()
    assert (first.rows, first.details["quarantined"]) == (1, {"missing_file": 1})
    assert run() == first
    (folder / "late.png").write_bytes(file(seed=3))
    second = run()
    assert (second.rows, second.details["quarantined"]) == (2, {})
    assert second.uri != first.uri
    (folder / "late.png").unlink()  # from now on it is taken to stay as it is
    assert run() == second


@pytest.mark.parametrize(
    "name",
    [
        "../secret.png",
        "deep/../../secret.png",
        "{folder}/a.png",
        "file://{folder}/a.png",
        "gone.png",
        "deep",
        "a.png/b",
        "a\0.png",
        "a.png::{folder}/a.png",
        f"{'a' * 300}.png",
        "data:image/png;base64," + "A/" * 5000,
        "https://example.com/a.png",
    ],
)
def test_a_file_that_is_elsewhere_or_nowhere_is_not_read(folder, name):
    name = name.format(folder=folder)
    assert loaded(folder, [name, "a.png"]) == [name, file(seed=0)]


def test_every_day_is_written_and_spoiled_rows_are_quarantined(tmp_path):
    raw = config(simulator={"items": 40, "corrupt_share": 0.2}, quarantine={"max_share": 0.1, "max_label_share": 0.5})
    table = ingest(tmp_path, raw)
    assert table.details["quarantined"] == {
        "decompression_bomb": 7,
        "duplicate_content": 7,
        "empty": 7,
        "undecodable": 14,
        "unknown_label": 7,
        "unparsable_time": 7,
        "wrong_mode": 7,
    }
    assert table.rows + 56 == table.details["read"] == 7 * 40
    first = storage.read_frame(table.partitions[0].uri)
    assert isinstance(first["image"].iloc[0], bytes)
    assert [part.uri for part in ingest(tmp_path, raw).partitions] == [part.uri for part in table.partitions]


def test_other_rules_make_other_partitions(tmp_path):
    before = ingest(tmp_path, CONFIG).partitions[0].uri
    assert ingest(tmp_path, config(task={"side": 8})).partitions[0].uri == before
    for rule in ({"min_side": 16}, {"near_duplicates": 0}):
        assert (
            ingest(tmp_path, config(task=rule, quarantine={"max_share": 1.0, "max_label_share": 1.0})).partitions[0].uri
            != before
        )


def blurred(seed: int, size: tuple[int, int] = (90, 80)) -> Image.Image:
    """A picture of large spots, no two of which are alike."""
    spots = np.random.default_rng(seed).integers(40, 200, (8, 9, 3), dtype=np.uint8)
    return Image.fromarray(spots).resize(size, Image.Resampling.BICUBIC)


def copies() -> list[bytes]:
    """A picture, what people make of it, and another one."""
    first = blurred(0)
    changed = [first.resize((45, 40)), first.point(lambda value: round(value * 1.2)), first.crop((1, 1, 90, 80))]
    return [bytes_of(picture, "JPEG") for picture in (first, *changed, first.convert("L"), blurred(1))]


def test_of_pictures_that_look_alike_the_first_of_the_day_stays():
    assert quarantined(rows(copies()), parsed(task={"near_duplicates": 4})) == dict.fromkeys(
        range(1, 5), "near_duplicate"
    )


def test_pictures_that_look_alike_are_kept_unless_the_config_says_otherwise():
    assert quarantined(rows(copies())) == {}


def test_a_picture_is_compared_with_those_that_stay_and_by_at_most_so_many_bits():
    steps = [np.tile(np.array([0] * (8 - ones) + [1] * ones, np.uint8), (8, 1)) for ones in range(9)]
    rising = [np.cumsum(np.pad(np.where(step, 10, -10), ((0, 0), (1, 0))), axis=1) + 80 for step in steps]
    chain = [bytes_of(Image.fromarray(array.astype(np.uint8)), "PNG") for array in rising]  # each 8 bits from the next
    assert list(quarantined(rows(chain), parsed(task={"near_duplicates": 7}))) == []
    assert list(quarantined(rows(chain), parsed(task={"near_duplicates": 8}))) == [1, 3, 5, 7]
    assert list(quarantined(rows(chain), parsed(task={"near_duplicates": 16}))) == [1, 2, 4, 5, 7, 8]


def test_a_picture_that_looks_like_one_of_another_day_or_like_a_bad_row_is_kept():
    parsed_config = parsed(task={"near_duplicates": 16})
    today, tomorrow = rows(copies()[:1]), rows(copies()[1:2])
    tomorrow["time"] += pd.Timedelta(days=1)
    splits = core.split_batch({DAY: today, date(2024, 3, 11): tomorrow}, parsed_config, DAY)
    assert [len(day.good) for day in splits.values()] == [1, 1]
    assert quarantined(rows(copies()[:2], label=["hexagon", "cross"]), parsed_config) == {0: "unknown_label"}


SIMULATED = parsed(simulator={"items": 30}).simulator
DIGITS = parsed(simulator={"items": 30, "digits": True}).simulator


@pytest.mark.parametrize("world", [SIMULATED, DIGITS], ids=["shapes", "digits"])
def test_a_simulated_day_is_the_same_alone_and_differs_from_others(world):
    one, again, next_day = (pictures.SimulationTask().day(world, on) for on in (DAY, DAY, date(2024, 3, 11)))
    pd.testing.assert_frame_equal(one, again)
    assert len(set(one["image"]) | set(next_day["image"])) == len(one) + len(next_day)
    assert (one["time"].dt.date == DAY).all()


def test_every_digit_is_dealt_once_before_any_comes_again():
    days = [pictures.SimulationTask().day(DIGITS, date.fromordinal(DAY.toordinal() + number)) for number in range(60)]
    dealt = pd.concat(days)["image"]
    assert len(dealt) == dealt.nunique() == 1797


def test_what_is_to_drift_drifts_from_its_day_on():
    from nightshift.items.images import decode_image

    drifting = {"items": 60, "drift_from": DATE, "brightness_factor": 2.0, "blur": 1.5, "new_class": 0.2}
    world = parsed(simulator=drifting).simulator
    before, after = (pictures.SimulationTask().day(world, on) for on in (date(2024, 3, 9), DAY))
    bright, dark = (np.mean([np.asarray(decode_image(image, 10**6)).mean() for image in day["image"]])
                    for day in (after, before))  # fmt: skip
    assert bright > 1.5 * dark
    assert "star" not in set(before["label"])
    assert 3 <= (after["label"] == "star").sum() <= 25


def test_labels_that_are_not_due_are_not_there():
    assert pictures.SimulationTask().day(SIMULATED, DAY, date(2024, 3, 9))["label"].isna().all()


def verses_of(*verses: object) -> pd.DataFrame:
    """A day's rows with such texts."""
    return pd.DataFrame(
        {
            "id": range(len(verses)),
            "time": pd.date_range(DATE, periods=len(verses), freq="min", unit="us"),
            "verse": pd.Series(verses, dtype=object),
            "book": "Genesis",
        }
    )


def near(least: float | None, *verses: str) -> dict[int, str]:
    """What is quarantined of texts."""
    return quarantined(verses_of(*verses), parse(text_config(task=text_config()["task"] | {"near_duplicates": least})))


def test_of_texts_that_say_nearly_the_same_the_first_of_the_day_stays():
    verse = "In the beginning God created the heaven and the earth, and the earth was without form, and void"
    other = "And God saw every thing that he had made, and, behold, it was very good"
    copies = [verse, verse.upper(), f"  {verse.replace(' ', chr(10))}.", verse.replace("void", "empty"), other]
    assert near(0.75, *copies) == dict.fromkeys((1, 2, 3), "near_duplicate")
    assert near(0.95, *copies) == dict.fromkeys((1, 2), "near_duplicate")
    assert near(None, *copies) == {}


def test_texts_shorter_than_what_is_compared_are_alike_when_they_are_the_same():
    assert near(0.95, "No", "no ", "On", "\U0001f600") == {1: "near_duplicate"}


def test_the_page_of_a_run_sums_up_what_its_source_has_counted():
    counts = [{"names masked": 2}, {}, {"names masked": 1, "dates masked": 4}]
    details = {"labels": {"circle": 1}, "quarantined_labels": {}, "source_sha256": "a"}
    parts = [
        Partition(f"2024-03-0{day}", "", 1, "", details | ({"source_counts": own} if own else {}))
        for day, own in enumerate(counts, 1)
    ]
    page = section.build("dicom://hospital", parts, Totals.from_partitions(parts))
    (table,) = [block for block in page.blocks if getattr(block, "title", "") == "What the source says of its rows"]
    assert [row.cells for row in table.rows] == [["dates masked", 4], ["names masked", 3]]
    assert "What the source says" not in section.build("a", parts[1:2], Totals.from_partitions(parts)).model_dump_json()
