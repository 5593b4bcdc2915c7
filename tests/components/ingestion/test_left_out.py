"""What is left out is counted by label, and a label of which too much is left out stops the run."""

from collections import Counter
from datetime import date, timedelta

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.ingestion import core, section
from components.ingestion.discovery import SourceFiles, find_table, verify
from components.ingestion.tally import Totals
from nightshift.config import parse
from nightshift.contracts.section import TableBlock, read_section
from nightshift.contracts.tables import Partition
from nightshift.data.splits import Days
from nightshift.runtime.errors import UserError

from .conftest import CONFIG as TABLE

DAY = date(2024, 3, 10)
TOPICS = {
    "name": "topics",
    "label_delay_days": 1,
    "source": {"files": "{date}.parquet"},
    "columns": {"event_id": "transaction_id", "event_time": "time", "text": "text", "label": "fraud"},
    "task": {
        "kind": "text-classification",
        "classes": ["0", "1", "positive"],
        "candidates": {"bert": {"kind": "bert"}},
    },
}
# spelled label -> what it counts as where labels are 0 and 1, and where they are classes
SPELLED = {
    "1": ("positive", "1"),
    "0": ("negative", "0"),
    "true": ("positive", ""),
    "positive": ("", "positive"),
    "maybe": ("", ""),
    "": ("", ""),
}
SPOILED = {"transaction_id": None, "time": "yesterday", "amount": "-1", "text": "", "customer_id": ""}
ROWS = st.lists(st.tuples(st.sampled_from(list(SPELLED)), st.sampled_from([None, *SPOILED])), min_size=1, max_size=20)


def raw(rows: list[tuple[str, str | None]]) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "transaction_id": [f"id{number}" for number in range(len(rows))],
            "time": "2024-03-10T12:00:00",
            "customer_id": "ann",
            "terminal_id": "shop",
            "amount": "5",
            "text": [f"words of row {number}" for number in range(len(rows))],
            "fraud": [label for label, _ in rows],
        },
        dtype=object,
    )
    for number, (_, column) in enumerate(rows):
        if column:
            frame.loc[number, column] = SPOILED[column]
    # so that each column holds something of its type
    sound = {
        "transaction_id": "last",
        "time": "2024-03-10",
        "customer_id": "b",
        "amount": "1",
        "text": "t",
        "fraud": "1",
    }
    return pd.concat([frame, frame.iloc[:1].assign(**sound)], ignore_index=True)


@pytest.mark.parametrize("kind", [TABLE, TOPICS])
@given(rows=ROWS, labels_due=st.booleans())
@settings(max_examples=10, deadline=None)
def test_counts_by_label_add_up_to_the_rows_read_and_to_those_of_each_rule(kind, rows, labels_due):
    split = core.split(raw(rows), parse(kind), DAY, labels_due)
    counted = [SPELLED[label][kind is TOPICS] for label, _ in rows]
    assert split.labels == Counter([*counted, "1" if kind is TOPICS else "positive"])
    assert sum(split.labels.values()) == len(split.good) + len(split.bad)
    assert {rule: sum(labels.values()) for rule, labels in split.quarantined_labels.items()} == split.rejected_rows
    kept = Counter(split.good_labels)
    assert kept + sum(map(Counter, split.quarantined_labels.values()), Counter()) == split.labels


def day(labels: dict[str, int], quarantined: dict[str, dict[str, int]]) -> Partition:
    details = {"labels": labels, "quarantined_labels": quarantined, "quarantine_uri": None}
    return Partition(str(DAY), "", 0, "", details)


@pytest.mark.parametrize(
    ("days", "share", "label"),
    [
        ([({"positive": 1, "negative": 900}, {"missing_key": {"positive": 1}})], 0.05, None),  # one of one is chance
        ([({"positive": 4, "negative": 900}, {"missing_key": {"positive": 4}})], 0.05, None),
        ([({"positive": 5, "negative": 900}, {"missing_key": {"positive": 5}})], 0.05, "positive"),
        ([({"positive": 100, "negative": 900}, {"missing_key": {"positive": 5}})], 0.05, None),  # the limit itself
        ([({"positive": 100, "negative": 900}, {"missing_key": {"positive": 6}})], 0.05, "positive"),
        # a bad day in a window of good ones, and a bit on each of many days
        ([({"positive": 10}, {"missing_key": {"positive": 8}}), ({"positive": 200}, {})], 0.05, None),
        ([({"positive": 10}, {"missing_key": {"positive": 1}})] * 9, 0.05, "positive"),
        # several rules together
        ([({"positive": 100}, {"missing_key": {"positive": 3}, "bad_amount": {"positive": 3}})], 0.05, "positive"),
        # what is not due has no label, and is no label's loss
        ([({"": 100, "positive": 50}, {"missing_key": {"": 90}})], 0.05, None),
        # a corrected event is there
        ([({"positive": 100}, {"replaced_on_later_day": {"positive": 30}})], 0.05, None),
        # the class that lost most
        ([({"a": 100, "b": 50}, {"empty": {"a": 9, "b": 8}})], 0.05, "b"),
        ([({"negative": 100, "positive": 3}, {"missing_key": {"negative": 30}})], 0.05, "negative"),
        ([({"positive": 10}, {"missing_key": {"positive": 10}})], 1.0, None),
    ],
)
def test_the_share_of_a_label_is_judged_over_the_whole_window_from_five_rows_on(days, share, label):
    assert Totals.from_partitions([day(*counts) for counts in days]).label_excess(share) == label


