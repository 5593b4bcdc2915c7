"""OpenLineage's classes as a schema: what a receiver may rely on in an event as it is sent.

They are generated from the published JSON schemas, which the library's wheel does not hold.
"""

import inspect
import types
import typing
from typing import Any

import attr
from openlineage.client import facet_v2
from openlineage.client.event_v2 import RunEvent

FACETS = {
    name: entry
    for _, module in inspect.getmembers(facet_v2, inspect.ismodule)
    for name, entry in inspect.getmembers(module, inspect.isclass)
    if name.endswith("Facet")
}


def check_event(event: dict[str, Any]) -> None:
    """Refuse an event with an unknown field, without a necessary one, or with a value of a wrong type."""
    check(event, RunEvent)
    entities = [event["run"], event["job"], *event.get("inputs", []), *event.get("outputs", [])]
    for entity in entities:
        for kind in ("facets", "inputFacets", "outputFacets"):
            for facet in entity.get(kind, {}).values():
                check(facet, FACETS[facet["_schemaURL"].rpartition("/")[2]])


def check(value: dict[str, Any], kind: type) -> None:
    attr.resolve_types(kind)
    fields = {field.name: field for field in attr.fields(kind)}
    assert set(value) <= set(fields), (kind, set(value) - set(fields))
    for name, field in fields.items():
        if name not in value:
            assert field.default is not attr.NOTHING, (kind, name)
        elif value[name] is not None:
            _check_value(value[name], field.type, f"{kind.__name__}.{name}")
            if field.validator:
                field.validator(types.SimpleNamespace(), field, value[name])


def _check_value(value: Any, kind: Any, where: str) -> None:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        kind = next(entry for entry in arguments if entry is not types.NoneType)
        _check_value(value, kind, where)
    elif origin is list:
        assert isinstance(value, list), where
        for one in value:
            _check_value(one, arguments[0], where)
    elif origin is dict:
        assert isinstance(value, dict), where
    elif inspect.isclass(kind) and attr.has(kind):
        check(value, kind)
    elif inspect.isclass(kind) and kind in (str, int, float, bool):
        assert isinstance(value, (int, float) if kind is float else kind), (where, value)
