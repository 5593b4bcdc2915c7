"""Configs of tables of numbers: what is refused, with the field, its value and what is allowed."""

from typing import Any

import pytest

from nightshift.config import parse
from nightshift.runtime.errors import UserError
from pipelines import configs


@pytest.mark.parametrize(
    ("section", "change", "expected"),
    [
        ("task", {"coverage": 1.0}, "task.coverage: Input should be less than 1, got 1.0"),
        ("task", {"windows_days": []}, "task.windows_days: List should have at least 1 item"),
        ("task", {"windows_days": [7, 7]}, "task.windows_days: a window is listed twice; give each length once"),
        ("task", {"select_by": "auc_roc"}, "task.select_by: Input should be 'mae', 'rmse' or 'pinball', got 'auc_roc'"),
        ("task", {"candidates": {"a": {"kind": "logistic_regression"}}}, "task.candidates.a.kind: Input should be 'xg"),
        ("columns", {"series": "shop"}, "columns.series: Input should be a valid array, got 'shop'"),
        ("columns", {"numeric": ["label_last"]}, "columns: further column 'label_last' has a name that is used inside"),
        (
            "columns",
            {"customer": "shop"},
            "columns.customer: a key of task tabular, tabular-classification only; leave",
        ),
        ("limits", {"nullable": ["prise"]}, "limits.nullable.prise: unknown; allowed here: price, promotion"),
        ("evaluation", {"top_k": 10}, "evaluation.top_k: a key of task tabular only; leave it out"),
        ("evaluation", {"cost_over": -1}, "evaluation.cost_over: Input should be greater than or equal to 0, got -1"),
    ],
)
def test_a_wrong_key_is_refused_with_its_value_and_what_is_allowed(
    section: str, change: dict[str, Any], expected: str
) -> None:
    value = configs.load("demand")
    with pytest.raises(UserError) as caught:
        parse(value | {section: value.get(section, {}) | change})
    assert expected in str(caught.value)
