"""What a config says when it is wrong."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from nightshift.config import parse
from nightshift.runtime.errors import UserError
from pipelines import configs

SHIPPED = sorted(configs.find_file(name) for name in configs.names())
VALID: dict[str, Any] = {
    "name": "fraud",
    "source": {"files": "{date}.parquet"},
    "columns": {
        "event_id": "id",
        "event_time": "time",
        "customer": "card",
        "terminal": "shop",
        "amount": "amount",
        "label": "fraud",
    },
    "task": {"kind": "tabular", "candidates": {"trees": {"kind": "xgboost", "parameters": {"max_depth": 3}}}},
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The valid config with one value set, at a path like `task.seed`."""
    config = deepcopy(VALID)
    *sections, key = path.split(".")
    node = config
    for section in sections:
        node = node.setdefault(section, {})
    node[key] = value
    return config


def message(config: dict[str, Any] | str) -> str:
    with pytest.raises(UserError) as raised:
        parse(config)
    return str(raised.value)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_config_is_valid_and_named_as_its_file(path: Path) -> None:
    assert parse(yaml.safe_load(path.read_text())).name == path.stem


def test_a_config_travels_as_json_and_stays_the_same() -> None:
    config = parse(VALID)

    assert parse(config.model_dump_json()) == config


def test_what_is_not_given_has_its_default() -> None:
    config = parse(VALID)

    assert (config.label_delay_days, config.longest_window_days) == (7, 30)
    assert config.columns.roles["customer"] == "card"
    assert config.source.pattern == "{date}.parquet"


@pytest.mark.parametrize(
    ("path", "allowed", "meant"),
    [
        ("protocoll", "name, notify, optimization, protocol", "protocol"),
        ("columns.event_tim", "event_id, event_time", "event_time"),
        ("task.sed", "seed, select_by, state_megabytes, threads", "seed"),
        ("task.candidates.trees.kinde", "inputs, kind, members, parameters", "kind"),
        ("drift.pssi", "average_precision, corrections, evidently, max_drifted_share", "psi"),
    ],
)
def test_an_unknown_key_is_named_with_what_is_allowed_there_and_the_nearest(
    path: str, allowed: str, meant: str
) -> None:
    text = message(changed(path, 1))

    assert f"{path}: unknown key; allowed here: " in text
    assert allowed in text
    assert text.endswith(f"; did you mean {meant!r}?")


def test_a_key_that_resembles_none_gets_no_suggestion() -> None:
    assert "did you mean" not in message(changed("zzzzzz", 1))


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("task.threads", 0, "task.threads: Input should be greater than or equal to 1, got 0"),
        ("evaluation.tolerance", 1.5, "evaluation.tolerance: Input should be less than or equal to 1, got 1.5"),
        ("scoring.reasons", 21, "scoring.reasons: Input should be less than or equal to 20, got 21"),
        ("scoring.reasons", "abc", "scoring.reasons: Input should be a valid integer"),
        ("protocol.mode", "weekly", "protocol.mode: Input should be 'daily' or 'retrospective', got 'weekly'"),
        (
            "task.candidates.trees.kind",
            "xgbost",
            "task.candidates.trees.kind: is 'xgbost'; allowed: xgboost, mlp, logi",
        ),
        ("task.candidates", {"../x": {"kind": "mlp"}}, "task.candidates.../x.[key]: String should match pattern"),
        ("task.candidates", {}, "task.candidates: Dictionary should have at least 1 item"),
        ("name", "My Fraud", "name: String should match pattern"),
        ("schedule.training", "0 0 2 * * *", "takes five fields in UTC, minute, hour, day of the month, month, day of"),
        ("schedule.training", "0 24 * * *", "schedule.training: the hour is '24'; it takes 0 to 23, ranges (1-5)"),
        ("schedule.training", "0 5-2 * * *", "the hour is '5-2'"),
        ("schedule.training", "*/0 2 * * *", "the minute is '*/0'"),
        ("schedule.training", "0 2 * * 1,MON", "the day of the week is 'MON'; it takes 0 to 6"),
    ],
)
def test_a_value_that_is_not_allowed_is_named_with_what_is(path: str, value: Any, says: str) -> None:
    assert says in message(changed(path, value))


def test_a_required_field_that_is_missing_is_named() -> None:
    config = deepcopy(VALID)
    del config["columns"]["label"]

    assert "columns.label: missing, and it has no default; add it to the config" in message(config)


def test_every_mistake_is_named_at_once() -> None:
    text = message(changed("task.threads", 0) | {"label_delay_days": -1})

    assert "task.threads" in text
    assert "label_delay_days" in text


@pytest.mark.parametrize("source", [{}, {"files": "{date}.parquet", "table": "all.csv"}])
def test_data_are_one_file_a_day_or_one_table(source: dict[str, str]) -> None:
    assert "exactly one of 'files' (by day), 'table' (all days in one)" in message(changed("source", source))


@pytest.mark.parametrize(
    "template",
    ["all.parquet", "{date:%Y%m}.csv", "{date:%d}.csv", "{date}-{part}.csv", "{date}}.csv"],
)
def test_a_daily_file_must_name_its_day(template: str) -> None:
    assert f"'files' is {template!r} but must contain {{date}}" in message(changed("source.files", template))


def test_a_column_cannot_have_two_roles() -> None:
    assert "column 'card' is given more than one role" in message(changed("columns.numeric", ["card"]))


@pytest.mark.parametrize("name", ["score", "customer"])
def test_a_further_column_cannot_have_a_name_of_the_pipelines_own(name: str) -> None:
    assert f"further column {name!r} has a name that is used inside" in message(changed("columns.numeric", [name]))


def test_only_numeric_columns_may_be_nullable() -> None:
    value = changed("columns.numeric", ["age"]) | {"limits": {"nullable": ["aeg"]}}

    assert "limits.nullable: has 'aeg', and only numbers of columns.numeric may be missing; give some of age" in (
        message(value)
    )


def test_a_config_that_is_no_mapping_is_refused() -> None:
    assert "(top level)" in message("[1, 2]")


def test_a_config_that_is_no_json_is_refused() -> None:
    assert "is not JSON" in message("fraud.yaml")


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        parse(VALID).label_delay_days = 3


def test_every_limit_has_a_default_that_passes_its_own_rule() -> None:
    defaults = parse(VALID).model_dump()

    assert parse(json.dumps(defaults)).model_dump() == defaults


@pytest.mark.parametrize("name", ["score", "amount", "is_night", "customer_count_30d", "terminal_positive_rate_7d"])
def test_a_further_column_with_a_name_of_ours_is_refused(name: str) -> None:
    assert f"further column {name!r} has a name that is used inside" in message(
        changed("columns", VALID["columns"] | {"amount": "paid", "numeric": [name]})
    )


def without(*roles: str, **task: Any) -> dict[str, Any]:
    """The valid config without some roles."""
    columns = {role: name for role, name in VALID["columns"].items() if role not in roles}
    return VALID | {"columns": columns, "task": VALID["task"] | task}


def test_only_the_roles_that_are_given_are_there() -> None:
    roles = parse(without("terminal", "amount")).columns.roles

    assert roles == {"event_id": "id", "event_time": "time", "customer": "card", "label": "fraud"}


@pytest.mark.parametrize(("roles", "days"), [(["customer"], 30), (["terminal"], 30), (["customer", "terminal"], 0)])
def test_a_preset_stands_for_what_the_columns_have(roles: list[str], days: int) -> None:
    assert parse(without(*roles, "amount")).longest_window_days == days
