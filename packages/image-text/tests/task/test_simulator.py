import json
from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from PIL import Image, UnidentifiedImageError

from components.ingestion import core
from nightshift.config import parse
from nightshift_image_text.config import ImageTextSimulator
from nightshift_image_text.simulation import anatomy, corruption, scans, studies
from nightshift_image_text.task.simulator import SimulationTask
from tests.components.scans import CONFIG

ON = date(2026, 3, 10)
SMALL = ImageTextSimulator(items=60, patients=40)
# words by which a report says that something is there, and none of which a report has otherwise unless it denies it
NAMES = {
    "effusion": ("effusion", "pleural fluid", "pleural space"),
    "enlarged": ("enlarged", "cardiomegaly", "cardiac shadow is"),
    "fracture": ("fracture", "interrupted"),
    "nodule": ("nodule", "round density"),
    "device": ("pacemaker", "generator"),
}
DENIALS = ("No ", "There is no ", "Without ", ": none", "Not seen")


def make(on: date = ON, labels_due: date | None = None, **knobs) -> pd.DataFrame:
    return SimulationTask().day(SMALL.model_copy(update=knobs), on, labels_due)


def many(count: int, **knobs) -> pd.DataFrame:
    return pd.concat([make(ON + timedelta(days=number), **knobs) for number in range(count)], ignore_index=True)


def pixels(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(content)))


def mentioned(report: str) -> list[str]:
    """Return the findings of which a report says that they are there."""
    sentences = report.removesuffix(".").split(". ")
    claims = " ".join(text for text in sentences if not any(denial in text for denial in DENIALS)).lower()
    return [name for name, words in NAMES.items() if any(word in claims for word in words)]


def test_a_day_is_the_same_bytes_on_every_run_and_alone():
    run = {ON + timedelta(days=number): make(ON + timedelta(days=number)) for number in range(3)}
    for on in reversed(run):
        pd.testing.assert_frame_equal(make(on), run[on])


def test_another_seed_or_another_day_gives_other_images_and_reports():
    for other in (make(seed=1), make(ON + timedelta(days=1))):
        assert not set(make()["image"]) & set(other["image"])
        assert make()["report"].tolist() != other["report"].tolist()


def test_a_day_has_its_columns_and_as_many_pairs_as_the_config_says_in_order_of_time():
    frame = make()
    assert tuple(frame) == SimulationTask.columns
    assert len(frame) == SMALL.items
    assert make(items=400)["time"].is_monotonic_increasing
    assert set(frame["time"].dt.date) == {ON}
    assert many(2)["image_id"].is_unique


def test_reports_say_exactly_what_the_labels_do():
    frame = many(4, drift_from=str(ON + timedelta(days=2)), new_wording=0.5, new_site=0.3, new_class=0.2)
    for report, labels in zip(frame["report"], frame["findings"], strict=True):
        assert mentioned(report) == sorted(labels, key=[*NAMES].index), report


def test_labels_come_after_their_delay():
    assert make(labels_due=ON - timedelta(days=1))["findings"].isna().all()
    assert make(labels_due=ON)["findings"].notna().all()


def test_images_of_a_study_are_a_minute_apart_and_have_one_report_patient_and_scanner():
    frame = many(3)
    by_study = frame.groupby("study")
    assert by_study[["report", "patient", "scanner", "site"]].nunique().eq(1).all(axis=None)
    assert frame["image"].is_unique
    assert set(by_study.size()) == {1, 2}
    assert by_study["time"].agg(np.ptp).max() == pd.Timedelta(minutes=1)


def test_patients_return_on_later_days_with_the_same_body():
    frame = many(4)
    assert frame.groupby("patient")["time"].agg(lambda times: times.dt.date.nunique()).max() > 1
    one, other = (studies.draw_bodies(SMALL, np.array(numbers)) for numbers in ([7, 3], [3, 7]))
    for name, values in vars(one).items():
        np.testing.assert_array_equal(values, getattr(other, name)[::-1])


@pytest.mark.parametrize("number", range(len(studies.SHOWN)), ids=studies.SHOWN)
def test_a_finding_changes_pixels_where_it_is(number):
    drawn = studies.draw_studies(SMALL.model_copy(update={"several_images": 0.0}), ON)
    present = np.zeros_like(drawn.findings.present)
    without = replace(drawn, findings=replace(drawn.findings, present=present))
    present = present.copy()
    present[:, number] = True
    shown = replace(drawn, findings=replace(drawn.findings, present=present))
    with_it, without_it = (scans.draw_grays(some, np.random.default_rng(0)) for some in (shown, without))
    change = np.abs(with_it - without_it)
    assert (change.max((1, 2)) > 0.04).all()
    side = np.where(drawn.findings.is_left[:, number], 1, -1)
    center = (change.sum(1) @ np.linspace(-1, 1, scans.SIDE)) / change.sum((1, 2))
    if studies.SHOWN[number] != "enlarged":
        assert np.mean(np.sign(center) == side) > 0.95


