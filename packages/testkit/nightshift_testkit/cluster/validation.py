"""Objects against the schemas of Kubernetes and of custom resources, as a server with fieldValidation=Strict does."""

import copy
import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema
from referencing import Registry, Resource

from nightshift_testkit.cluster.kinds import Json, ResourceKind
from nightshift_testkit.cluster.problems import StatusError, invalid

SCHEMAS = files("kubernetes_validate") / "kubernetes-json-schema" / "v1.36.0-local-strict"
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
QUALIFIED = re.compile(r"([^/]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
RULE = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"


def validate(kind: ResourceKind, value: Json) -> None:
    """Check an object.

    Raises:
        StatusError: 400 for an unknown field or another type, 422 for anything else.
    """
    name = value["metadata"].get("name", "")
    _named(kind, value["metadata"])
    errors = sorted(_validator(kind).iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    unknown = [path for error in errors if error.validator == "additionalProperties" for path in _unknown(error)]
    if unknown:
        detail = ", ".join(f'unknown field "{path}"' for path in unknown)
        raise StatusError(
            400, f"{kind.name} in version {kind.version!r} cannot be handled: strict decoding error: {detail}"
        )
    for error in errors:
        if error.validator == "type" and kind.schema is None:
            raise StatusError(400, f"cannot unmarshal {_path(error)}: {error.message}")
    if errors:
        raise invalid(kind, name, *(_message(error) for error in errors))


def cleaned(value: Any) -> Any:
    """Without nulls, which a server reads as absent."""
    if isinstance(value, dict):
        return {name: cleaned(item) for name, item in value.items() if item is not None}
    return [cleaned(item) for item in value] if isinstance(value, list) else value


def defaulted(kind: ResourceKind, value: Json) -> Json:
    """With the defaults that the schema of a custom resource gives."""
    return _defaulted(kind.schema, copy.deepcopy(value)) if kind.schema else value


def _defaulted(schema: Json, value: Any) -> Any:
    if isinstance(value, list):
        return [_defaulted(schema.get("items", {}), item) for item in value]
    if not isinstance(value, dict):
        return value
    for name, inner in schema.get("properties", {}).items():
        if "default" in inner:
            value.setdefault(name, copy.deepcopy(inner["default"]))
        if name in value:
            value[name] = _defaulted(inner, value[name])
    return value


def _named(kind: ResourceKind, meta: Json) -> None:
    name = meta.get("name", "")
    # roles have colons in theirs
    if kind.group != "rbac.authorization.k8s.io" and (not SUBDOMAIN.fullmatch(name) or len(name) > 253):
        raise invalid(kind, name, f'metadata.name: Invalid value: "{name}": {RULE}')
    for key, label in meta.get("labels", {}).items():
        if not QUALIFIED.fullmatch(key) or not LABEL.fullmatch(str(label)) or len(str(label)) > 63:
            raise invalid(
                kind, name, f'metadata.labels: Invalid value: "{label}": a valid label has at most 63 characters'
            )
    for key in meta.get("annotations", {}):
        if not QUALIFIED.fullmatch(key):
            raise invalid(kind, name, f'metadata.annotations: Invalid value: "{key}": a qualified name is wanted')


@cache
def _validator(kind: ResourceKind) -> Any:
    if kind.schema is not None:
        return jsonschema.Draft202012Validator(_closed(kind.schema, root=True))
    group = f"{kind.group.partition('.')[0]}-" if kind.group else ""
    schema = json.loads((SCHEMAS / f"{kind.name.lower()}-{group}{kind.version}.json").read_text())
    return jsonschema.Draft202012Validator(schema, registry=Resource.from_contents(schema) @ _definitions())


@cache
def _definitions() -> Any:
    return Resource.from_contents(json.loads((SCHEMAS / "_definitions.json").read_text())) @ Registry()


def _closed(schema: Json, root: bool = False) -> Json:
    """The JSON schema of a structural schema: fields that it does not name are unknown."""
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    done = {name: value for name, value in schema.items() if not name.startswith("x-") and name != "nullable"}
    if schema.get("nullable") and "type" in schema:
        done["type"] = [schema["type"], "null"]
    done |= {
        name: _closed(schema[name]) for name in ("items", "additionalProperties") if isinstance(schema.get(name), dict)
    }
    if "properties" in schema:
        done["properties"] = {name: _closed(inner) for name, inner in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields") and "additionalProperties" not in schema:
            done["additionalProperties"] = False
    if root or schema.get("x-kubernetes-embedded-resource"):
        known = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}
        done["properties"] = done.get("properties", {}) | known
    return done


def _path(error: Any) -> str:
    shown = ""
    for part in error.absolute_path:
        shown += f"[{part}]" if isinstance(part, int) else f".{part}"
    return shown.lstrip(".")


def _unknown(error: Any) -> list[str]:
    known = error.schema.get("properties", {})
    return [".".join(filter(None, (_path(error), name))) for name in error.instance if name not in known]


def _message(error: Any) -> str:
    path = _path(error)
    if error.validator == "required":
        absent = next(name for name in error.validator_value if name not in error.instance)
        return f"{path}.{absent}".lstrip(".") + ": Required value"
    if error.validator == "enum":
        allowed = ", ".join(json.dumps(value) for value in error.validator_value)
        return f"{path}: Unsupported value: {json.dumps(error.instance)}: supported values: {allowed}"
    return f"{path}: Invalid value: {json.dumps(error.instance)}: {error.message}"
