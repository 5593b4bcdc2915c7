import csv
import gzip
import io
import re
from datetime import date, timedelta

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from components.ingestion import formats, sources
from components.ingestion.sources.coverage import require_days, spans
from components.ingestion.sources.files import FolderSource
from components.ingestion.sources.simulated import Simulated
from nightshift import storage
from nightshift.config import parse
from nightshift.config.source import Simulator
from nightshift.data.splits import Days, plan
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.tasks.tabular import simulator
from tests.components.ingestion.conftest import CONFIG

DAY = date(2024, 3, 10)
COLUMNS = parse(CONFIG).columns
WINDOW = Days(date(2024, 3, 1), DAY)


def named(folder, template):
    return FolderSource(str(folder), parse(CONFIG | {"source": {"files": template}}), {})


def touch(folder, days, template="{date}.parquet"):
    for day in days:
        file = folder / template.format(date=day)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    return named(folder, template)


def required(source, window=WINDOW):
    require_days(source, parse(CONFIG), window)


def complaint(source, window=WINDOW):
    with pytest.raises(UserError) as error:
        required(source, window)
    return str(error.value)


@pytest.mark.parametrize("template", ["{date}.parquet", "dt={date}/part-0.csv.gz", "raw/{date}/{date:%y%m%d}.csv"])
def test_a_window_whose_files_are_all_there_is_accepted(tmp_path, template):
    required(touch(tmp_path, WINDOW, template))


def test_the_missing_file_of_the_logical_date_is_named_with_the_newest_there_is(tmp_path):
    message = complaint(touch(tmp_path, list(WINDOW)[:-2]))
    assert f"{tmp_path}/2024-03-10.parquet does not exist" in message
    assert "2024-03-08" in message


def test_an_empty_or_absent_folder_is_told_apart_from_a_gap(tmp_path):
    message = complaint(named(tmp_path / "nowhere", "{date}.parquet"))
    assert "nowhere/2024-03-10.parquet does not exist, nor is there any day of 2024-03-01 .. 2024-03-10" in message


def test_missing_days_are_listed_compactly(tmp_path):
    message = complaint(touch(tmp_path, [day for day in WINDOW if day.day not in (3, 6, 7, 8)]))
    assert "4 of the 10 days" in message
    assert "2024-03-03, 2024-03-06 .. 2024-03-08;" in message
    assert f"{tmp_path}/2024-03-03.parquet" in message


def test_a_history_that_begins_too_late_gets_the_earliest_possible_date(tmp_path):
    later = [day + timedelta(days=4) for day in WINDOW]
    source = touch(tmp_path, later)
    message = complaint(source)
    assert "the data begins on 2024-03-05" in message
    assert "the earliest --date is 2024-03-14" in message
    required(source, Days(date(2024, 3, 5), date(2024, 3, 14)))


class Recorded:
    """A source that has some days."""

    has_fixed_dtypes = True

    def __init__(self, days):
        self.days = days

    def absence(self, day):
        return f"{day} does not exist"

    def has(self, day):
        return day in self.days


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["daily", "retrospective"]),
    st.fixed_dictionaries({"train_days": st.integers(1, 9), "test_days": st.integers(1, 9)}),
    st.integers(0, 9),
    st.lists(st.integers(1, 9), max_size=2, unique=True),
    st.integers(1, 60),
    st.integers(1, 90),
    st.data(),
)
def test_the_earliest_date_has_data_and_the_days_of_the_message_add_up(
    mode, lengths, delay, windows, watched, count, data
):
    features = [{"preset": "payments", "windows": [f"{days}d" for days in windows]}] if windows else []
    config = parse(
        CONFIG
        | {"label_delay_days": delay, "protocol": lengths | {"mode": mode}, "features": features}
        | {"drift": {"window_days": watched}}
    )
    days = Days(DAY, DAY + timedelta(days=count - 1))
    source = Recorded(days)

    def accepted(logical_date):
        try:
            require_days(source, config, plan(config, logical_date).events)
        except UserError as error:
            return str(error)
        return None

    logical_date = data.draw(st.sampled_from(list(days)))
    message, needed = accepted(logical_date), len(list(plan(config, logical_date).events))
    possible = [day for day in days if accepted(day) is None]
    assert bool(possible) == (count >= needed)
    if message:
        total, summed = re.search(r"(\d+) days: ([^;]+);", message).groups()
        assert int(total) == sum(map(int, re.findall(r"(\d+) \(", summed))) == needed
        earliest = re.search(r"the earliest --date is (\S+)", message)
        assert (earliest and earliest[1]) == (str(possible[0]) if possible else None)


