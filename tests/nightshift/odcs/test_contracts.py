"""Configs of data contracts, and contracts of configs."""

import json
from copy import deepcopy
from importlib.resources import files
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.config import parse
from nightshift.odcs.exporting import export_contract
from nightshift.odcs.importing import ContractChoices, import_contract
from nightshift.runtime.errors import UserError
from pipelines import configs

NOBODY = ContractChoices()
CONTRACT: dict[str, Any] = {
    "apiVersion": "v3.0.2",
    "kind": "DataContract",
    "id": "53581432",
    "version": "1.1.0",
    "status": "active",
    "name": "Card Payments",
    "servers": [
        {"server": "prod", "type": "postgres", "host": "db", "port": 5433, "database": "sales", "schema": "pay"}
    ],
    "schema": [
        {
            "name": "payments",
            "physicalName": "payments_v2",
            "properties": [
                {"name": "payment", "physicalName": "payment_id", "logicalType": "string", "primaryKey": True,
                 "required": True, "logicalTypeOptions": {"maxLength": 40}},
                {"name": "booked at", "logicalType": "timestamp", "required": True},
                {"name": "is_fraud", "logicalType": "boolean"},
                {"name": "age", "logicalType": "integer"},
                {"name": "risk", "logicalType": "number", "logicalTypeOptions": {"minimum": 0, "maximum": 1},
                 "quality": [{"type": "library", "metric": "nullValues", "mustBe": 0}]},
                {"name": "country", "logicalType": "string", "logicalTypeOptions": {"pattern": "[A-Z]{2}"}},
                {"name": "basket", "logicalType": "array"},
                {"name": "score", "logicalType": "number"},
                {"name": "customer", "logicalType": "string"},
            ],
            "quality": [
                {"metric": "rowCount", "mustBeGreaterThan": 0},
                {"type": "sql", "query": "select count(*) from payments_v2", "mustBeGreaterThan": 10},
            ],
        }
    ],
    "slaProperties": [
        {"property": "latency", "value": 29.5, "unit": "d", "element": "payments.is_fraud"},
        {"property": "latency", "value": 3.5, "unit": "h", "element": "payments"},
        {"property": "retention", "value": 3, "unit": "y"},
    ],
}  # fmt: skip


def test_a_contract_gives_columns_limits_freshness_and_a_source() -> None:
    imported = import_contract(CONTRACT, ContractChoices(label="is_fraud"))
    config = parse(imported.config)
    assert (config.name, config.label_delay_days, config.schedule.ingestion) == ("card-payments", 30, "0 4 * * *")
    assert config.columns.roles == {
        "event_id": "payment_id",
        "event_time": "booked at",
        "label": "is_fraud",
        "customer": "customer",
    }
    assert imported.config["columns"]["numeric"] == ["age", "risk"]
    assert imported.config["columns"]["categorical"] == ["country"]
    assert imported.config["limits"] == {"nullable": ["age"], "longest_id": 40}
    assert imported.data == "postgresql://db:5433/sales"
    assert config.source.query == (
        'select payment_id, "booked at", is_fraud, age, risk, country, customer from pay.payments_v2 '
        'where "booked at" >= {date} and "booked at" < {next_date}'
    )


def test_what_a_config_has_no_field_for_is_listed_by_its_path() -> None:
    imported = import_contract(CONTRACT, ContractChoices(label="is_fraud"))
    assert imported.left_out == [
        "schema[0].properties[4].logicalTypeOptions",
        "schema[0].properties[5].logicalTypeOptions",
        "schema[0].quality[1]",
        "slaProperties[2]",
    ]
    assert [note.partition(",")[0] for note in imported.notes[:2]] == ["Left out: 'basket'", "Left out: 'score'"]


def changed(path: str, value: Any) -> dict[str, Any]:
    """The contract with another value."""
    contract = deepcopy(CONTRACT)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")]
    node: Any = contract
    for part in parents:
        node = node[part]
    node[last] = value
    return contract


