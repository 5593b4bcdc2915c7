"""A value is the same one on every day, in whatever type or file format it comes."""

import io
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from components.ingestion import core, formats
from nightshift.config import parse
from nightshift.tasks import columns as columns_

from .conftest import CONFIG

COLUMNS = {name: CONFIG["columns"][name] for name in ("event_id", "event_time", "customer", "label")}
CHOSEN = parse(CONFIG | {"columns": COLUMNS | {"categorical": ["kind"]}})
DAY = date(2024, 3, 10)

SIZES = {  # sizes of the numbers that are ids somewhere
    "small": st.integers(-(2**7), 2**7 - 1),
    "medium": st.integers(-(2**24) + 1, 2**24 - 1),
    "exact": st.integers(-(2**53) + 1, 2**53 - 1),
    "signed": st.integers(2**53, 2**53 + 9) | st.integers(-(2**63), 2**63 - 1),
    "unsigned": st.integers(2**63 - 3, 2**64 - 1) | st.integers(0, 9),
}
INTEGERS = {  # the types that each of these sizes fits in
    "small": [pa.int8(), pa.int16(), pa.float16()],
    "medium": [pa.int32(), pa.float32()],
    "exact": [pa.float64()],
    "signed": [pa.int64()],
    "unsigned": [pa.uint64()],
}
TEXTS = [pa.string(), pa.large_string(), pa.binary(), pa.decimal128(38, 0), pa.decimal128(38, 2)]


def fitting(size: str) -> list[pa.DataType]:
    larger = [] if size == "unsigned" else list(SIZES)[list(SIZES).index(size) : -1]
    return [kind for name in larger or [size] for kind in INTEGERS[name]]


def array(numbers: list[int | None], kind: pa.DataType) -> pa.Array:
    """Numbers and nulls in a column of a type."""
    if pa.types.is_decimal(kind):
        return pa.array([None if number is None else Decimal(number) for number in numbers], kind)
    if kind in TEXTS:
        return pa.array([None if number is None else str(number) for number in numbers], kind)
    width = np.dtype(kind.to_pandas_dtype()).type
    return pa.array([None if number is None else width(number) for number in numbers], kind)


def file(table: pa.Table, ending: str) -> tuple[str, bytes]:
    """The table as a file; CSV as pandas writes it, where a null makes floats of integers."""
    buffer = io.BytesIO()
    if ending == "parquet":
        parquet.write_table(table, buffer)
    else:
        table.to_pandas().to_csv(buffer, index=False)
    return f"x.{ending}", buffer.getvalue()


@st.composite
def day(draw, size, numbers):
    """One day's ids as a column of some type, in a file of some format."""
    kind = draw(st.sampled_from([*fitting(size), *TEXTS]))
    ids = draw(st.lists(st.sampled_from(numbers) | st.none(), min_size=1, max_size=5))
    column = array(ids, kind)
    ending = draw(st.sampled_from(["parquet", "csv"]))
    # pandas' CSV loses some of their values
    if kind in (pa.float16(), pa.float32(), pa.binary(), pa.int64(), pa.uint64()):
        ending = "parquet"
    if ending == "parquet" and draw(st.booleans()) and not pa.types.is_float16(kind):
        column = column.dictionary_encode()
    return ids, column, ending


@st.composite
def worlds(draw):
    size = draw(st.sampled_from(list(SIZES)))
    numbers = draw(st.lists(SIZES[size], min_size=1, max_size=3))
    return draw(st.lists(day(size, numbers), min_size=1, max_size=3))


KINDS = [(size, kind) for size, kinds in INTEGERS.items() for kind in [*kinds, *TEXTS]]
EDGES = {"small": [-128, 0, 127], "medium": [1 - 2**24, 9, 2**24 - 1], "exact": [1 - 2**53, 10**15, 2**53 - 1]}
EDGES |= {"signed": [-(2**63), 2**53 + 1, 2**63 - 1], "unsigned": [0, 2**63 + 1, 2**64 - 1]}


def spellings(column: pa.Array, ending: str = "parquet") -> tuple[list[str], list[str | None]]:
    """How a column's values are spelled as categories, and as ids."""
    read = formats.parse(*file(pa.table({"id": column}), ending), CHOSEN.columns)["id"]
    ids = [None if value is pd.NA else str(value) for value in columns_.ids(read)]
    assert ids == [None if value is pd.NA else str(value) for value in columns_.ids(read, as_text=True)]
    return columns_.canonical(read).tolist(), ids


@pytest.mark.parametrize(("size", "kind"), KINDS, ids=str)
def test_a_type_keeps_every_digit_beside_a_null_and_in_a_dictionary_too(size, kind):
    for numbers in (EDGES[size], [*EDGES[size], None]):
        column = array(numbers, kind)
        expected = [None if number is None else str(number) for number in numbers]
        for written in [column, *([] if pa.types.is_float16(kind) else [column.dictionary_encode()])]:
            assert spellings(written) == ([text or "" for text in expected], expected)


