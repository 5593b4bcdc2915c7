"""Events of bodies that are cut anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.http.sse import MAX_EVENT, SseReader, read_data

EVENTS = [b'id: 1\ndata: {"a":', b": a comment", b"data: two\ndata: lines", b"data: [DONE]"]


@given(st.lists(st.integers(1, 40), max_size=60), st.sampled_from([b"\n", b"\r\n"]))
def test_events_are_whole_wherever_a_body_is_cut(sizes, newline) -> None:
    reader, body, events = SseReader(), b"".join(event + newline * 2 for event in EVENTS[:-1]) + EVENTS[-1], []
    for size in [*sizes, len(body)]:
        events += reader.feed(body[:size]) if body else []
        body = body[size:]
    assert [*events, *reader.feed(b"")] == EVENTS


def test_data_is_joined_from_all_lines_of_an_event() -> None:
    assert [read_data(event) for event in EVENTS] == [b'{"a":', b"", b"two\nlines", b"[DONE]"]


def test_an_event_beyond_the_limit_is_an_error() -> None:
    with pytest.raises(ValueError, match=f"more than {MAX_EVENT} bytes"):
        SseReader().feed(b"x" * (MAX_EVENT + 1))
