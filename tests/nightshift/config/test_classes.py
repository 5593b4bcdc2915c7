"""What a config of a task with classes says when it is wrong."""

from typing import Any

import pytest

from nightshift.config import parse
from nightshift.errors import UserError
from tests.components import pictures
from tests.components.pictures import config


def message(given: dict[str, Any]) -> str:
    with pytest.raises(UserError) as raised:
        parse(given)
    return str(raised.value).removeprefix("the config is not valid:\n  ")


def text(**changes: Any) -> dict[str, Any]:
    columns = {"event_id": "id", "event_time": "time", "text": "verse", "label": "book"}
    task = {"kind": "text-classification", "classes": ["Genesis", "Exodus"], "candidates": {"bert": {"kind": "bert"}}}
    return pictures.config() | {"columns": columns, "task": task, "simulator": {}} | changes


def test_a_config_with_classes_travels_as_json_and_stays_the_same() -> None:
    for given in (pictures.CONFIG, text()):
        assert parse(parse(given).model_dump_json(exclude_none=True)) == parse(given)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"task": {"kind": "images"}}, "task.kind: is 'images'; allowed: tabular, image-classification"),
        ({"task": {"sid": 3}}, "task.sid: unknown key; allowed here: candidates, channels, classes"),
        ({"task": {"side": 4}}, "task.side: Input should be greater than or equal to 8, got 4"),
        ({"task": {"near_duplicates": 17}}, "task.near_duplicates: Input should be less than or equal to 16, got 17"),
        ({"task": {"classes": ["a"]}}, "task.classes: List should have at least 2 items"),
        ({"task": {"classes": ["a", "b", "a"]}}, "task.classes: class 'a' is listed twice; give each class once"),
        ({"task": {"classes": ["1", "2", "1.0"]}}, "task.classes: class '1' is listed twice; give each class once"),
        ({"task": {"classes": ["a", " "]}}, "task.classes: class ' ' is no name that a label can have"),
        ({"task": {"candidates": {"r": {"kind": "xgboost"}}}}, "task.candidates.r.kind: Input should be 'resnet'"),
        ({"columns": {"image": None}}, "columns.image: missing, and task image-classification needs it"),
        ({"columns": {"amount": "price"}}, "columns.amount: is 'price', which task image-classification does not have"),
        ({"columns": {"text": "words"}}, "columns.text: is 'words', which task image-classification does not have"),
        ({"simulator": {"night_fraud": True}}, "simulator.night_fraud: is True, which task image-classification does"),
        ({"evaluation": {"top_k": 7}}, "evaluation.top_k: is 7, which task image-classification does not have"),
        ({"protocol": {"drop_compromised": False}}, "protocol.drop_compromised: is False, which task image-class"),
        ({"protocol": {"compromised_days": 2}}, "protocol.compromised_days: is 2, which task image-classification"),
    ],
)
def test_the_field_is_named_with_its_value_and_what_is_allowed(changes: dict[str, Any], expected: str) -> None:
    assert message(config(**changes)).startswith(expected)


def test_a_default_of_another_task_is_no_mistake() -> None:
    assert parse(config(evaluation={"top_k": 100}, simulator={"customers": 5000})).evaluation.top_k == 100


def test_texts_are_alike_by_a_share() -> None:
    assert message(text(task=text()["task"] | {"near_duplicates": 4})).startswith(
        "task.near_duplicates: Input should be less than or equal to 0.95, got 4"
    )


def test_a_text_needs_its_column() -> None:
    assert message(text(columns=pictures.CONFIG["columns"])).startswith("columns.image: is 'image', which task text-")


def test_who_can_do_tables_only_says_so() -> None:
    with pytest.raises(UserError, match=r"task.kind is 'image-classification', which this cannot do yet"):
        _ = parse(pictures.CONFIG).tabular