def without_key(frame: pd.DataFrame) -> pd.DataFrame:
    """The day with no customer in the rows of positives."""
    return frame.assign(customer_id=frame["customer_id"].where(frame["fraud"] != 1).astype("Int64"))


def test_positives_without_a_key_stop_a_run_though_they_are_few_rows(step, config, folder, days, spoil):
    for path in days:
        spoil(path, lambda frame: without_key(frame.assign(fraud=(frame.index < 1).astype("int8"))))
    with pytest.raises(UserError) as error:
        step.ingest(config, folder)
    message = str(error.value)
    assert message.startswith("7 of 7 positives (100.00%) are quarantined, 7 of them by rule 'missing_key'; ")
    assert "quarantine.max_label_share allows 5.00%" in message
    assert message.count("customer_id=(missing)") == 3
    assert message.count("fraud=1") == 3
    assert "or raise quarantine.max_label_share in the config" in message
    config["quarantine"] = {"max_label_share": 1.0}
    table = step.ingest(config, folder)
    assert table.details["quarantined_labels"] == {"missing_key": {"positive": 7}}
    shown = read_section(step.events)
    reason = "7 of 7 positives (100.00%) are left out, 7 of them by missing_key."
    assert (shown.outcome.label, shown.outcome.reasons[1:]) == ("rows left out", [reason])
    (counts,) = [block for block in shown.blocks if isinstance(block, TableBlock)]
    assert counts.is_key  # on the terminal too
    assert [row.cells[:3] for row in counts.rows] == [["missing_key", "all", 7], ["missing_key", "positive", 7]]


def test_a_guessed_config_whose_first_run_would_be_refused_is_refused_for_the_same_reason(config, folder, days, spoil):
    for path in days:
        spoil(path, lambda frame: without_key(frame.assign(fraud=(frame.index < 1).astype("int8"))))
    with pytest.raises(
        UserError, match=r"7 of 7 positives \(100\.00%\) are quarantined, 7 of them by rule 'missing_key'"
    ):
        verify(find_table(str(folder)), parse(config), Days(days[0], days[-1]), days[-1])


def test_a_guess_says_which_days_have_labels_too_few_to_train_on(config, folder, days, spoil):
    spoil(
        days[0], lambda frame: frame.assign(fraud=frame["fraud"].where(frame.index > 0.1 * len(frame)).astype("Int8"))
    )
    *_, late = verify(find_table(str(folder)), parse(config), Days(days[0], days[-1]), days[-1])
    assert late.startswith(f"The labels of {days[0]} are late: ")


@pytest.mark.parametrize("folder", ["24_shops", "24 Shops", "24-shops"])
def test_a_folder_of_files_by_day_names_the_use_case_whatever_its_name(folder):
    assert SourceFiles(f"data/{folder}", {"files": "{date}.csv"}, []).name == "events-24-shops"


@pytest.mark.parametrize("is_early", [True, False], ids=["of all rows", "of the run's rows"])
def test_a_guessed_config_is_refused_where_bad_rows_are_too_many(config, folder, days, spoil, is_early):
    early = [days[0] - timedelta(days=number) for number in range(1, 30)]
    for day in early:  # which no run for the last day reads
        frame = pd.read_parquet(folder / f"{days[0]}.parquet")
        frame["time"] += pd.Timestamp(day) - pd.Timestamp(days[0])
        frame.to_parquet(folder / f"{day}.parquet")
    # 3 % of the run's rows are less than 1 % of all
    for day in early if is_early else days:
        spoil(day, lambda frame: frame.assign(amount=frame["amount"].where(frame.index >= 0.03 * len(frame), -1)))
    with pytest.raises(UserError, match=r"quarantine\.max_share allows 1\.00%"):
        verify(find_table(str(folder)), parse(config), Days(early[-1], days[-1]), days[-1])


def test_many_classes_stay_off_the_terminal():
    names = [f"class {number}" for number in range(50)]
    part = day(dict.fromkeys(names, 10), {"empty": dict.fromkeys(names, 1)})
    blocks = section.build("", [part], Totals.from_partitions([part])).blocks
    (counts,) = [block for block in blocks if isinstance(block, TableBlock)]
    assert not counts.is_key
    assert len(counts.rows) == 51
