"""The real step, on real files: what it writes, what it reuses, and what it says of data it cannot take."""

import os
import re
from datetime import date
from pathlib import Path

import pandas as pd
import pytest
import yaml

from nightshift import storage
from nightshift.config import parse
from nightshift.contracts import tables
from nightshift.contracts.section import read_section
from nightshift.data.splits import Days, rows_of
from nightshift.runtime.errors import UserError
from nightshift.tasks.tabular import simulator
from nightshift_testkit.s3 import Fault, Faulty, bucket, rclone, reached_at

from .conftest import DATE

HANDBOOK = Path(__file__).parents[4] / "shared/data/handbook/raw"


def read_all(table):
    return pd.concat([storage.read_frame(part.uri) for part in table.partitions], ignore_index=True)


@pytest.mark.slow
def test_the_manifest_names_each_day_of_the_window(step, config, days):
    done = step.run(config, "simulator")
    assert done.returncode == 0, done.stderr
    assert "ingestion: 7 of 7 days" in done.stderr
    manifest = storage.read_json(step.events)
    assert [part["date"] for part in manifest["partitions"]] == [str(day) for day in days]
    none = {"quarantined": {}, "quarantined_labels": {}}
    assert manifest["details"] == {"source": "simulator", "read": manifest["rows"]} | none
    section = read_section(step.events)
    assert section.outcome.headline == f"Events of {days[0]} to {days[-1]} ingested"
    part = manifest["partitions"][0]
    assert part["uri"].startswith(f"{step.lake}/small/events/date={days[0]}/")
    assert len(storage.read_frame(part["uri"])) == part["rows"] == part["details"]["read"]
    assert part["details"]["quarantine_uri"] is None


def test_the_simulator_and_the_files_it_wrote_are_the_same_events(step, config, clean_events):
    assert step.ingest(config, "simulator").sha256 == clean_events.sha256


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_csv_files_hold_the_same_events(step, config, folder, ending, clean_events):
    for file in folder.glob("*.parquet"):
        pd.read_parquet(file).to_csv(file.with_suffix(ending), index=False)
    config["source"] = {"files": "{date}" + ending}
    assert step.ingest(config, folder).sha256 == clean_events.sha256


@pytest.mark.parametrize("name", ["all.parquet", "all.csv"])
def test_one_table_holds_the_same_events_and_its_future_is_left_alone(step, config, folder, name, clean_events):
    frames = [pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))]
    future = frames[-1].assign(
        time=lambda day: day["time"] + pd.Timedelta(days=1), transaction_id=range(len(frames[-1]))
    )
    every = pd.concat([*frames, future])
    every.to_parquet(folder / name) if name.endswith("parquet") else every.to_csv(folder / name, index=False)
    config["source"] = {"table": name}
    table = step.ingest(config, folder)
    assert table.sha256 == clean_events.sha256
    assert table.details["read"] == sum(map(len, frames))


def test_days_are_cut_at_midnight_utc_of_the_configured_zone(step, config, folder, clean_events):
    for file in folder.glob("*.parquet"):
        frame = pd.read_parquet(file)
        frame.assign(time=frame["time"] + pd.Timedelta(hours=9)).to_parquet(file)
    config["source"]["timezone"] = "Asia/Tokyo"
    assert step.ingest(config, folder).sha256 == clean_events.sha256


def written(step):
    return {file: file.stat().st_mtime_ns for file in step.lake.rglob("*.parquet*")}


def test_a_repeated_run_writes_no_partition_again(step, config, folder):
    first = step.ingest(config, folder)
    before = written(step)
    assert step.ingest(config, folder) == first
    assert written(step) == before


def test_a_rewritten_day_is_made_again_and_it_alone(step, config, folder, spoil, days):
    first = step.ingest(config, folder)
    before = written(step)
    spoil(days[3], lambda frame: frame.assign(amount=frame["amount"] + 1))
    second = step.ingest(config, folder)
    changed = [
        one.date for one, two in zip(first.partitions, second.partitions, strict=True) if one.sha256 != two.sha256
    ]
    assert changed == [str(days[3])]
    assert len(written(step)) == len(before) + 3, "a partition, its keys and its sidecar"
    assert first.sha256 != second.sha256


