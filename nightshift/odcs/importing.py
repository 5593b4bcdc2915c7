"""Makes a config of a contract, and lists what of the contract has no counterpart in it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from nightshift.config.tabular import TabularColumns
from nightshift.odcs import ROLE, SOURCE, TASK
from nightshift.odcs.contract_node import ContractNode
from nightshift.runtime.errors import UserError, nearest

Config = dict[str, Any]
KINDS = BINARY, CLASSES = "tabular", "tabular-classification"
NUMBERS, WORDS, TIMES = ("number", "integer"), ("string", "boolean"), ("timestamp", "date")
SINGLE = ("event_id", "event_time", "customer", "terminal", "amount", "label")
IDENTIFIERS = ("event_id", "customer", "terminal")
CANDIDATES = {"xgboost": {"kind": "xgboost"}, "logistic_regression": {"kind": "logistic_regression"}}
SCHEMES = {"postgres": "postgresql", "postgresql": "postgresql", "redshift": "redshift", "duckdb": "duckdb"}
FILES = ("local", "s3")
DAYS = ("d", "day", "days")
HOURS = ("h", "hr", "hour", "hours")
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class ContractChoices:
    """What a person says that a contract does not; empty for what it says or what is plain.

    Attributes:
        schema: name of the table, of several.
        label: column to predict.
        event_time: column of the event's time.
        event_id: column of the event's id.
    """

    schema: str = ""
    label: str = ""
    event_time: str = ""
    event_id: str = ""


@dataclass(frozen=True)
class ImportedContract:
    """A config that a contract gives.

    Attributes:
        config: as in a YAML file.
        notes: what was assumed, a sentence each.
        left_out: paths in the contract that have no counterpart.
        data: URI of the data, where a server says it.
    """

    config: Config
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    data: str = ""


@dataclass(frozen=True)
class ContractTable:
    """The table of a contract that events come from.

    Attributes:
        node: in the contract.
        properties: column -> its node.
        roles: column -> the field of `columns` that names it; none for a column that is not read.
    """

    node: ContractNode
    properties: dict[str, ContractNode]
    roles: dict[str, str]

    def column(self, role: str) -> str:
        """Return the column of a role, empty where no column has it."""
        return next((name for name, other in self.roles.items() if other == role), "")


def import_contract(document: Any, choices: ContractChoices) -> ImportedContract:
    """Return the config of a contract.

    Raises:
        UserError: naming the path of what is wrong or, where a choice is a person's, the flag.
    """
    contract = _open(document)
    kind = _read_task(contract)
    node = _find_schema(contract, choices.schema)
    properties = _read_properties(node)
    table = ContractTable(node, properties, _assign(properties, choices))
    source, data = _describe_source(contract, table)
    task = _describe_task(kind, table)
    config = {"name": _slug(contract.text("name") or node.text("name")), **_read_sla(contract, table), "source": source}
    config |= {"columns": _describe_columns(table)}
    limits, quarantine = _read_limits(table), _read_quarantine(node)
    config |= ({"limits": limits} if limits else {}) | ({"quarantine": quarantine} if quarantine else {})
    return ImportedContract(config | {"task": task}, _list_notes(table), list(contract.list_unread()), data)


def _open(document: Any) -> ContractNode:
    if not isinstance(document, dict) or document.get("kind") != "DataContract":
        raise UserError("kind is missing or not 'DataContract'; give a contract of the Open Data Contract Standard 3")
    contract = ContractNode(document)
    version = contract.text("apiVersion")
    if not version.startswith("v3."):
        raise UserError(f"apiVersion is {version!r}; contracts of v3.0 and v3.1 are imported")
    contract.ignore("kind", "id", "version", "status")
    return contract


def _find_schema(contract: ContractNode, name: str) -> ContractNode:
    nodes = {node.text("name"): node for node in contract.nodes("schema")}
    if not nodes:
        raise UserError("schema is empty; a contract needs a table with properties to become a config")
    if len(nodes) > 1 and not name:
        raise UserError(f"schema has {len(nodes)} tables; name that of the events with --schema: {', '.join(nodes)}")
    if name and name not in nodes:
        raise UserError(f"schema has no table {name!r}; give one of {', '.join(nodes)}{nearest(name, nodes)}")
    for other in set(nodes) - {name} if name else ():  # of the other tables nothing was read
        contract.used.discard(nodes[other].at("name"))
    return nodes[name] if name else next(iter(nodes.values()))


def _read_properties(node: ContractNode) -> dict[str, ContractNode]:
    properties: dict[str, ContractNode] = {}
    for entry in node.nodes("properties"):
        column = entry.text("physicalName") or entry.text("name")
        entry.ignore("name", "physicalType")
        if not column or column in properties:
            raise UserError(f"{entry.at('name')} is {column!r}; give each property a name of its own")
        properties[column] = entry
    if not properties:
        raise UserError(f"{node.at('properties')} is empty; a config needs columns")
    return properties


def _assign(properties: Mapping[str, ContractNode], choices: ContractChoices) -> dict[str, str]:
    """Return column -> role, of those that are read."""
    roles = {column: role for column, node in properties.items() if (role := _read_role(node))}
    kinds = {column: node.text("logicalType") for column, node in properties.items()}
    for role, column in (("label", choices.label), ("event_time", choices.event_time), ("event_id", choices.event_id)):
        if column and column not in properties:
            raise UserError(f"the contract has no column {column!r}; give one of {', '.join(properties)}")
        if column:
            roles = {name: other for name, other in roles.items() if other != role} | {column: role}
    keys = [column for column, node in properties.items() if node.flag("primaryKey")]
    unique = [column for column, node in properties.items() if node.flag("unique")]
    times = [column for column, kind in kinds.items() if kind == "timestamp"]
    dates = [column for column, kind in kinds.items() if kind == "date"]
    _require_one(roles, "event_id", keys or unique, "--id", properties)
    _require_one(roles, "event_time", times or dates, "--time", properties)
    _require_one(roles, "label", [], "--label", properties)
    for role, allowed in (("customer", WORDS), ("terminal", WORDS), ("amount", NUMBERS)):
        if role not in roles.values() and role not in roles and kinds.get(role) in allowed:
            roles[role] = role
    free = [column for column in kinds if column not in roles and not TabularColumns.is_reserved(column)]
    roles |= {column: "numeric" for column in free if kinds[column] in NUMBERS}
    return roles | {column: "categorical" for column in free if kinds[column] in WORDS}


def _read_role(node: ContractNode) -> str:
    role = node.custom(ROLE)
    if role is not None and role not in (*SINGLE, "numeric", "categorical"):
        raise UserError(f"{node.path}: {ROLE} is {str(role)!r}; it takes {', '.join(SINGLE)}, numeric or categorical")
    return role or ""


def _require_one(
    roles: dict[str, str], role: str, columns: Sequence[str], flag: str, properties: Mapping[str, ContractNode]
) -> None:
    """Give a role to the only column that may have it, where none has it.

    Raises:
        UserError: when none or several may.
    """
    named = [column for column, other in roles.items() if other == role]
    if len(named) > 1:
        raise UserError(f"{properties[named[1]].path}: {ROLE} is {role!r}, as that of {named[0]!r}; give it to one")
    if not named and len(columns) != 1:
        listed = ", ".join(columns or properties)
        raise UserError(f"the contract does not say which column is the {role}; name it with {flag}: {listed}")
    if not named:
        roles[columns[0]] = role


def _describe_columns(table: ContractTable) -> Config:
    columns: Config = {role: table.column(role) for role in SINGLE if table.column(role)}
    for role in ("numeric", "categorical"):
        names = [column for column, other in table.roles.items() if other == role]
        columns |= {role: names} if names else {}
    return columns


def _read_task(contract: ContractNode) -> str:
    """Return the kind of task, empty where the contract names none."""
    kind = contract.custom(TASK)
    if kind not in (None, *KINDS):
        raise UserError(f"{TASK} is {str(kind)!r}; contracts of {' and '.join(KINDS)} are imported")
    return kind or ""


def _describe_task(kind: str, table: ContractTable) -> Config:
    label = table.properties[table.column("label")]
    values = _list_valid(label)
    if not kind and label.text("logicalType") == "number":
        raise UserError(f"{label.path}: the label is a number; write its config by: nightshift config guess")
    kind = kind or (CLASSES if len(values) > 2 else BINARY)
    classes = {"classes": [str(value) for value in values]} if kind == CLASSES else {}
    return {"kind": kind, **classes, "candidates": CANDIDATES}


def _list_valid(label: ContractNode) -> list[Any]:
    for rule in label.nodes("quality"):
        if rule.value.get("metric") == "invalidValues" and rule.value.get("mustBe") == 0:
            rule.ignore("type", "metric", "mustBe")
            return rule.node("arguments").values("validValues")
    return []


def _read_limits(table: ContractTable) -> Config:
    limits: Config = {}
    names = [column for column, role in table.roles.items() if role == "numeric"]
    if nullable := [name for name in names if not _is_required(table.properties[name])]:
        limits["nullable"] = nullable
    for column, role in table.roles.items():  # required or not, rows without them are quarantined, or empty texts
        _is_required(table.properties[column])
        if role == "amount":
            limits |= _limit_amount(table.properties[column].node("logicalTypeOptions"))
    lengths = [_read_length(table.properties[table.column(role)]) for role in IDENTIFIERS if table.column(role)]
    return limits | ({"longest_id": int(max(filter(None, lengths)))} if any(lengths) else {})


def _is_required(node: ContractNode) -> bool:
    is_required = node.flag("required")
    for rule in node.nodes("quality"):
        if rule.value.get("metric") == "nullValues" and rule.value.get("mustBe") == 0:
            rule.ignore("type", "metric", "mustBe")
            is_required = True
    return is_required


def _limit_amount(options: ContractNode) -> Config:
    least, largest = options.number("minimum"), options.number("maximum")
    limits: Config = {} if least is not None and least >= 0 else {"negative_amounts": True}
    return limits | ({} if largest is None else {"largest_amount": largest})


def _read_length(node: ContractNode) -> float | None:
    return node.node("logicalTypeOptions").number("maxLength")


def _read_quarantine(node: ContractNode) -> Config:
    quarantine: Config = {}
    for rule in node.nodes("quality"):
        match rule.value.get("metric"), rule.value.get("unit"):
            case "rowCount", None | "rows" if rule.value.get("mustBeGreaterThan") == 0:
                rule.ignore("type", "metric", "mustBeGreaterThan", "unit")  # a day without rows is refused
            case "invalidValues", "percent" if "mustBeLessOrEqualTo" in rule.value:
                rule.ignore("type", "metric", "unit")
                quarantine["max_share"] = round((rule.number("mustBeLessOrEqualTo") or 0.0) / 100, 12)
    return quarantine


def _read_sla(contract: ContractNode, table: ContractTable) -> Config:
    sla: Config = {}
    label = table.column("label")
    of_label = (label, f"{table.node.text('name')}.{label}")
    for entry in contract.nodes("slaProperties"):
        value, unit = entry.value.get("value"), str(entry.value.get("unit", "")).lower()
        match entry.value.get("property"):
            case "latency" if entry.value.get("element") in of_label and unit in DAYS:
                sla["label_delay_days"] = math.ceil(entry.number("value") or 0)
            case "latency" if unit in HOURS and isinstance(value, int | float) and 0 <= value <= 23:
                sla["schedule"] = {"ingestion": f"0 {math.ceil(value)} * * *"}  # once the day is there
            case "frequency" if value == 1 and unit in DAYS:
                if entry.value.get("scheduler") == "cron":
                    sla["schedule"] = {"ingestion": entry.text("schedule")}
            case _:
                continue
        entry.ignore("property", "value", "unit", "element", "scheduler")
    return sla


def _describe_source(contract: ContractNode, table: ContractTable) -> tuple[Config, str]:
    """Return the section `source`, and the URI of the data, empty where no server says it."""
    own, physical = table.node.custom(SOURCE), table.node.text("physicalName") or table.node.text("name")
    table.node.ignore("name", "physicalType", "logicalType")
    servers = contract.nodes("servers")
    if not isinstance(own or {}, dict):
        raise UserError(f"{table.node.path}: {SOURCE} is {str(own)!r}; it takes an object, the config's source")
    layout, data = _read_server(servers[0], physical) if servers else ("table", "")
    if own:
        return own, data
    return {layout: _write_query(servers[0], table, physical) if layout == "query" else physical}, data


def _read_server(server: ContractNode, physical: str) -> tuple[str, str]:
    """Return how the events lie, a field of `source`, and the URI of the data, empty for a server of another kind."""
    kind = server.text("type")
    server.ignore("server", "environment")
    if kind in SCHEMES:
        return "query", _locate_database(server, kind)
    if kind == "kafka":
        return "topic", f"kafka://{server.text('host')}"
    if kind not in FILES:
        server.used.discard(server.at("type"))
        return "table", ""
    server.ignore("format")
    folder = (server.text("path") or server.text("location")).rpartition("/")[0]
    return "files" if "{date" in physical else "table", folder or "."


def _locate_database(server: ContractNode, kind: str) -> str:
    host, port, database = server.text("host"), server.number("port"), server.text("database")
    if kind == "duckdb":
        return f"duckdb://{database}" if database.startswith("/") else ""
    return f"{SCHEMES[kind]}://{host}{f':{port:.0f}' if port else ''}/{quote(database)}"


def _write_query(server: ContractNode, table: ContractTable, physical: str) -> str:
    """Return the SQL of a day's rows; names that are no plain words stand in quotes."""
    read = [column for column in table.properties if column in table.roles]
    columns, time = ", ".join(map(_write_name, read)), _write_name(table.column("event_time"))
    rows = ".".join(map(_write_name, filter(None, [server.text("schema"), physical])))
    days = f"{time} >= {{date}} and {time} < {{next_date}}"
    return f"select {columns} from {rows} where {days}"  # noqa: S608 - names are quoted, and a person reads it first


def _write_name(name: str) -> str:
    if any(mark in name for mark in '{}"'):
        raise UserError(f"the name {name!r} has braces or quotes, which a query cannot hold; give the column another")
    return name if PLAIN.fullmatch(name) else f'"{name}"'


def _list_notes(table: ContractTable) -> list[str]:
    unread = [column for column in table.properties if column not in table.roles]
    notes = [
        f"Left out: {column!r}, whose type no input has, or whose name the pipeline uses itself." for column in unread
    ]
    if not table.column("customer"):
        notes.append("The contract does not say whose events they are: name it in columns.customer for features.")
    if not table.column("amount"):
        notes.append("The contract does not say what an event is worth: move that column to columns.amount.")
    return notes


def _slug(name: str) -> str:
    """Return a name as a config's may be."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63].rstrip("-")
    return slug if slug[:1].isalpha() else f"data-{slug}".rstrip("-")[:63]