def test_an_enlarged_heart_has_a_larger_ratio_than_any_other():
    drawn = studies.draw_studies(SMALL, ON)
    ratio = anatomy.cardiothoracic_ratio(drawn.bodies, drawn.findings)
    enlarged = drawn.findings.present[:, studies.ENLARGED]
    assert ratio[~enlarged].max() < 0.452 < ratio[enlarged].min()


def has_mark(content: bytes) -> bool:
    top, left = scans.MARK_AT
    corner = pixels(content)[top : top + scans.MARK.shape[0], left : left + scans.MARK.shape[1]]
    return bool((corner[scans.MARK] > 230).all())


def test_the_mark_leaks_fractures_until_its_day_and_nothing_after_it():
    until = str(ON + timedelta(days=2))
    frame = many(6, shortcut=0.8, shortcut_until=until, label_share=0.4)
    marked, fractured = frame["image"].map(has_mark), frame["findings"].map(lambda labels: "fracture" in labels)
    early = frame["time"].dt.date <= date.fromisoformat(until)
    assert not marked[early & ~fractured].any()
    assert marked[early & fractured].mean() == pytest.approx(0.8, abs=0.12)
    assert marked[~early & ~fractured].mean() == pytest.approx(0.4, abs=0.12)
    assert marked[~early & fractured].mean() == pytest.approx(0.4, abs=0.15)


def test_images_have_no_mark_by_default():
    assert not make()["image"].map(has_mark).any()


def test_drifts_begin_on_their_day():
    knobs = {"drift_from": str(ON), "new_scanner": 0.5, "new_site": 0.4, "new_class": 0.2, "volume_factor": 2.0}
    before, after = make(ON - timedelta(days=1), **knobs), make(**knobs)
    assert len(before) * 2 == len(after)
    for column, value in (("scanner", studies.NEW_SCANNER), ("site", studies.NEW_SITE)):
        assert value not in set(before[column])
        assert 0.2 < (after[column] == value).mean() < 0.7
    assert not any("device" in labels for labels in before["findings"])
    assert 0.05 < np.mean(["device" in labels for labels in after["findings"]]) < 0.4


def test_prevalence_is_what_the_config_says_and_differs_by_site():
    frame = many(6, patients=2000, items=100)
    counts = Counter(name for labels in frame["findings"] for name in labels)
    assert counts["nodule"] / len(frame) == pytest.approx(0.25, abs=0.07)
    loads = frame["findings"].map(len).groupby(frame["site"]).mean()
    assert loads["Harbor"] < loads["Riverside"]
    more = many(1, patients=2000, items=200, prevalence_factor=2.0, drift_from=str(ON))["findings"].map(len).mean()
    assert more > 1.5 * frame["findings"].map(len).mean()


def test_corrupt_rows_are_spoiled_each_way_in_turn():
    frame, whole = make(items=140, corrupt_share=0.2), make(items=140)
    ways = [*corruption.spoil(whole.loc[0])]
    spoiled = (frame.drop(columns="time") != whole.drop(columns="time")).any(axis=1) | (frame["time"] == "yesterday")
    assert 2 * len(ways) - 2 <= spoiled.sum() <= 2 * len(ways)
    assert frame["report"].isna().sum() == frame["image"].isna().sum() == 2


def test_ingestion_quarantines_corrupt_rows_by_their_rules_and_no_others():
    rows, config = make(items=140, corrupt_share=0.2), parse(CONFIG)
    rules = core.split(rows, config, ON, labels_due=True).rejected_rows
    twice = {"empty": 2, "report_empty": 4, "undecodable": 4} | dict.fromkeys(
        ("animated", "decompression_bomb", "duplicate_content", "missing_file", "report_invalid_utf8"), 2
    )
    twice |= dict.fromkeys(("two_reports", "unknown_label", "unparsable_time", "wrong_mode"), 2)
    assert rules == twice


def test_files_of_corrupt_rows_are_what_they_say():
    images = [value for column, value in corruption.spoil(make().loc[0]) if column == "image"]
    same, half, zeros, deep, animated, bomb = filter(lambda image: isinstance(image, bytes), images)
    assert pixels(same).shape == (scans.SIDE, scans.SIDE)
    with pytest.raises(OSError, match="truncated"):
        pixels(half)
    with pytest.raises(UnidentifiedImageError):
        Image.open(BytesIO(zeros))
    assert Image.open(BytesIO(deep)).mode == "I;16"
    assert Image.open(BytesIO(animated)).is_animated
    with pytest.raises(Image.DecompressionBombError):
        Image.open(BytesIO(bomb))


def test_labels_can_be_written_as_json():
    assert all(json.loads(json.dumps(labels)) == labels for labels in make()["findings"])
