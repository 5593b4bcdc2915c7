"""Makes a contract of a config: what it promises itself of the data it reads."""

from typing import Any
from urllib.parse import unquote, urlsplit

from nightshift import storage
from nightshift.config import Config
from nightshift.config.columns import Column, Holds
from nightshift.config.tabular import TableConfig
from nightshift.odcs import ROLE, SOURCE, TASK

Json = dict[str, Any]
VERSION = "v3.1.0"  # of the standard
# logical type, and the type of an events partition
TYPES = {
    Holds.IDENTIFIER: ("string", "string"),
    Holds.TIME: ("timestamp", "timestamp[us]"),
    Holds.AMOUNT: ("number", "double"),
    Holds.NUMBER: ("number", "double"),
    Holds.CATEGORY: ("string", "string"),
    Holds.FILE: ("string", "string"),
    Holds.TEXT: ("string", "string"),
}
LABELS = {"Int8": ("integer", "int8"), "float64": ("number", "double")}  # LABEL_TYPE of a task; others are texts
PORT = 5432
QUALITY = {"type": "library"}


def export_contract(config: Config, data: str = "", owner: str = "") -> Json:
    """Return the contract of a use case, as ODCS 3.1 has it.

    Args:
        config: the use case.
        data: URI of its data; empty for a contract without a server.
        owner: who answers for the data, such as an e-mail address; empty for nobody.
    """
    table = {
        "name": config.name,
        "physicalName": _name_table(config),
        "physicalType": "topic" if config.source.topic else "table",
        "logicalType": "object",
        "properties": [_describe(column, config) for column in config.columns.read],
        "quality": _list_rules(config),
        "customProperties": [_custom(SOURCE, config.source.model_dump(mode="json", exclude_defaults=True))],
    }
    body = {
        "name": config.name,
        "status": "active",
        "description": {
            "purpose": f"Events that the use case {config.name} is trained on and scores, a day at a time."
        },
        **({"servers": [server]} if (server := _describe_server(data, config)) else {}),
        "schema": [table],
        "slaProperties": _list_sla(config),
        **({"team": {"name": config.name, "members": [{"username": owner, "role": "owner"}]}} if owner else {}),
        "customProperties": [_custom(TASK, config.task.kind)],
    }
    head = {"apiVersion": VERSION, "kind": "DataContract", "id": f"nightshift-{config.name}"}
    # changes with what is promised, and with nothing else
    return head | {"version": storage.fingerprint(body)[:12]} | body


def _describe(column: Column, config: Config) -> Json:
    logical, physical = _type_of(column, config)
    options, rules = _list_options(column, config), _list_valid(column, config)
    return {
        "name": column.name,
        "logicalType": logical,
        "physicalType": physical,
        "required": _is_required(column, config),
        **({"primaryKey": True, "unique": True} if column.field == "event_id" else {}),
        **({"logicalTypeOptions": options} if options else {}),
        **({"quality": rules} if rules else {}),
        "customProperties": [_custom(ROLE, column.field)],
    }


def _type_of(column: Column, config: Config) -> tuple[str, str]:
    if column.holds is Holds.LABEL:
        return LABELS.get(getattr(config, "LABEL_TYPE", ""), ("string", "string"))
    return TYPES[column.holds]


def _is_required(column: Column, config: Config) -> bool:
    """Return whether a row without a value is refused; a label may come later, and nothing is a category too."""
    return column.holds not in (Holds.LABEL, Holds.CATEGORY) and column.name not in config.nullable


def _list_options(column: Column, config: Config) -> Json:
    if not isinstance(config, TableConfig):
        return {}
    limits = config.limits
    if column.holds is Holds.IDENTIFIER:
        return {"maxLength": limits.longest_id}
    if column.holds is Holds.AMOUNT:
        least = {} if limits.negative_amounts else {"minimum": 0}
        return least | ({"maximum": limits.largest_amount} if limits.largest_amount else {})
    return {}


def _list_valid(column: Column, config: Config) -> list[Json]:
    classes = getattr(config.task, "classes", None)
    if column.holds is not Holds.LABEL or not isinstance(classes, list):
        return []
    return [QUALITY | {"metric": "invalidValues", "mustBe": 0, "arguments": {"validValues": classes}}]


def _list_rules(config: Config) -> list[Json]:
    percent = round(config.quarantine.max_share * 100, 10)
    rules = [QUALITY | {"metric": "invalidValues", "unit": "percent", "mustBeLessOrEqualTo": percent}]
    if config.source.empty_days == "refused":
        rules.append(QUALITY | {"metric": "rowCount", "mustBeGreaterThan": 0})
    return rules


def _list_sla(config: Config) -> list[Json]:
    clock = {"scheduler": "cron", "schedule": config.schedule.ingestion}
    frequency = {"property": "frequency", "value": 1, "unit": "d", "element": config.name} | clock
    labels = config.columns.holding(Holds.LABEL).values()
    delay = config.label_delay_days
    return [
        frequency,
        *({"property": "latency", "value": delay, "unit": "d", "element": f"{config.name}.{name}"} for name in labels),
    ]


def _name_table(config: Config) -> str:
    source = config.source
    names = (source.files, source.table, source.delta, source.iceberg, source.topic)
    return next(filter(None, names), config.name)


def _describe_server(data: str, config: Config) -> Json:
    """Return the server of a URI, without a login; {} for what the standard has no server for."""
    parts, table = urlsplit(data), _name_table(config)
    match parts.scheme:
        case "postgresql":
            address = {"host": parts.hostname or "localhost", "port": parts.port or PORT, "schema": "public"}
            return {"server": "data", "type": "postgres", **address, "database": unquote(parts.path.strip("/"))}
        case "kafka":
            return {"server": "data", "type": "kafka", "host": parts.netloc.rpartition("@")[2]}
        case "s3":
            return {"server": "data", "type": "s3", "location": storage.join(data, table)}
        case "" if data:
            form = table.rpartition(".")[2] if "." in table else "parquet"
            return {"server": "data", "type": "local", "path": storage.join(data, table), "format": form}
    return {}


def _custom(name: str, value: Any) -> Json:
    return {"property": name, "value": value}
