"""What a config of a task with classes says when it is wrong."""

from typing import Any

import pytest

from nightshift.config import parse
from nightshift.runtime.errors import UserError
from tests.components import pictures
from tests.components.pictures import config

ROLES = {"event_id": "id", "event_time": "time", "label": "book"}


def message(raw: dict[str, Any]) -> str:
    with pytest.raises(UserError) as raised:
        parse(raw)
    return str(raised.value).removeprefix("the config is not valid:\n  ")


def text(**changes: Any) -> dict[str, Any]:
    task = {"kind": "text-classification", "classes": ["Genesis", "Exodus"], "candidates": {"bert": {"kind": "bert"}}}
    return pictures.config() | {"columns": ROLES | {"text": "verse"}, "task": task, "simulator": {}} | changes


def test_a_config_with_classes_travels_as_json_and_stays_the_same() -> None:
    for raw in (pictures.CONFIG, text()):
        assert parse(parse(raw).model_dump_json(exclude_none=True)) == parse(raw)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"task": {"kind": "images"}}, "task.kind: is 'images'; allowed: tabular, tabular-regression"),
        ({"task": {"sid": 3}}, "task.sid: unknown key; allowed here: candidates, channels, classes"),
        ({"task": {"side": 4}}, "task.side: Input should be greater than or equal to 8, got 4"),
        ({"task": {"near_duplicates": 17}}, "task.near_duplicates: Input should be less than or equal to 16, got 17"),
        ({"task": {"classes": ["a"]}}, "task.classes: List should have at least 2 items"),
        ({"task": {"classes": ["a", "b", "a"]}}, "task.classes: class 'a' is listed twice; give each class once"),
        ({"task": {"classes": ["1", "2", "1.0"]}}, "task.classes: class '1' is listed twice; give each class once"),
        ({"task": {"classes": ["a", " "]}}, "task.classes: class ' ' is no name that a label can have"),
        ({"task": {"candidates": {"r": {"kind": "xgboost"}}}}, "task.candidates.r.kind: Input should be 'resnet'"),
        ({"columns": {"image": None}}, "columns.image: Input should be a valid string, got None"),
        ({"columns": {"amount": "price"}}, "columns.amount: a key of task tabular, tabular-classification only; leave"),
        ({"columns": {"text": "words"}}, "columns.text: a key of task text-classification, language-modeling only"),
        ({"columns": {"imge": "file"}}, "columns.imge: unknown key; allowed here: event_id, event_time, group, image,"),
        (
            {"limits": {"longest_id": 9}},
            "limits: a key of task tabular, tabular-regression, tabular-classification only; leave",
        ),
        ({"simulator": {"night_fraud": True}}, "simulator.night_fraud: a key of task tabular only; leave it out"),
        ({"simulator": {"new_words": 0.1}}, "simulator.new_words: a key of task text-classification, language-mod"),
        ({"evaluation": {"top_k": 7}}, "evaluation.top_k: a key of task tabular only; leave it out"),
        ({"protocol": {"drop_compromised": False}}, "protocol.drop_compromised: a key of task tabular only; leave it"),
        (
            {"scoring": {"reasons": 3}},
            "scoring.reasons: is 3, and scores of task image-classification have no reasons; leave it out",
        ),
        ({"drift": {"positive_wasserstein": 0.2}}, "drift.positive_wasserstein: a key of task tabular only; leave it"),
    ],
)
def test_the_field_is_named_with_its_value_and_what_is_allowed(changes: dict[str, Any], expected: str) -> None:
    assert message(config(**changes)).startswith(expected)


def test_a_key_that_other_tasks_have_names_them_all() -> None:
    raw = text(task={"kind": "tabular", "candidates": {"a": {"kind": "mlp"}}}, columns=ROLES)
    kinds = "tabular-classification, image-classification, text-classification, image-text"
    allowed = f"a key of task {kinds} only; leave it out"
    assert message(raw | {"evaluation": {"min_accuracy": 0.9}}) == f"evaluation.min_accuracy: {allowed}"


def test_texts_are_alike_by_a_share() -> None:
    assert message(text(task=text()["task"] | {"near_duplicates": 4})).startswith(
        "task.near_duplicates: Input should be less than or equal to 0.95, got 4"
    )


def test_a_text_needs_its_column() -> None:
    assert "columns.text: missing, and it has no default; add it" in message(text(columns=ROLES))