def test_labels_that_become_due_make_their_day_again(step, config):
    config["protocol"]["mode"] = "daily"
    today = step.ingest(config, "simulator", DATE)
    tomorrow = step.ingest(config, "simulator", "2024-03-11")
    newest = today.partitions[-1]
    assert storage.read_frame(newest.uri)["label"].isna().all()
    assert read_all(today).query(f"event_time < '{DATE}'")["label"].notna().all()
    again = next(part for part in tomorrow.partitions if part.date == newest.date)
    assert storage.read_frame(again.uri)["label"].notna().all()


def test_a_day_whose_labels_never_came_is_made_again_when_they_are_due(step, config, folder, spoil):
    config["protocol"]["mode"] = "daily"
    config["quarantine"] = {"max_share": 1.0, "max_label_share": 1.0}
    simulator.write_days(str(folder), parse(config).simulator, [date(2024, 3, 2), date(2024, 3, 3)])
    spoil("2024-03-09", lambda frame: frame.assign(fraud=pd.array([None] * len(frame), dtype="Int8")))
    before = {part.date: part for part in step.ingest(config, folder, "2024-03-09").partitions}
    after = {part.date: part for part in step.ingest(config, folder, DATE).partitions}
    assert before["2024-03-09"].rows > 0
    assert after["2024-03-09"].rows == 0


def test_a_late_label_job_stops_nothing_and_its_day_is_named(step, config, folder, spoil, days):
    config["protocol"]["mode"] = "daily"
    simulator.write_days(str(folder), parse(config).simulator, [date(2024, 3, 2), date(2024, 3, 3)])
    for day in days[-2:]:  # labels are due on the first of these
        spoil(day, lambda frame: frame.assign(fraud=pd.array([None] * len(frame), dtype="Int8")))
    table = step.ingest(config, folder)
    rows = {part.date: part.rows for part in table.partitions}
    assert table.details["quarantined"] == {}
    assert table.details["unlabeled"] == {"2024-03-09": rows["2024-03-09"]}
    outcome = read_section(step.events).outcome
    assert (outcome.label, outcome.tone) == ("look at them first", "bad")
    assert outcome.reasons[0].startswith(f"The labels of 2024-03-09 are late: {rows['2024-03-09']} rows have none.")


def test_a_day_that_comes_again_with_twice_the_positives_is_said_that_night_and_no_other(step, config, folder, spoil):
    config |= {"protocol": {"mode": "retrospective", "train_days": 1, "test_days": 1}}
    simulator.write_days(str(folder), parse(config).simulator, [date(2024, 3, 11), date(2024, 3, 12)])
    positives = {number: pd.array([1] * number + [0] * 1000, dtype="Int8") for number in (10, 20)}
    spoil("2024-03-09", lambda frame: frame.assign(fraud=positives[10][: len(frame)]))
    assert "signals" not in step.ingest(config, folder).details
    spoil("2024-03-09", lambda frame: frame.assign(fraud=positives[20][: len(frame)]))
    for _ in range(2):  # the second run finds the day in the lake
        (signal,) = step.ingest(config, folder, "2024-03-11").details["signals"]
        assert (signal["name"], signal["value"], signal["raised"]) == ("corrections", 1.0, True)
        sentence = "2024-03-09 has come again with 20 rows of label 'positive', 10 before."
        assert sentence in read_section(step.events).outcome.reasons[0]
    assert "signals" not in step.ingest(config, folder, "2024-03-12").details


def test_numeric_ids_of_a_day_meet_text_ids_of_another_as_text(step, config, folder, spoil, days):
    file = spoil(days[2], lambda frame: frame.assign(customer_id="C" + frame["customer_id"].astype(str)))
    parts = step.ingest(config, folder).partitions
    mixed, numeric = storage.read_frame(parts[2].uri), storage.read_frame(parts[0].uri)
    assert set(mixed["customer"]) == set(pd.read_parquet(file)["customer_id"])
    assert numeric["customer"].map(type).eq(str).all()
    assert numeric["terminal"].dtype == "int64"


