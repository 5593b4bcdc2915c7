"""Labels of items with any number of classes: those that are read, and those that are quarantined."""

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest

from components.ingestion import core
from nightshift.config import parse
from nightshift.runtime.errors import UserError
from tests.components import topics

DAY = date(2024, 3, 10)
CONFIG = parse(topics.config(label_separator="|") | {"quarantine": {"max_share": 1.0}})


def split(labels: list[Any], labels_due: bool = True) -> core.SplitRows:
    rows = {"text_id": range(len(labels)), "time": "2024-03-10T10:00:00Z", "label": pd.Series(labels, dtype=object)}
    rows["text"] = [f"text {number}" for number in range(len(labels))]
    return core.split(pd.DataFrame(rows), CONFIG, DAY, labels_due)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("sports|finance", '["finance","sports"]'),  # in the order of the classes
        (" health ", '["health"]'),
        ("[]", "[]"),
        ('["travel", "sports"]', '["sports","travel"]'),
        ([], "[]"),
        (["health"], '["health"]'),
        (np.array(["travel", "health"], dtype=object), '["health","travel"]'),
        (np.array([], dtype=object), "[]"),
    ],
    ids=str,
)
def test_labels_are_read_from_text_and_from_lists(label: Any, expected: str) -> None:
    assert split([label]).good["label"].tolist() == [expected]


@pytest.mark.parametrize(
    "label",
    [
        "finance|opera",
        "finance|finance",
        "finance||sports",
        "|",
        ["opera"],
        ["health", "health"],
        [""],
        [None],
        [["a"]],
    ],
    ids=str,
)
def test_unknown_repeated_and_blank_labels_are_quarantined(label: Any) -> None:
    parts = split([label, "health"])
    assert parts.rejected_rows == {"unknown_label": 1}
    assert parts.good["label"].tolist() == ['["health"]']
    assert parts.labels == {"": 1, '["health"]': 1}


def test_a_missing_label_is_not_an_item_without_labels() -> None:
    assert split([None, "", "[]"], labels_due=False).good["label"].isna().tolist() == [True, True, False]
    labels = [["health"], ["sports"], ["health"]]
    rejected = core.examples([split([*labels, ["opera"]]).bad], CONFIG, "unknown_label")
    assert rejected == ['text_id=***, time=2024-03-10T10:00:00Z, text=(6 bytes), label=["opera"]']


@pytest.mark.parametrize(
    ("task", "simulator", "message"),
    [
        (
            {"label_separator": "|", "classes": ["a|b", "c"]},
            {},
            r"task\.label_separator: is '\|', and class 'a\|b' holds",
        ),
        ({"label_separator": ","}, {"label_share": 0.3}, None),
        ({"label_separator": "ab"}, {}, r"task\.label_separator: String should match"),
        (
            {},
            {"label_share": 0.3},
            r"simulator\.label_share: is 0\.3, and each item has one class; set task\.label_sep",
        ),
        (
            {"select_by": "micro_f1"},
            {},
            r"task\.select_by: is 'micro_f1', and task\.label_separator is not set; allowed",
        ),
        (
            {"label_separator": "|", "select_by": "accuracy"},
            {},
            r"task\.select_by: is 'accuracy', and .* is set; allowed",
        ),
    ],
)
def test_a_config_that_does_not_fit_any_number_of_labels_is_refused(
    task: dict[str, Any], simulator: dict[str, Any], message: str | None
) -> None:
    config = topics.config(**task) | {"simulator": simulator}
    if message is None:
        assert parse(config).task.select_by == "macro_average_precision"
        return
    with pytest.raises(UserError, match=message):
        parse(config)
