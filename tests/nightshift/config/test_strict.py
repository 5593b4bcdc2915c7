"""Every number of a config is one, and has bounds; JSON that holds a key twice or a number that is none is refused."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from components.loadtest.core import Load
from nightshift.config import parse
from nightshift.config.images import ImageConfig
from nightshift.config.section import LARGEST, check_parameters
from nightshift.config.tabular import TabularConfig
from nightshift.config.texts import TextConfig
from nightshift.data import splits
from nightshift.data.dates import FIRST, LAST
from nightshift.models.recipes import bert, mlp, resnet
from nightshift.runtime.errors import UserError

TABULAR: dict[str, Any] = {
    "name": "fraud",
    "source": {"files": "{date}.parquet"},
    "columns": {"event_id": "id", "event_time": "time", "customer": "card", "label": "fraud"},
    "task": {"kind": "tabular", "candidates": {"a": {"kind": "mlp"}}},
}
IMAGES = TABULAR | {
    "columns": {"event_id": "id", "event_time": "time", "image": "file", "label": "class"},
    "task": {"kind": "image-classification", "classes": ["a", "b"], "candidates": {"a": {"kind": "resnet"}}},
}
TEXTS = TABULAR | {
    "columns": {"event_id": "id", "event_time": "time", "text": "body", "label": "class"},
    "task": {"kind": "text-classification", "classes": ["a", "b"], "candidates": {"a": {"kind": "bert"}}},
}
CONFIGS: dict[type[BaseModel], dict[str, Any]] = {TabularConfig: TABULAR, ImageConfig: IMAGES, TextConfig: TEXTS}


def numbers(section: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], type]]:
    """Every number below a section, with the type it is declared as."""
    for name, field in section.model_fields.items():
        types = list(leaves(field.annotation))
        for kind in types:
            if issubclass(kind, BaseModel):
                yield from numbers(kind, (*path, name))
        if {int, float} & set(types) and str not in types:
            yield (*path, name), (float if float in types else int)


def leaves(annotation: Any) -> Iterator[type]:
    """The classes that an annotation names, those of a literal's values too."""
    if isinstance(annotation, type):
        yield annotation
    elif get_args(annotation):
        for part in get_args(annotation):
            yield from [type(part)] if isinstance(part, int) else leaves(part)


def fields() -> Iterator[Any]:
    for section, config in CONFIGS.items():
        for path, kind in numbers(section):
            yield pytest.param(config, path, kind, id=".".join([section.__name__, *path]))


def put(config: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The config with a value at a path, and in a list where that is what stands there."""
    if path[:2] == ("notify", "receivers"):
        return config | {"notify": {"receivers": [{"variable": "NIGHTSHIFT_NOTIFY", path[-1]: value}]}}
    changed = deepcopy(config)
    nested = changed
    for name in path[:-1]:
        nested = nested.setdefault(name, {})
    lists = {("release", "shares")}
    nested[path[-1]] = [value] if path in lists else {"m": value} if path == ("costs", "prices") else value
    return changed


WRONG = [10**9 + 1, -(10**9) - 1, 10**400, 1e300, float("nan"), float("inf"), True, False, "1", [], {}]


@pytest.mark.parametrize(("config", "path", "kind"), list(fields()))
def test_a_number_is_bounded_and_nothing_else_is_taken_for_one(
    config: dict[str, Any], path: tuple[str, ...], kind: type
) -> None:
    wrong = [*WRONG, 30.0, 1.5] if kind is int else WRONG
    # seeds and amounts, on whose largest value no memory depends
    largest = {"seed": LARGEST, "largest_amount": 2**53}.get(path[-1], 10**9)
    absurd = [largest + 1 if value == 10**9 + 1 else value for value in wrong]

    for value in absurd:
        with pytest.raises(UserError) as raised:
            parse(put(config, path, value))
        assert ".".join(path) in str(raised.value).replace(".0.", "."), value


@pytest.mark.parametrize("config", CONFIGS.values(), ids=["tabular", "images", "texts"])
@pytest.mark.parametrize("day", [FIRST, LAST], ids=str)
def test_no_config_that_is_valid_asks_for_a_day_that_is_none(config: dict[str, Any], day: Any) -> None:
    days = {"train_days": 3650, "test_days": 3650}
    longest = put(config, ("protocol",), days) | {"label_delay_days": 3650, "drift": {"window_days": 3650}}
    if config is TABULAR:
        longest["features"] = [{"preset": "payments", "windows": ["3650d"]}]

    events = splits.plan(parse(longest), day).events

    assert 1677 < events.first.year < events.last.year + 1


@pytest.mark.parametrize("kind", [mlp.MLPParameters, resnet.ResNetParameters, bert.BertParameters])
def test_a_networks_parameters_are_bounded_too(kind: Any) -> None:
    for (name,), number in numbers(kind):
        for value in [*WRONG, *([30.0] if number is int else [])]:
            with pytest.raises(UserError, match=f"task.x.{name}: "):
                check_parameters(kind, "task.x", {name: value})


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 2**31, -1e300, None, [1], {"a": 1}])
def test_a_librarys_parameter_is_a_finite_number_a_text_or_a_truth(value: Any) -> None:
    path = ("task", "candidates", "a", "parameters")
    with pytest.raises(UserError, match=r"task\.candidates\.a\.parameters\.x: takes a number from"):
        parse(put(TABULAR, path, {"x": value}))
    kept = {"a": 1, "b": 1.0, "c": True, "d": "1"}
    config = parse(put(TABULAR, path, kept))
    for dumped in (config.model_dump(mode="json"), json.loads(config.model_dump_json())):
        assert repr(dumped["task"]["candidates"]["a"]["parameters"]) == repr(kept)


@pytest.mark.parametrize("value", [10**9 + 1, True, "1", float("nan"), -1])
def test_a_load_tests_numbers_are_bounded(value: Any) -> None:
    for name in ("p99_ms", "seconds", "peak"):
        with pytest.raises(UserError, match=f"load.{name} is "):
            Load.from_fields({name: value}, 50)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"name": "a", "name": "b"}', "the key 'name' is given twice"),
        ('{"protocol": {"train_days": 1, "train_days": 2}}', "the key 'train_days' is given twice"),
        ('{"label_delay_days": NaN}', "NaN is no finite number"),
        ('{"label_delay_days": -Infinity}', "-Infinity is no finite number"),
        ('{"label_delay_days": 1e999}', "1e999 is no finite number"),
        ('{"label_delay_days": 9007199254740993}', "9007199254740993 is beyond 2^53"),
        (f'{{"label_delay_days": {"9" * 5000}}}', "is beyond 2^53"),
        ("[" * 60 + "]" * 60, "is nested more than 50 deep"),
        ("[" * 100_000, "is nested more than 50 deep"),
        (r'{"name": "a\u0000"}', "holds the control character U+0000"),
        (r'{"na\ud800me": "a"}', "holds the control character U+D800"),
        ("pipelines/fraud.yaml", "the config is not JSON"),
        ('{"name": "a",}', "the config is not JSON"),
        ("", "the config is not JSON"),
    ],
)
def test_json_that_hides_a_value_is_refused(text: str, says: str) -> None:
    with pytest.raises(UserError, match="the config") as raised:
        parse(text)
    assert says in str(raised.value)