def test_corrupted_rows_are_counted_and_kept_in_quarantine(step, config):
    config["simulator"] |= {"corrupt_share": 0.1}
    config["quarantine"] = {"max_share": 0.05, "max_label_share": 0.5}
    table = step.ingest(config, "simulator")
    assert len(table.details["quarantined"]) == 7
    assert table.rows + sum(table.details["quarantined"].values()) == table.details["read"]
    for part in table.partitions:
        bad = storage.read_frame(part.details["quarantine_uri"])
        assert bad["quarantine_reason"].value_counts().to_dict() == part.details["quarantined"]
        assert f"/quarantine/date={part.date}/" in part.details["quarantine_uri"]


@pytest.mark.slow
def test_too_many_bad_rows_stop_the_run_after_they_were_put_on_record(step, config, folder, spoil, days):
    def negative(frame):
        frame.loc[:19, "amount"] = -5.0
        return frame

    spoil(days[1], negative)
    victim = pd.read_parquet(folder / f"{days[1]}.parquet").iloc[0]
    done = step.run(config, folder)
    read = sum(len(pd.read_parquet(file)) for file in folder.glob("*.parquet"))
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    message = done.stderr[done.stderr.index("rule") :]
    assert f"rule 'bad_amount' rejected 20 of {read} rows ({20 / read:.2%})" in message
    assert "quarantine.max_share allows 1.00%" in message
    assert message.count("amount=-5.0") == 3
    assert str(victim["transaction_id"]) not in message
    (quarantine,) = (step.lake / "small/quarantine").rglob("*.parquet")
    assert str(quarantine) in message
    assert len(pd.read_parquet(quarantine)) == 20
    assert not Path(step.events).exists()


def test_as_many_bad_rows_as_are_allowed_stop_nothing(step, config, folder, spoil, days):
    def negative(frame):
        frame.loc[:0, "amount"] = -5.0
        return frame

    spoil(days[1], negative)
    read = sum(len(pd.read_parquet(file)) for file in folder.glob("*.parquet"))
    config["quarantine"] = {"max_share": 1 / read}
    assert step.ingest(config, folder).details["quarantined"] == {"bad_amount": 1}
    config["quarantine"] = {"max_share": 0.999 / read}
    with pytest.raises(UserError, match="rule 'bad_amount' rejected 1 of"):
        step.ingest(config, folder)


def overwrite(data):
    return lambda file: file.write_bytes(data)


def change(how):
    return lambda file: how(pd.read_parquet(file)).to_parquet(file)


