"""Ids in files: what counts as one, what is taken out, and what stays."""

import gzip
import json

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.erasure import formats, listing, tables, texts
from nightshift.erasure.subject import DataSubject, is_distinctive

IDS = st.from_regex(r"[a-zäß]{2,5}[-_. @][0-9]{3,9}", fullmatch=True)


def subject(value: str, *events: str) -> DataSubject:
    return DataSubject("customer", "client", value, "payment", frozenset(events))


def parquet(**columns: list) -> bytes:
    return pd.DataFrame(columns).to_parquet(index=False)


def rows(data: bytes, column: str) -> list:
    return tables.read(data)[column].to_pylist()


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("score of ada-0001: 0.5", 1),
        ('{"client": "ada-0001", "note": "ada-0001."}', 2),
        ("ada-00012 and bada-0001 and ada-0001-b and x@ada-0001 are others", 0),
        ("nothing of ada", 0),
        ("path/ada-0001/image.png", 1),
        ('"first line\\nada-0001"', 1),
    ],
)
def test_an_id_is_a_whole_word(text: str, hits: int) -> None:
    assert texts.count(text, subject("ada-0001")) == hits
    assert texts.count(texts.redact(text, subject("ada-0001")), subject("ada-0001")) == 0


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ('{"rows": 12, "client": 12}', '{"rows": 12, "client": null}'),
        ("client=12, amount=12", "client=[erased], amount=12"),
        (
            '{"client": "12", "customer": 12, "seconds": 12.5}',
            '{"client": "[erased]", "customer": 12, "seconds": 12.5}',
        ),
        ('{"client": 123, "other": 12}', '{"client": 123, "other": 12}'),
        ("<code>&quot;client&quot;: 12</code>", "<code>&quot;client&quot;: null</code>"),
        ('{"client": 12.0}', '{"client": null}'),
        ('{"event": "{\\"client\\": 12}"}', '{"event": "{\\"client\\": null}"}'),
    ],
)
def test_a_short_number_is_an_id_only_after_the_name_of_its_column(text: str, redacted: str) -> None:
    assert texts.redact(text, subject("12")) == redacted


@pytest.mark.parametrize("value", ["Zoë-Ünal 17", 'a"b\\c-12', "<b>&x-1234", "1234567890123"])
def test_an_id_is_seen_as_json_html_and_urls_write_it(value: str) -> None:
    import html
    from urllib.parse import quote

    written = [json.dumps({"x": value}), json.dumps({"x": value}, ensure_ascii=False), f"<td>{html.escape(value)}</td>"]
    for text in [*written, f"/events?of={quote(value, safe='')}"]:
        assert texts.count(text, subject(value)) == 1, text
        assert value not in texts.redact(text, subject(value))


@given(IDS, IDS, st.text(st.characters(codec="utf-8"), max_size=20))
def test_json_stays_json_and_others_ids_stay(own: str, other: str, note: str) -> None:
    document = {"own": own, "list": [own, other], "note": note, other: 1}
    written = json.dumps(document)

    left = json.loads(formats.TEXT.without(written.encode(), subject(own)) or b"")

    assert own == other or left == {"own": texts.ERASED, "list": [texts.ERASED, other], "note": left["note"], other: 1}
    assert texts.count(json.dumps(left), subject(own)) == 0


def test_a_compressed_text_is_looked_into() -> None:
    data = gzip.compress(b"row of ada-0001", mtime=0)
    assert formats.find("trace.json.gz").count(data, subject("ada-0001")) == 1
    left = formats.find("trace.json.gz").without(data, subject("ada-0001"))
    assert left is not None and gzip.decompress(left) == b"row of [erased]"


def test_bytes_that_are_no_text_are_searched_and_never_changed() -> None:
    assert formats.TEXT.count(b"\xff ada-0001", subject("ada-0001")) == 1
    assert formats.TEXT.without(b"\xff ada-0001", subject("ada-0001")) is None


@pytest.mark.parametrize(
    ("column", "own"),
    [
        ([12, 123, 1], [12]),
        ([12.0, 1.2, None], [12.0]),
        (["12", "012", " 12"], ["12", " 12"]),
    ],
)
def test_rows_are_found_by_the_column_of_the_entity(column: list, own: list) -> None:
    data = parquet(client=column, amount=[12.0] * len(column))
    assert formats.PARQUET.count(data, subject("12", "12")) == len(own)
    assert [one for one in column if one not in own] == [
        None if pd.isna(one) else one for one in rows(formats.PARQUET.without(data, subject("12")), "client")
    ]


def test_rows_without_a_column_of_the_entity_are_found_by_the_events() -> None:
    data = parquet(event_id=["p1", "p2", "p11"], score=[0.1, 0.2, 0.3])
    assert rows(formats.PARQUET.without(data, subject("ada", "p1")), "event_id") == ["p2", "p11"]


def test_a_line_that_was_no_row_goes_with_the_customer_that_it_names() -> None:
    data = parquet(client=[None, None], malformed_record=["p1;12;2024", "p2;112;2024"])
    assert rows(formats.PARQUET.without(data, subject("12")), "malformed_record") == ["p2;112;2024"]


def test_messages_of_a_topic_go_by_the_field_of_the_customer() -> None:
    messages = [b'{"client": 12, "payment": "p1"}', b'{"client": 123, "amount": 12}', b"no JSON 12", None]
    data = pd.DataFrame({"partition": 0, "offset": range(4), "value": messages}).to_parquet(index=False)
    assert tables.list_events(tables.read(data), subject("12")) == {"p1"}
    assert rows(formats.PARQUET.without(data, subject("12")), "offset") == [1, 3]


@pytest.mark.parametrize(
    ("value", "expected"),
    [("ada-0001", True), ("123456", False), ("123456789012", True), ("gold", False), ("2024-03-17", False)],
)
def test_only_a_word_that_is_no_plain_number_or_name_stands_for_somebody(value: str, expected: bool) -> None:
    assert is_distinctive(value) is expected


def test_a_digest_depends_on_salt_role_and_id() -> None:
    inputs = [("s", "customer", "12"), ("t", "customer", "12"), ("s", "terminal", "12"), ("s", "customer", "123")]
    assert len({listing.digest(*one) for one in inputs}) == 4