def test_many_gaps_are_cut_short():
    odd = [date(2024, 1, 1) + timedelta(days=2 * i) for i in range(14)]
    assert spans(odd).endswith("2024-01-19 and 4 more")


def test_an_unknown_format_is_refused(config):
    config["source"]["files"] = "{date}.json"
    with pytest.raises(UserError, match=r"source.files is '{date}.json'; .* \.parquet, \.csv, .*\.gz and \.zip"):
        sources.connect("raw", parse(config), DAY)


def test_a_simulated_day_is_known_without_making_it(config):
    parsed = parse(config)
    source = sources.connect("simulator", parsed, DAY)
    assert source.has(DAY)
    assert source.read(DAY).sha256 == source.read(DAY).sha256
    later = sources.connect("simulator", parsed, DAY - timedelta(days=1))
    assert source.read(DAY).sha256 != later.read(DAY).sha256, "its labels are not due there"
    config["simulator"]["seed"] = 5
    assert source.read(DAY).sha256 != sources.connect("simulator", parse(config), DAY).read(DAY).sha256


def table(config, tmp_path, text, name="all.csv"):
    config["source"] = {"table": name}
    (tmp_path / name).write_text(text)
    return sources.connect(str(tmp_path), parse(config), DAY)


def test_the_simulator_refuses_a_config_whose_columns_it_does_not_make(config):
    config["columns"]["categorical"] = ["channel"]
    with pytest.raises(UserError, match="names column 'channel'; give --data with the folder of your files"):
        sources.connect("simulator", parse(config), DAY)


def test_the_simulator_serves_a_config_that_names_a_part_of_its_columns(config):
    del config["columns"]["terminal"], config["columns"]["amount"]
    assert sources.connect("simulator", parse(config), DAY).has(DAY)


@pytest.mark.parametrize("habits", [False, True])
def test_the_columns_that_the_simulator_promises_are_those_it_makes(config, habits):
    chosen = parse(config | {"simulator": config.get("simulator", {}) | {"habits": habits}})
    frame = sources.connect("simulator", chosen, DAY).read(DAY).load()
    assert sorted(frame) == sorted(simulator.SimulationTask().list_columns(chosen.simulator))


HEADER = "transaction_id,time,customer_id,terminal_id,amount,fraud\n"


def test_a_table_is_cut_into_utc_days(config, tmp_path):
    rows = "1,2024-03-09T23:59:59Z,1,1,1,0\n2,2024-03-10T00:00:00Z,1,1,1,0\n3,2024-03-10T01:00:00+02:00,1,1,1,0\n"
    source = table(config, tmp_path, HEADER + rows)
    assert source.read(date(2024, 3, 9)).load()["transaction_id"].tolist() == ["1", "3"]
    assert source.read(DAY).load()["transaction_id"].tolist() == ["2"]
    assert not source.has(date(2024, 3, 11))