BAD_FILES = {
    "empty": (overwrite(b""), "is empty (0 bytes)"),
    "truncated": (
        lambda file: file.write_bytes(file.read_bytes()[:-50]),
        "is not whole (it has no footer): it was cut short",
    ),
    "not Parquet": (overwrite(b"id,amount\n1,2\n"), "is not a Parquet file, or a damaged one"),
    "no rows": (change(lambda frame: frame.iloc[:0]), "has no rows"),
    "a column missing": (
        change(lambda frame: frame.rename(columns={"amount": "amuont"})),
        "has no column 'amount' (columns.amount; did you mean 'amuont'?); it has transaction_id, time",
    ),
    "a wrong type": (
        change(lambda frame: frame.assign(amount="cheap")),
        "its first value is 'cheap'; fix the file",
    ),
    "numbers for times": (change(lambda frame: frame.assign(time=range(len(frame)))), "holds no time; write"),
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_a_bad_file_is_named_in_one_line_beside_the_days_that_are_missing(step, config, folder, kind):
    spoil, complaint = BAD_FILES[kind]
    spoil(file := folder / f"{DATE}.parquet")
    with pytest.raises(UserError) as alone:
        step.ingest(config, folder)
    gone = sorted(folder.glob("*.parquet"))[1]
    gone.unlink()
    with pytest.raises(UserError) as besides:
        step.ingest(config, folder)
    days, fault = str(besides.value).split("; besides, ")
    assert gone.stem in days
    for message in (str(alone.value), fault):
        assert message.startswith(f"{file} ")
        assert complaint in message
        assert "\n" not in message
    assert not Path(step.events).exists()


def test_a_newest_day_that_is_missing_is_named_in_one_line(step, config, folder):
    (file := folder / f"{DATE}.parquet").unlink()
    with pytest.raises(UserError) as refused:
        step.ingest(config, folder)
    assert str(refused.value).startswith(f"{file} does not exist, ")
    assert "\n" not in str(refused.value)
    assert not Path(step.events).exists()


@pytest.mark.slow
def test_a_wrong_date_gives_one_clear_line_and_exit_code_2(step, config):
    done = step.run(config, "simulator", "10.3.2024")
    assert (done.returncode, done.stderr) == (
        2,
        "ingestion: date is '10.3.2024'; write a day as YYYY-MM-DD, for example 2018-08-14\n",
    )


@pytest.mark.slow
@pytest.mark.parametrize("server", ["moto", "rclone"])
def test_s3_and_a_local_folder_give_the_same_events(step, config, folder, clean_events, tmp_path, server):
    step.lake, step.events = "s3://lake/deep", "s3://lake/runs/events.json"
    with bucket() if server == "moto" else rclone(tmp_path / "served") as url, reached_at(url):
        for file in folder.iterdir():
            storage.write_bytes(f"s3://lake/raw/{file.name}", file.read_bytes())
        done = step.run(config, "s3://lake/raw", **os.environ)
        assert done.returncode == 0, done.stderr
        written, again = tables.read_table(step.events), step.ingest(config, "s3://lake/raw")
        storage.remove(f"s3://lake/raw/{DATE}.parquet")
        with pytest.raises(UserError, match=r"s3://lake/raw/2024-03-10\.parquet does not exist"):
            step.ingest(config, "s3://lake/raw")
    assert written == again
    assert written.sha256 == clean_events.sha256
    assert written.partitions[-1].uri.startswith("s3://lake/deep/small/events/date=2024-03-10/")


@pytest.mark.slow
def test_a_store_that_fails_leaves_no_manifest_that_names_what_is_missing(step, config):
    step.lake, step.events = "s3://lake/faulty-ingestion", "s3://lake/faulty-ingestion/events.json"
    with bucket() as url, Faulty(url).serving() as store:
        store.faults.append(Fault("PUT", "2024-03-08/", 503, 5, "SlowDown"))
        failed = step.run(config, "simulator", **os.environ)
        left = storage.names(step.lake)
        days = storage.names(f"{step.lake}/small/events")
        table = step.ingest(config, "simulator")
        whole = [storage.sha256(storage.read_bytes(part.uri)) == part.sha256 for part in table.partitions]

    assert failed.returncode == 1
    assert re.fullmatch(
        r"ingestion: s3://lake/\S+date=2024-03-08/\S+: We are sorry. \(5 tries\); check the store, "
        "then run the same command again\n",
        failed.stderr,
    )
    assert left == ["small"]
    assert days[-1] == "date=2024-03-07"
    assert len(whole) > len(days)
    assert all(whole)


@pytest.mark.slow
@pytest.mark.skipif(not HANDBOOK.exists(), reason="the published data, ../shared/data/handbook, is not here")
def test_the_published_baseline_week_has_the_published_rows(step):
    config = yaml.safe_load(Path("pipelines/configs/handbook.yaml").read_text())
    table = step.ingest(config, HANDBOOK, "2018-08-14")
    assert table.details["quarantined"] == {}
    assert (table.partitions[0].date, table.partitions[-1].date) == ("2018-06-04", "2018-08-14")
    assert table.rows == 689_881
    week = Days(pd.Timestamp("2018-07-25").date(), pd.Timestamp("2018-07-31").date())
    train = rows_of(table.read(week), week)
    assert (len(train), int(train["label"].sum())) == (67_240, 598)
