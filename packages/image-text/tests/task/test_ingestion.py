"""Pairs by day: what is taken, what is quarantined and why."""

from datetime import date
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import pydicom
import pytest
from PIL import Image
from pydicom.data import get_testdata_file

from components.ingestion import core
from nightshift.config import parse
from nightshift_image_text import pixels
from nightshift_image_text.task.views import view

DAY = date(2026, 11, 2)
CONFIG = {
    "name": "scans",
    "source": {"files": "{date}.parquet"},
    "columns": {
        "event_id": "image_id",
        "event_time": "time",
        "image": "image",
        "report": "report",
        "label": "findings",
        "group": "patient",
        "study": "study",
    },
    "task": {
        "kind": "image-text",
        "classes": ["effusion", "nodule"],
        "side": 8,
        "max_pixels": 10_000,
        "length": 8,
        "vocabulary": 64,
        "candidates": {"pairs": {"kind": "clip"}},
    },
}


def draw(seed: int = 0, size: tuple[int, int] = (16, 16), kind: str = "PNG", **options: Any) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, size[::-1], dtype=np.uint8)
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def read_dicom(**tags: str) -> bytes:
    """A CT slice of pydicom's, with some tags."""
    dataset = pydicom.dcmread(get_testdata_file("CT_small.dcm", download=False))
    for name, value in tags.items():
        setattr(dataset, name, value)
    buffer = BytesIO()
    dataset.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def draw_deep() -> bytes:
    buffer = BytesIO()
    Image.fromarray(np.full((16, 16), 4000, np.uint16)).save(buffer, "PNG")
    return buffer.getvalue()


def draw_frames() -> bytes:
    frames = [Image.new("L", (16, 16), shade) for shade in (0, 100, 200)]
    return draw_gif(frames)


def draw_gif(frames: list[Image.Image]) -> bytes:
    buffer = BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    return buffer.getvalue()


def make_rows(**columns: Any) -> pd.DataFrame:
    count = max(len(values) for values in columns.values())
    usual = {
        "image_id": [f"i{number}" for number in range(count)],
        "time": pd.date_range(str(DAY), periods=count, freq="min", unit="us"),
        "image": [draw(number) for number in range(count)],
        "report": [f"Nodule of {number} mm." for number in range(count)],
        "findings": ["nodule"] * count,
        "patient": [f"p{number}" for number in range(count)],
        "study": [f"s{number}" for number in range(count)],
    }
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in (usual | columns).items()})


def quarantine(rows: pd.DataFrame) -> dict[str, str]:
    split = core.split(rows, parse(CONFIG), DAY, labels_due=True)
    assert len(split.good) + len(split.bad) == len(rows)
    return dict(zip(split.bad["image_id"], split.bad[core.REASON], strict=True))


@pytest.mark.parametrize(
    ("image", "rule"),
    [
        (None, "empty"),
        (b"", "empty"),
        (b"no image", "undecodable"),
        (draw()[:40], "undecodable"),
        (draw(size=(16, 7)), "too_small"),
        (draw(size=(200, 100)), "decompression_bomb"),
        (draw_deep(), "wrong_mode"),
        (draw_frames(), "animated"),
        ("../../etc/passwd", "missing_file"),
    ],
)
def test_an_image_that_cannot_be_seen_as_it_is_meant_is_quarantined_by_its_rule(image: object, rule: str) -> None:
    assert quarantine(make_rows(image=[draw(), image])) == {"i1": rule}


@pytest.mark.parametrize(
    ("report", "rule"),
    [
        (None, "report_empty"),
        (" \n", "report_empty"),
        ("a\0b", "report_binary"),
        (b"\xff\xfe", "report_invalid_utf8"),
        ("x" * 100_001, "report_too_long"),
    ],
)
def test_an_image_without_a_report_that_can_be_read_is_quarantined_by_its_rule(report: object, rule: str) -> None:
    assert quarantine(make_rows(report=["Normal.", report])) == {"i1": rule}


def test_the_same_image_comes_once_a_day_and_the_same_report_as_often_as_it_is_written() -> None:
    image = draw()

    assert quarantine(make_rows(image=[image, draw(1), image], report=["Normal."] * 3)) == {"i2": "duplicate_content"}


def test_a_dicom_file_that_does_not_say_that_its_patient_was_removed_is_quarantined() -> None:
    rows = make_rows(image=[draw(), read_dicom(), read_dicom(PatientIdentityRemoved="NO")])

    assert quarantine(rows) == {"i1": "identified", "i2": "identified"}


def test_a_de_identified_dicom_file_is_an_image_like_others() -> None:
    removed = read_dicom(PatientIdentityRemoved="YES")
    config = parse(CONFIG | {"task": CONFIG["task"] | {"max_pixels": 128 * 128}})
    seen = view(config.task).see([removed], ["A slice."])["pixels"]

    assert pixels.find_fault(removed, config.task) is None
    assert seen.std() > 10


def test_a_study_has_one_report() -> None:
    rows = make_rows(study=["s0", "s0", "s0", "s1"], report=["Nodule.", "Nodule.", "Normal.", "Normal."])

    assert quarantine(rows) == {"i2": "two_reports"}


def test_a_report_in_another_language_is_read_as_it_is() -> None:
    rows = make_rows(report=["Nodule of 4 mm.", "Rundherd, 4 mm groß.", "結節 4 mm"])

    assert quarantine(rows) == {}


def test_an_image_is_known_again_whatever_its_report() -> None:
    task = parse(CONFIG).task
    pairs = view(task)
    seen = pairs.see([draw(), draw(), draw(1)], ["Nodule.", "Normal.", "Nodule."])
    first, second, other = pairs.identify(seen)

    assert first == second != other
    assert seen["pixels"].shape == (3, 8, 8, 1)
    assert seen["tokens"].shape == (3, 8)
    assert np.array_equal(seen["tokens"][0], seen["tokens"][2])