@pytest.mark.parametrize(
    ("contract", "text"),
    [
        (changed("kind", "Table"), "kind is missing or not 'DataContract'"),
        (changed("apiVersion", "v2.2.2"), "apiVersion is 'v2.2.2'"),
        (changed("schema", []), "schema is empty"),
        (changed("schema/0/properties/3", "age"), r"schema\[0\].properties\[3\] is 'age'; it takes an object"),
        (
            changed("schema/0/properties/3/required", "yes"),
            r"properties\[3\].required is 'yes'; it takes true or false",
        ),
        (
            changed("schema/0/properties/0/primaryKey", False),
            "which column is the event_id; name it with --id: payment",
        ),
        (changed("schema/0/properties/3/logicalType", "timestamp"), "event_time; name it with --time: booked at, age"),
        (changed("servers/0/port", "5433"), r"servers\[0\].port is '5433'; it takes a number"),
        (changed("schema/0/properties/0/logicalTypeOptions/maxLength", True), "maxLength is 'True'; it takes a number"),
        (changed("schema/0/properties/3/name", 'a"b'), "braces or quotes"),
        (changed("customProperties", [{"property": "nightshiftTask", "value": "x"}]), "nightshiftTask is 'x'"),
    ],
)
def test_a_mistake_is_named_by_its_path_with_what_to_do(contract: dict[str, Any], text: str) -> None:
    with pytest.raises(UserError, match=text):
        import_contract(contract, ContractChoices(label="is_fraud"))


def test_nobody_guesses_what_is_to_be_predicted_or_which_of_several_tables_has_the_events() -> None:
    with pytest.raises(UserError, match="which column is the label; name it with --label: payment_id, booked at"):
        import_contract(CONTRACT, NOBODY)
    two = changed("schema", [*CONTRACT["schema"], {"name": "shops", "properties": []}])
    with pytest.raises(UserError, match="2 tables; name that of the events with --schema: payments, shops"):
        import_contract(two, ContractChoices(label="is_fraud"))
    imported = import_contract(two, ContractChoices("payments", "is_fraud"))
    assert "schema[1]" in imported.left_out


columns = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
limits = st.fixed_dictionaries(
    {"negative_amounts": st.booleans(), "longest_id": st.integers(1, 10_000)},
    optional={"largest_amount": st.integers(1, 10**9).map(float)},
)


@given(
    names=st.lists(columns, min_size=9, max_size=9, unique=True).filter(lambda names: "score" not in names),
    limits=limits,
    delay=st.integers(0, 90),
    percent=st.integers(0, 10_000),
    hour=st.integers(0, 23),
)
def test_a_config_that_was_exported_and_imported_has_the_same_columns_limits_and_times(
    names: list[str], limits: dict[str, Any], delay: int, percent: int, hour: int
) -> None:
    roles = dict(zip(("event_id", "event_time", "customer", "terminal", "amount", "label"), names, strict=False))
    own = {f"input_{name}": {"column": name} for name in names[6:]}  # whose names the pipeline may use itself
    further = {"numeric": [*own][:2], "categorical": [*own][2:]}
    value = {
        "name": "any",
        "label_delay_days": delay,
        "schedule": {"ingestion": f"0 {hour} * * *"},
        "source": {"files": "{date}.csv", "columns": own, "timezone": "Europe/Berlin"},
        "columns": roles | further,
        "limits": limits | {"nullable": further["numeric"][:1]},
        "quarantine": {"max_share": percent / 10_000},
        "task": {"kind": "tabular", "candidates": {"logistic_regression": {"kind": "logistic_regression"}}},
    }
    config = parse(value)
    imported = import_contract(json.loads(json.dumps(export_contract(config))), NOBODY)
    again = parse(imported.config)
    assert again.model_copy(update={"task": config.task}) == config
    assert imported.left_out == ["description"]


@pytest.mark.parametrize("name", configs.names())
def test_the_contract_of_every_shipped_config_is_one_of_the_standard(name: str, odcs_schema: dict[str, Any]) -> None:
    contract = export_contract(parse(configs.load(name)), "postgresql://me:secret@db/sales", "owner@example.com")
    jsonschema.Draft201909Validator(odcs_schema).validate(contract)
    assert "secret" not in json.dumps(contract)


@pytest.fixture(scope="module")
def odcs_schema() -> dict[str, Any]:
    """The standard's own schema."""
    return dict(json.loads(files("open_data_contract_standard").joinpath("schema.json").read_text()))
