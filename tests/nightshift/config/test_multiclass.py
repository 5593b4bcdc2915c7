"""Configs of tables of classes: what is refused, with the field, its value and what is allowed."""

from typing import Any

import pytest

from nightshift.config import parse
from nightshift.runtime.errors import UserError
from pipelines import configs

POSITIVES = {"entity": "customer", "functions": ["count", "positive_rate"], "windows": ["7d"]}


@pytest.mark.parametrize(
    ("section", "change", "expected"),
    [
        ("task", {"classes": ["billing"]}, "task.classes: List should have at least 2 items"),
        ("task", {"classes": ["billing", "billing"]}, "task.classes: class 'billing' is listed twice"),
        ("task", {"select_by": "auc_roc"}, "task.select_by: Input should be 'accuracy' or 'macro_f1', got 'auc_roc'"),
        ("task", {"candidates": {"a": {"kind": "ridge"}}}, "task.candidates.a.kind: Input should be 'xgboost', 'log"),
        ("columns", {"categorical": ["predicted"]}, "further column 'predicted' has a name that is used inside the"),
        ("columns", {"series": ["a"]}, "columns.series: a key of task tabular-regression only; leave it out"),
        ("limits", {"nullable": ["word"]}, "limits.nullable: has 'word', and only numbers of columns.numeric may be"),
        ("evaluation", {"top_k": 10}, "evaluation.top_k: a key of task tabular only; leave it out"),
        ("evaluation", {"min_accuracy": 2}, "evaluation.min_accuracy: Input should be less than or equal to 1, got 2"),
        ("source", {"format": {"positive": ["billing"]}}, "source.format.positive: a key of task tabular only"),
    ],
)
def test_a_wrong_key_is_refused_with_its_value_and_what_is_allowed(
    section: str, change: dict[str, Any], expected: str
) -> None:
    value = configs.load("tickets")
    with pytest.raises(UserError) as caught:
        parse(value | {section: value.get(section, {}) | change})
    assert expected in str(caught.value)


@pytest.mark.parametrize("line", [POSITIVES, {"preset": "payments"}])
def test_windows_of_labels_are_refused_since_classes_are_not_0_and_1(line: dict[str, Any]) -> None:
    value = configs.load("tickets")
    value["columns"]["terminal"] = value["columns"]["categorical"].pop()

    with pytest.raises(UserError) as caught:
        parse(value | {"features": [line]})

    assert "features: '" in str(caught.value)
    assert "is a share of labels that are 1, and labels here are classes; leave it out" in str(caught.value)
