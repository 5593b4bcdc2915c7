"""The online state against the batch kernel, bit by bit, over random streams of events and labels."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nightshift.runtime.errors import UserError
from nightshift.tabular import declarations
from nightshift.tabular.online.state import Label, OnlineState
from nightshift.tabular.windows import DAY
from tests.nightshift.tabular.online.streams import ROLES, START, base, config, event, offline, taken

# the snapshot covers 4 days: its last one needs the 3 before it; so the stream is of the 4th day and later
PAST, END = 4, 8
TRICKY = [0, 1, DAY - 1, DAY, 2 * DAY, 3 * DAY - 1, 3 * DAY, 3 * DAY + 1, 4 * DAY - 1, 4 * DAY, 4 * DAY + 1, 5 * DAY]
times = st.sampled_from(TRICKY) | st.integers(0, END * DAY - 1)
keys = st.integers(0, 2)
rows = st.tuples(times, keys, keys, st.integers(-1_000_000, 1_000_000), st.sampled_from([0, 1, None]))
names = st.sampled_from(["ann", "zoë", "bob 2"])
named = st.tuples(times, names, keys, st.integers(0, 10_000), st.sampled_from([0, 1]))
streams = st.lists(rows, max_size=24) | st.lists(named, max_size=24)
shapes = st.sampled_from([ROLES, ("customer", "amount"), ("terminal", "amount"), ("customer",), ("terminal",)])


def apply_labels(state: OnlineState, waiting: list, now: int, after: int) -> None:
    """Tell the state the labels of events that are old enough by now."""
    for arrival in [arrival for arrival in waiting if arrival.time + after <= now]:
        waiting.remove(arrival)
        if arrival.label is not None:
            assert state.label(Label(arrival.event_id, arrival.time, arrival.label))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(streams, shapes, st.integers(0, 1))
@example([(4 * DAY, 0, 0, 1, 1), (4 * DAY, 0, 0, 1, 1)], ROLES, 0)
def test_every_event_gets_the_bits_that_the_batch_gives_it_later(stream, roles, label_delay):
    chosen = config(roles, delay=label_delay, numeric=["distance"])
    events = [event(row, number, chosen) for number, row in enumerate(sorted(stream, key=lambda row: row[0]))]
    # labels come in when they are due, those of the past too, which the snapshot has not got yet
    unlabeled = [event._replace(label=None) for event in events]
    state, waiting = OnlineState(base(unlabeled, chosen, PAST)), list(events)
    for arrival, expected in zip(events, offline(events, chosen), strict=True):
        apply_labels(state, waiting, arrival.time, declarations.label_delay(chosen.feature_spec))
        # those of the snapshot are known, and answered from their place
        if arrival.time >= state.base.oldest:
            assert state.take(arrival)[0] == expected


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(rows, max_size=16).flatmap(st.permutations))
def test_an_event_that_comes_late_gets_what_the_batch_gives_it_among_those_that_have_come(stream):
    chosen = config()
    events = [event(row, number, chosen) for number, row in enumerate(stream)]
    past = sorted((arrival for arrival in events if arrival.time < (START + 3) * DAY), key=lambda arrival: arrival.time)
    state, known = OnlineState(base(past, chosen, PAST)), list(past)
    for arrival in events:
        if arrival in past:
            continue
        known.append(arrival)
        known.sort(key=lambda other: other.time)  # stable: of one time in the order in which they have come
        assert taken(state, arrival) == offline(known, chosen)[known.index(arrival)]


@settings(max_examples=75, deadline=None)
@given(streams)
def test_the_second_time_an_event_changes_nothing_and_has_the_same_answer(stream):
    chosen = config()
    events = [event(row, number, chosen) for number, row in enumerate(sorted(stream, key=lambda row: row[0]))]
    state = OnlineState(base(events, chosen, PAST))
    served = [arrival for arrival in events if arrival.time >= state.base.oldest]
    first = [state.take(arrival) for arrival in served]
    again = [state.take(arrival) for arrival in served]
    assert [row for row, _ in again] == [row for row, _ in first]
    assert all(entry is None for _, entry in again)


def test_a_known_event_is_not_answered_with_those_of_its_time_that_came_after_it():
    chosen = config()
    events = [event((4 * DAY - 5, "ann", 1, 100, None), number, chosen) for number in range(4)]
    state = OnlineState(base(events[:1], chosen, PAST))
    first = state.take(events[0])[0]
    for late in events[1:]:
        answer = state.take(late)[0]
        assert (state.take(events[0])[0], state.take(late)[0]) == (first, answer)
    assert answer == offline(events, chosen)[-1]


@settings(max_examples=75, deadline=None)
@given(st.lists(rows, min_size=1, max_size=12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 1)), max_size=12))
def test_the_last_of_several_labels_counts_wherever_the_event_lies(stream, changes):
    chosen = config()
    events = [event(row, number, chosen) for number, row in enumerate(sorted(stream, key=lambda row: row[0]))]
    state, final = OnlineState(base(events, chosen, PAST)), dict(enumerate(events))
    for arrival in events:
        if arrival.time >= state.base.oldest:
            taken(state, arrival)
    for number, label in changes:
        if number < len(events):
            assert state.label(Label(number, events[number].time, label))
            final[number] = events[number]._replace(label=label)
    probes = [event((END * DAY, 9, terminal, 0, None), 100 + terminal, chosen) for terminal in range(3)]
    expected = offline([*final.values(), *probes], chosen)[len(events) :]
    assert [state.take(event)[0] for event in probes] == expected


SAMPLE = [(4 * DAY - 5, "ann", 1, 250, None), (4 * DAY + 5, "ann", 1, 250, None)]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("change", [{"customer": "bob"}, {"terminal": 2}, {"amount": 2.51}, {"time": 1}])
def test_an_id_that_comes_with_another_event_is_refused(number, change):
    chosen = config()
    events = [event(row, number, chosen) for number, row in enumerate(SAMPLE)]
    state = OnlineState(base(events, chosen, PAST))
    state.take(events[1])
    other = events[number]._replace(**change | ({"time": events[number].time + 1} if "time" in change else {}))
    with pytest.raises(UserError, match=f"event {number} is known with another time, customer, terminal or amount"):
        state.take(other)
    assert state.take(events[number])[0] == offline(events, chosen)[number]


def test_an_id_is_an_event_of_its_own_on_another_day():
    chosen = config()
    events = [event((day * DAY + 5, 0, 0, 100, None), 7, chosen) for day in (3, 4, 5)]
    state = OnlineState(base(events, chosen, PAST))
    assert [state.take(event)[0] for event in events] == offline(events, chosen)
    assert state.label(Label(7, events[1].time, 1))
    assert not state.label(Label(7, events[2].time + DAY, 1))


def test_an_event_older_than_the_windows_reach_is_refused_and_the_snapshots_last_day_is_not():
    chosen = config()
    state = OnlineState(base([], chosen, PAST))
    with pytest.raises(UserError, match="event 1 is of a day before 2024-03-04, the first whose windows"):
        state.take(event((3 * DAY - 1, 0, 0, 1, None), 1, chosen))
    assert state.take(event((3 * DAY, 0, 0, 1, None), 2, chosen))[0][3] == 1


def test_without_windows_nothing_is_kept_and_every_event_is_answered():
    chosen = config(("customer", "amount"), windows=())
    state = OnlineState(base([], chosen, PAST))
    only = event((0, 0, 0, 150, None), 1, chosen)
    assert state.take(only) == ([1.5, 0.0, 1.0], None)
    assert state.take(only) == ([1.5, 0.0, 1.0], None)