@settings(max_examples=40, deadline=None)
@given(worlds())
def test_an_id_and_a_category_are_the_same_in_every_type_format_and_day(days):
    for numbers, column, ending in days:
        expected = [None if number is None else str(number) for number in numbers]
        assert spellings(column, ending) == ([text or "" for text in expected], expected)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.decimal128(9, 4), pa.string()])
def test_a_fraction_is_the_same_in_every_type(kind):
    texts = ["0.1", None, "-2.5", "16.125"]
    value = Decimal if pa.types.is_decimal(kind) else float if pa.types.is_floating(kind) else str
    column = pa.array([None if text is None else value(text) for text in texts], kind)
    for written in (column, column.dictionary_encode()):
        assert spellings(written) == ([text or "" for text in texts], texts)


@pytest.mark.parametrize("column", ["customer_id", "kind"])
@pytest.mark.parametrize(
    ("values", "ending"),
    [
        (pa.array([2.0**53, 7.0, None]), "csv"),
        (pa.array([-1e300, 7.0, None]), "csv"),
        (pa.array([2.0**53, 7.0, None]), "parquet"),
        (pa.array([float("inf"), 7.0, None]), "parquet"),
        (pa.array([2.0**24, 7.0, None], pa.float32()), "parquet"),
        (pa.array(["9007199254740993.0", "7", None]), "parquet"),
        (pa.array(["1.8014398509481984E16", "7", None]).dictionary_encode(), "parquet"),
    ],
)
def test_a_float_that_cannot_tell_integers_apart_is_quarantined_with_its_reason(values, ending, column):
    table = pa.table({"transaction_id": [1, 2, 3], "time": [str(DAY)] * 3, "fraud": [0] * 3, "customer_id": [1, 1, 1]})
    table = table.append_column("kind", pa.array(["a"] * 3)).set_column(
        table.column_names.index(column) if column in table.column_names else 4, column, values
    )
    part = core.split(formats.parse(*file(table, ending), CHOSEN.columns), CHOSEN, DAY, True)
    assert part.bad.set_index("transaction_id")[core.REASON].to_dict() == {"1": "inexact_value"} | (
        {"3": "missing_key"} if column == "customer_id" else {}
    )
    assert part.id_types == {"event_id": "integer", "customer": "integer"}


TIMES = [
    (pa.array([10**13, 0], pa.timestamp("s")), None),
    (pa.array([2**62, 0], pa.timestamp("ms", "+02:00")), "1970-01-01"),
    (pa.array([-(2**62), 0], pa.timestamp("us", "Mars/Olympus")), "1970-01-01"),
    (pa.array([253402300799, 0], pa.timestamp("s")), None),
    (pa.array([2**31 - 1, 0], pa.date32()), None),
    (pa.array([2**62 // 86_400_000 * 86_400_000, 0], pa.date64()), None),
    (pa.array(["9999-12-31 23:59:59", "1970-01-01 00:00:00"]), None),
    (pa.array(["0000-01-01", "1970-01-01"]).dictionary_encode(), None),
]


@pytest.mark.parametrize(("times", "utc"), TIMES)
def test_a_time_beyond_the_calendar_or_a_zone_quarantines_its_row_alone(times, utc):
    chosen = CHOSEN.model_copy(update={"source": CHOSEN.source.model_copy(update={"timezone": "America/New_York"})})
    table = pa.table({"transaction_id": [1, 2], "time": times, "fraud": [0, 0], "customer_id": [1, 1], "kind": [1, 1]})
    frame = formats.parse(*file(table, "parquet"), chosen.columns)
    part = core.split(frame, chosen, date(1970, 1, 1), True)
    assert part.bad.set_index("transaction_id")[core.REASON].to_dict() == {"1": "unparsable_time"}
    assert part.good["event_time"].astype(str).tolist() == [utc or "1970-01-01 05:00:00"]


@pytest.mark.parametrize("text", ["1_000", "\uff11\uff10", "0x10", "nan", "inf", "1,5"])
def test_what_is_no_number_is_quarantined_wherever_it_stands(text):
    chosen = parse(CONFIG | {"columns": CONFIG["columns"] | {"numeric": ["rating"]}})
    rows = [[str(number), str(DAY), "1", "1", "1", "1.5", "0"] for number in range(4)]
    names = ["transaction_id", "time", "customer_id", "terminal_id", "amount", "rating", "fraud"]
    frame = pd.DataFrame(rows, columns=names)
    for row, column in enumerate(["amount", "rating", "fraud"]):
        frame.loc[row, column] = text
    part = core.split(frame, chosen, DAY, True)
    assert part.bad[core.REASON].tolist() == ["bad_amount", "bad_number", "unknown_label"]
    assert part.good["event_id"].tolist() == [3]


def test_a_run_makes_the_same_partitions_whatever_types_its_days_have(step, config, folder, spoil, days, clean_events):
    kinds = ["uint64", "float64", "float32", "category", "Int16", str]
    for day, kind in zip(days, kinds, strict=False):
        spoil(day, lambda frame, kind=kind: frame.astype({"customer_id": kind, "terminal_id": kind}))
    spoil(days[6], lambda frame: frame.assign(customer_id=frame["customer_id"].astype(str) + ".0"))
    assert step.ingest(config, folder).sha256 == clean_events.sha256