def test_a_row_without_a_time_counts_to_the_day_of_the_row_before_it(config, tmp_path):
    rows = "0,,1,1,1,0\n1,2024-03-09T10:00:00Z,1,1,1,0\n2,soon,1,1,1,0\n3,2024-03-10T10:00:00Z,1,1,1,0\n"
    source = table(config, tmp_path, HEADER + rows)
    assert source.read(date(2024, 3, 9)).load()["transaction_id"].tolist() == ["0", "1", "2"]
    assert source.read(DAY).load()["transaction_id"].tolist() == ["3"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        (HEADER, "has no rows"),
        (
            HEADER.replace(",", ";") + "1;2024-03-09;1;1;1,5;0\n",
            "separates its columns by ';', not by ','; set source",
        ),
        (HEADER.replace(",", "\t") + "1\t2024-03-09\t1\t1\t1\t0\n", r"separates its columns by '\\t', not by ','"),
        ("a,b\n1,2\n", "has no column 'transaction_id'"),
        (HEADER + "1,soon,1,1,1,0\n", "column 'time' .* holds no time"),
    ],
)
def test_a_bad_table_is_named(config, tmp_path, text, complaint):
    with pytest.raises(UserError, match=f"^{tmp_path}/all.csv {complaint}"):
        table(config, tmp_path, text).has(DAY)


def test_a_missing_table_is_named_once(config, tmp_path):
    config["source"] = {"table": "all.parquet"}
    with pytest.raises(UserError, match=f"^{tmp_path}/all.parquet does not exist"):
        sources.connect(str(tmp_path), parse(config), DAY).has(DAY)


def test_csv_values_stay_as_they_are_written():
    data = "\ufeffid,amount,note\r\n007,1.50,NA\r\n8,,null\r\n".encode()
    for frame in (formats.parse("x.csv", data, COLUMNS), formats.parse("x.csv.gz", gzip.compress(data), COLUMNS)):
        assert frame["id"].tolist() == ["007", "8"]
        assert frame["note"].tolist() == ["NA", "null"]
        assert frame["amount"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param("x.csv", b"PAR1\x00\xff\xfe", id="Parquet named CSV"),
        pytest.param("x.csv", b"\n", id="an empty line"),
        pytest.param("x.csv", b"id,text\n1,a\0b\n", id="a NUL character, where pandas would cut the text"),
        pytest.param("x.parquet", b"a,b\n1,2\n", id="CSV named Parquet"),
    ],
)
def test_a_damaged_file_is_refused_in_one_line(name, data):
    with pytest.raises(UserError, match=r"^is not a (CSV|Parquet) file, or a damaged one \(.+\)") as error:
        formats.parse(name, data, COLUMNS)
    assert "\n" not in str(error.value)


RECORDS = ["id,text,n\r\n", "1,plain,5\r\n", '2,"two\r\nlines, and a ""quote""",6\r\n', '3,"",7\r\n', "4,end,8"]
CSV = "".join(RECORDS).encode()


def rows(frame):
    return [tuple(row) for row in frame.fillna("").itertuples(index=False)]


@pytest.mark.parametrize("end", [b"", b"\r\n", b"\n"])
def test_the_last_line_of_a_csv_file_needs_no_end(end):
    assert rows(formats.parse("x.csv", CSV + end, COLUMNS))[-1] == ("4", "end", "8")
    assert rows(formats.parse("x.csv", CSV[:-1] + b'"8"' + end, COLUMNS))[-1] == ("4", "end", "8")
    assert rows(formats.parse("x.csv", CSV[:-1] + end, COLUMNS))[-1] == ("4", "end", "")


def test_a_csv_file_that_is_cut_within_a_record_is_refused_wherever_the_cut_is():
    for size in range(len(RECORDS[0]) + 1, len(CSV)):
        cut = CSV[:size]
        try:
            records = list(csv.reader(io.StringIO(cut.decode(), newline=""), strict=True))
        except csv.Error:  # within quotes
            records = [[]]
        if len(records[-1]) == 3:  # after a record, or in its last field, where nobody can see it
            assert rows(formats.parse("x.csv", cut, COLUMNS)) == [tuple(record) for record in records[1:]]
        else:
            with pytest.raises(UserError, match=r"^is not whole \(it.+\): it was cut short, or is still being written"):
                formats.parse("x.csv", cut, COLUMNS)


