from datetime import date
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from PIL import Image, ImageDraw, ImageFont
from pydicom import Dataset
from pydicom.dataset import FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

from components.ingestion import __main__ as ingestion
from components.ingestion import sources
from components.ingestion.sources.protocol import FAULT
from nightshift import storage
from nightshift.config import parse
from nightshift.data.splits import plan
from nightshift.registry import access_log
from nightshift.runtime.errors import UserError
from nightshift_image_text import source
from nightshift_image_text.deidentification.pseudonyms import Pseudonyms

DAY = date(2024, 3, 10)
KEY = "k" * 32
PSEUDONYMS = Pseudonyms(KEY.encode())
PATIENT, NAME, HOSPITAL = "MRN-4711", "Featherstonehaugh^Araminta", "Saint Elmo Hospital"
REPORT = "Araminta Featherstonehaugh was seen on 2024-02-29 at Saint Elmo Hospital. No effusion."
IDENTIFIERS = (PATIENT, "Featherstonehaugh", "Araminta", "Saint Elmo", "2024-02-29", "20240229", "1.2.3.")


def config(**sections):
    columns = {
        "event_id": "id", "event_time": "time", "image": "file", "report": "text", "label": "findings",
        "group": "patient", "study": "study", "scanner": "scanner", "site": "site",
    }  # fmt: skip
    task = {"kind": "image-text", "classes": ["effusion", "nodule"], "candidates": {"first": {"kind": "linear"}}}
    protocol = {"train_days": 2, "test_days": 1}
    source = {"files": "{date}.csv"}
    base = {"name": "studies", "label_delay_days": 0, "source": source, "columns": columns, "protocol": protocol}
    return parse(base | {"task": task} | sections)


def scan(number=1, word="", frames=1, **tags):
    """Return the bytes of a DICOM file of a patient with a name, of an image with a word in it."""
    drawn = Image.fromarray(np.random.default_rng(number).integers(60, 90, (120, 240), np.uint8))
    if word:
        ImageDraw.Draw(drawn).text((10, 10), word, 255, ImageFont.load_default(22))
    dataset = Dataset()
    dataset.file_meta = FileMetaDataset()
    dataset.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    dataset.SOPClassUID, dataset.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.7", f"1.2.3.{number}"
    dataset.StudyInstanceUID, dataset.PatientID, dataset.PatientName = "1.2.3.99", PATIENT, NAME
    dataset.StudyDate, dataset.InstitutionName = "20240229", HOSPITAL
    dataset.Manufacturer, dataset.ManufacturerModelName = "Acme", "X 100"
    dataset.Rows, dataset.Columns = 120, 240
    dataset.SamplesPerPixel, dataset.PhotometricInterpretation = 1, "MONOCHROME2"
    dataset.BitsAllocated = dataset.BitsStored = 8
    dataset.HighBit, dataset.PixelRepresentation = 7, 0
    if frames > 1:
        dataset.NumberOfFrames = frames
    dataset.PixelData = np.asarray(drawn).tobytes() * frames
    for keyword, value in tags.items():
        setattr(dataset, keyword, value)
    buffer = BytesIO()
    dataset.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NIGHTSHIFT_PSEUDONYM_KEY", KEY)
    root = tmp_path / "hospital"
    (root / "scans").mkdir(parents=True)
    return root


def deliver(folder, files, day=DAY):
    """Write a day's table with a row for each file: name -> bytes, None for a file that is not there."""
    for name, content in files.items():
        if content is not None:
            (folder / name).write_bytes(content)
    table = {"file": list(files), "text": [REPORT] * len(files), "findings": [""] * len(files)}
    pd.DataFrame(table).to_csv(folder / f"{day}.csv", index=False)


def read(folder, **sections):
    rows = sources.connect(f"dicom://{folder}", config(**sections), DAY).read(DAY)
    return rows.load(), rows.account()


@pytest.mark.slow  # words in pixels are looked for
def test_a_study_comes_without_anything_that_names_its_patient(folder):
    deliver(folder, {"scans/a.dcm": scan(word="FEATHERSTONEHAUGH")})
    frame, account = read(folder)
    (row,) = frame.to_dict("records")
    assert pd.isna(row[FAULT])
    assert not any(word in f"{row['text']} {row['patient']} {row['study']} {row['site']}" for word in IDENTIFIERS)
    assert "effusion" in row["text"]
    assert row["patient"] == PSEUDONYMS.name(PATIENT)
    assert row["scanner"] == "Acme X 100"
    image = Image.open(BytesIO(row["file"]))
    assert (image.format, image.size, image.info) == ("PNG", (240, 120), {})
    assert np.asarray(image)[8:34, 10:200].max() < 100  # where the name stood
    assert sum(count for name, count in account.counts.items() if name.endswith("pixels")) == 1
    assert account.counts["names masked in headers"] > 0
    assert account.opened[0].model_dump() == {
        "subject": PSEUDONYMS.name(PATIENT),
        "sha256": storage.sha256((folder / "scans/a.dcm").read_bytes()),
    }


