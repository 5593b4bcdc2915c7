"""`nightshift config guess`: from a stranger's file to a config with which a run reads every row."""

import gzip
import json
import sqlite3
import zipfile
from contextlib import closing
from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from pipelines.configs import load
from tests.pipelines.samples import command

DAYS = 75
A_DAY = 12


def rows() -> list[list[str]]:
    """Bookings as a German program exports them."""
    rng = np.random.default_rng(5)
    lines = [["Buchung Nr.", "Gebucht am", "Kunde", "Betrag (EUR)", "Kanal", "Storniert"]]
    for number in range(DAYS * A_DAY):
        moment = datetime(2025, 10, 1, 8) + timedelta(days=number // A_DAY, minutes=int(rng.integers(600)))
        amount = f"{rng.gamma(2, 800) + 0.01:,.2f}".translate(str.maketrans(",.", ".,"))
        label = "Ja" if rng.random() < 0.25 else "Nein"
        customer, channel = f"K{rng.integers(80)}", str(rng.choice(["Geschäft", "web"]))
        lines.append([f"B{number}", f"{moment:%d.%m.%Y %H:%M}", customer, amount, channel, label])
    return [*lines, ["Summe", "", "", "1.234.567,89", "", ""]]


CSV = "\n".join(";".join(line) for line in rows()).encode("cp1252") + b"\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "buchungen.csv").write_bytes(CSV)
    return folder


@pytest.mark.slow
def test_a_guessed_config_reads_every_row_of_a_run(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "buchungen.yaml"

    done = command("config", "guess", str(data / "buchungen.csv"), "--output", str(config))

    assert done.returncode == 0, done.stderr
    assert f"Of {DAYS * A_DAY} rows of 2025-10-01 .. 2025-12-14 a run with this config takes all." in (done.stdout)
    value = load(str(config))
    assert value["source"]["format"] == value["source"]["format"] | {
        "encoding": "cp1252",
        "separator": ";",
        "decimal": ",",
        "thousands": ".",
        "times": ["%d.%m.%Y %H:%M"],
        "skip_rows": ["Summe"],
        "positive": ["Ja"],
        "negative": ["Nein"],
    }
    *_, run = done.stdout.splitlines()
    words = run.partition("then: nightshift ")[2].split()
    ran = command("run", "ingestion", *words[1:], "--workspace", str(tmp_path))
    assert ran.returncode == 0, ran.stderr + ran.stdout
    events = tmp_path / "runs" / "latest" / "ingestion" / "events"
    assert json.loads(events.read_text())["details"]["quarantined"] == {}


def test_each_assumption_is_a_comment_of_the_config_and_a_line_of_the_output(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"

    done = command("config", "guess", str(data), "--output", str(config), "--timezone", "Europe/Berlin")

    comments = " ".join(line.lstrip("# ") for line in config.read_text().splitlines() if line.startswith("#"))
    sentences = [line.removeprefix("- ") for line in done.stdout.splitlines() if line.startswith("- ")]
    assert len(sentences) > 5
    assert [sentence for sentence in sentences if sentence not in comments] == []
    assert load(str(config))["source"]["timezone"] == "Europe/Berlin"


@pytest.mark.slow
def test_files_by_day_are_one_table(tmp_path: Path) -> None:
    header, *lines = rows()[:-1]
    for number in range(DAYS):
        day = date(2025, 10, 1) + timedelta(days=number)
        text = "\n".join(";".join(line) for line in [header, *lines[number * A_DAY : (number + 1) * A_DAY]])
        (tmp_path / f"buchungen-{day}.csv.gz").write_bytes(gzip.compress(text.encode("utf-16")))

    done = command("config", "guess", str(tmp_path), "--output", str(tmp_path / "c.yaml"))

    assert done.returncode == 0, done.stderr
    source = load(str(tmp_path / "c.yaml"))["source"]
    assert (source["files"], source["format"]["encoding"]) == ("buchungen-{date}.csv.gz", "utf-16")


def test_a_zip_file_is_read_as_its_only_member(data: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("inner/buchungen.csv", CSV)

    done = command("config", "guess", str(tmp_path / "export.zip"), "--output", str(tmp_path / "c.yaml"))

    assert done.returncode == 0, done.stderr
    assert load(str(tmp_path / "c.yaml"))["source"]["table"] == "export.zip"


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("x.csv", b"", "is empty (0 bytes)"),
        ("x.csv", CSV[: len(CSV) // 2], "is not whole"),
        ("x.json", b"{}", "holds no file; give one file whose name ends in one of .parquet, .csv"),
        ("x.parquet", CSV, "is not a Parquet file, or a damaged one"),
        ("x.xlsx", CSV, "is not an Excel file, or a damaged one"),
        ("x.csv", CSV[:500].rpartition(b"\n")[0] + b"\n", "the rows are of 1 days"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_message(
    tmp_path: Path, name: str, content: bytes, complaint: str
) -> None:
    (tmp_path / name).write_bytes(content)

    done = command("config", "guess", str(tmp_path / name), "--output", str(tmp_path / "c.yaml"))

    assert (done.returncode, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert not (tmp_path / "c.yaml").exists()


def test_a_config_that_is_there_is_not_overwritten(data: Path, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("mine")

    done = command("config", "guess", str(data), "--output", str(tmp_path / "c.yaml"))

    assert done.returncode == 2
    assert "c.yaml exists; move it away, or give another --output" in done.stderr


@pytest.mark.slow
def test_a_config_is_guessed_from_a_query_and_selects_each_day_by_itself(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    bookings = [
        (number, str(datetime(2025, 10, 1, 8) + timedelta(days=number // A_DAY)), amount, number % 4 == 0)
        for number, amount in enumerate(rng.gamma(2, 800, DAYS * A_DAY).round(2).tolist())
    ]
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("create table bookings (id, booked_at, amount, cancelled)")
        shop.executemany("insert into bookings values (?, ?, ?, ?)", bookings)
        shop.commit()
    config, uri = tmp_path / "bookings.yaml", f"sqlite://{tmp_path}/shop.db"

    query = "select * from bookings -- all of them"
    done = command("config", "guess", "--data", uri, "--query", query, "--output", str(config))

    assert done.returncode == 0, done.stderr
    assert f"Of {DAYS * A_DAY} rows of 2025-10-01 .. 2025-12-14 a run with this config takes all." in (done.stdout)
    limits = '"booked_at" >= {date} and "booked_at" < {next_date}'
    assert load(str(config))["source"]["query"] == f"select * from ({query}\n) as events where {limits}"
    assert f"nightshift run --config {config} --data {uri} --date 2025-12-14" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--query", "select 1"], "give a file, or the URI of a database as --data with a --query"),
        (["--data", "sqlite:///a.db", "--query", "select 1 where day = {date}"], "give a query of all days"),
        (
            ["--data", "sqlite:///a.db", "--query", "select 1", "--timezone", "Asia/Tokyo"],
            "convert the times in the query",
        ),
        (["--data", "postgresql://a:b@h/s", "--query", "select 1"], "set NIGHTSHIFT_DATABASE_PASSWORD"),
    ],
)
def test_a_query_that_cannot_be_guessed_from_is_refused(words: list[str], message: str) -> None:
    done = command("config", "guess", *words)

    assert done.returncode == 2
    assert message in done.stderr


def test_a_label_of_many_numbers_is_guessed_as_one_with_its_series_and_windows(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = ["row_id,opened_at,shop,product,price,promotion,units_sold"]
    for number in range(100 * 20):
        day, series = date(2025, 1, 1) + timedelta(days=number // 20), number % 20
        sold = rng.poisson(10 + series)
        lines.append(f"{number},{day} 08:00:00,{series // 5},{series % 5},{9 + series / 10},{number // 3 % 2},{sold}")
    (tmp_path / "sales.csv").write_text("\n".join(lines) + "\n")

    done = command("config", "guess", str(tmp_path / "sales.csv"), "--label", "units_sold",
                   "--label-delay", "1", "--output", str(tmp_path / "sales.yaml"))  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "'units_sold' is what is predicted: a number, " in done.stdout
    value = load(str(tmp_path / "sales.yaml"))
    assert value["task"]["kind"] == "tabular-regression"
    assert value["columns"]["series"] == ["shop", "product"]
    assert value["columns"]["numeric"] == ["price", "promotion"]
    assert value["task"]["candidates"]["xgboost"]["parameters"]["objective"] == "count:poisson"
    assert (value["protocol"]["train_days"], value["protocol"]["test_days"]) == (28, 14)


def test_a_label_of_several_classes_is_guessed_as_one_with_counts_by_customer(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lines = ["ticket_id,opened_at,customer_id,words,queue"]
    for number in range(60 * 20):
        queue = ("billing", "delivery", "technical")[min(2, rng.poisson(0.8))]
        opened_at = datetime(2025, 1, 1, 8) + timedelta(days=number // 20, minutes=number % 20)
        lines.append(f"{number},{opened_at},{rng.integers(0, 50)},{rng.integers(5, 300)},{queue}")
    (tmp_path / "tickets.csv").write_text("\n".join(lines) + "\n")

    done = command("config", "guess", str(tmp_path / "tickets.csv"), "--label-delay", "1",
                   "--output", str(tmp_path / "tickets.yaml"))  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "'queue' is what is predicted: one of 3 classes, billing, delivery, technical" in done.stdout
    value = load(str(tmp_path / "tickets.yaml"))
    assert (value["task"]["kind"], value["task"]["classes"][0]) == ("tabular-classification", "billing")
    assert value["features"] == [{"entity": "customer", "functions": ["count"], "windows": ["7d"], "with_event": True}]
    assert 0.3 < value["evaluation"]["min_accuracy"] < 0.6
    assert (value["protocol"]["train_days"], value["protocol"]["test_days"]) == (28, 7)