@pytest.mark.parametrize("ending", ["parquet", "csv.gz"])
def test_a_file_that_is_cut_anywhere_is_refused(ending):
    buffer = io.BytesIO()
    pd.DataFrame({"id": range(3)}).to_parquet(buffer)
    whole = buffer.getvalue() if ending == "parquet" else gzip.compress(CSV + b"\r\n", mtime=0)
    for size in [*range(12, len(whole), 7), len(whole) - 1]:
        with pytest.raises(UserError, match=r"^is not whole \(.+\): it was cut short, or is still being written"):
            formats.parse(f"x.{ending}", whole[:size], COLUMNS)


NAMES = ["transaction_id", "time", "customer_id", "terminal_id", "amount", "fraud"]


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("template", ["{date}", "all"])
@pytest.mark.parametrize("name", ["transaction_id", "amount", "fraud"])
def test_a_header_that_names_a_column_twice_is_refused(config, tmp_path, ending, template, name):
    values = dict.fromkeys(NAMES, "1") | {"time": str(DAY), "fraud": "0"}
    record = ["\ufeff" + NAMES[0], *NAMES[1:], name] if ending == "csv" else [*NAMES, name]
    file = tmp_path / f"{template.replace('{date}', str(DAY))}.{ending}"
    if ending == "parquet":
        parquet.write_table(pa.Table.from_arrays([pa.array([values[name]]) for name in [*NAMES, name]], record), file)
    else:
        text = f"{','.join(record)}\n{','.join(values.values())},999".encode()
        file.write_bytes(gzip.compress(text) if ending == "csv.gz" else text)
    config["source"] = {"files" if template == "{date}" else "table": f"{template}.{ending}"}
    source = sources.connect(str(tmp_path), parse(config), DAY)
    with pytest.raises(UserError, match=f"has column '{name}' more than once; keep one"):
        source.read(DAY).load()


@pytest.mark.parametrize("other", ["amount ", " amount", "\ufeffamount", '"amount"'])
def test_space_around_a_name_makes_no_other_column(other):
    text = f"{','.join([*NAMES, other])}\n1,{DAY},1,1,1,0,999\n"
    with pytest.raises(UserError, match=r"has column 'amount' more than once.*; keep one"):
        formats.parse("x.csv", text.encode(), COLUMNS)


def test_a_column_that_nobody_needs_may_be_there_twice_and_others_differ_by_case_and_space(config):
    text = "note,id,note,ID,,id \n1,2,3,4,5,6\n"
    frame = formats.parse("x.csv", text.encode(), COLUMNS)
    assert frame.to_dict("records") == [{"note": "1", "id": "2", "ID": "4", "Unnamed: 4": "5", "id ": "6"}]


def test_a_file_that_grows_while_it_is_read_is_left_for_the_next_try(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("id\n1\n")

    def read_slowly(uri: str) -> bytes:
        data = storage.read_bytes(uri)
        with file.open("a") as writer:
            writer.write("2\n")
        return data

    with pytest.raises(
        UnavailableError, match=r"x.csv is still being written: it changed while it was read; try again"
    ):
        storage.read_settled(str(file), read_slowly)
    assert storage.read_settled(str(file)) == b"id\n1\n2\n"


def test_large_integers_next_to_a_null_keep_every_digit_and_an_index_is_a_column():
    frame = pd.DataFrame({"id": pd.array([2**60 + 1, None], dtype="Int64")}, index=pd.Index(["a", "b"], name="key"))
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    read = formats.parse("x.parquet", buffer.getvalue(), COLUMNS)
    assert str(read["id"][0]) == str(2**60 + 1), "as text, since a float would compare as equal"
    assert read["key"].tolist() == ["a", "b"]


def test_a_simulated_day_is_another_one_when_its_late_labels_arrive():
    config = Simulator(drift_from="2024-03-10", label_lateness_days=3)
    day, *dues = (date(2024, 3, number) for number in (10, 11, 12, 13, 14))
    hashes = [Simulated(config, due, "tabular").read(day).sha256 for due in dues]
    assert hashes[0] == hashes[1] != hashes[2] == hashes[3]