@pytest.mark.slow  # words in pixels are looked for
def test_each_frame_is_a_row_of_the_same_study_on_the_day_of_its_table(folder):
    deliver(folder, {"scans/a.dcm": scan(frames=2, StudyDate="20010101")})
    frame, _ = read(folder)
    assert frame["id"].nunique() == 2
    assert frame["study"].nunique() == frame["patient"].nunique() == 1
    assert frame["time"].tolist() == [pd.Timestamp(DAY, tz="UTC")] * 2


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (None, "missing_file"),
        (b"no DICOM", "undecodable"),
        (scan(PatientID=""), "no_identity"),
        (scan(PixelData=b"\0" * 10), "short_pixels"),
        (scan(Rows=60_000, Columns=60_000), "decompression_bomb"),
    ],
)
def test_of_what_cannot_be_cleaned_nothing_passes_but_a_rule(folder, content, rule):
    deliver(folder, {"scans/MRN-4711.dcm": content})
    (row,) = read(folder)[0].to_dict("records")
    assert row[FAULT] == rule
    assert {name for name, value in row.items() if isinstance(value, str | bytes) and value} == {"id", FAULT}
    assert PATIENT not in row["id"]


def test_a_file_outside_the_folder_is_not_opened(folder):
    (folder.parent / "secret.dcm").write_bytes(scan())
    deliver(folder, {"../secret.dcm": None})
    frame, account = read(folder)
    assert frame[FAULT].tolist() == ["missing_file"]
    assert not account.opened


def test_what_is_left_of_an_identifier_keeps_its_row_out(folder, monkeypatch):
    from nightshift_image_text import cleaning

    monkeypatch.setattr(cleaning, "clean_text", lambda text, known, pseudonyms: (text, cleaning.Counts()))
    deliver(folder, {"scans/a.dcm": scan()})
    assert read(folder)[0][FAULT].tolist() == ["identifiers_left"]


def test_another_key_makes_other_pseudonyms_and_other_days(folder, monkeypatch, tmp_path):
    deliver(folder, {"scans/a.dcm": scan()})
    first = sources.connect(f"dicom://{folder}", config(), DAY).read(DAY).sha256
    (tmp_path / "key").write_text("another key of some length\n")
    other = config(studies={"key": f"{tmp_path}/key"})
    assert sources.connect(f"dicom://{folder}", other, DAY).read(DAY).sha256 != first


def test_a_key_that_is_not_there_is_asked_for():
    with pytest.raises(UserError, match=r"studies.key is 'KEY'.*openssl rand -hex 32"):
        source.read_key("KEY", {})


def test_a_table_without_reports_says_which_column_is_missing(folder):
    pd.DataFrame({"file": ["a"], "findings": [""]}).to_csv(folder / f"{DAY}.csv", index=False)
    with pytest.raises(UserError, match=r"no column 'text' \(columns.report"):
        read(folder)


@pytest.mark.slow  # words in pixels are looked for
def test_the_night_logs_who_opened_whose_files_and_shows_what_was_masked(folder, tmp_path):
    days = plan(use_case := config(quarantine={"max_share": 0.5}), DAY)
    for day in days.events:  # what is no image any more is opened all the same
        deliver(folder, {f"scans/{day}.dcm": scan(day.day, **({} if day == DAY else {"PixelData": b"cut "}))}, day)
    connected = sources.connect(f"dicom://{folder}", use_case, days.labels_due)
    setup = ingestion.IngestionSetup(use_case, days, connected, str(tmp_path / "lake"), audit=str(tmp_path / "audit"))
    partitions = ingestion.ingest(setup)
    assert [part.details["quarantined"] for part in partitions] == [{"short_pixels": 1}] * (len(partitions) - 1) + [{}]
    accesses = access_log.find_accesses(str(tmp_path / "audit"), "studies", PSEUDONYMS.name(PATIENT))
    assert [record.purpose for record in accesses.records] == [f"ingestion of {day}" for day in days.events]
    assert access_log.find_accesses(str(tmp_path / "audit"), "studies", "another").records == []
    assert partitions[-1].details["source_counts"]["names masked in reports"] > 0
    files = [path for path in (tmp_path / "lake").rglob("*") if path.is_file()]
    assert not [(path, word) for path in files for word in IDENTIFIERS if word.encode() in path.read_bytes()]
    assert ingestion.ingest(setup) == partitions  # found, and so not opened again
    assert access_log.find_accesses(str(tmp_path / "audit"), "studies", PSEUDONYMS.name(PATIENT)) == accesses
