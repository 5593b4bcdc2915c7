"""Values that a plan leaves open until the apply, as Terraform itself computes them from the configuration.

A plan knows no id, ARN or e-mail address of what it creates, and no text that contains one, such as an IAM policy.
Terraform plans a second time, as in its own tests, with a name in place of each of these attributes. A value in which
such a name occurs is known by then; any other stays unknown.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra import terraform
from infra.policies.model import IDENTITIES, Json

_STEP = re.compile(r"[\w-]+|\[\d+\]")
_REFERENCE = re.compile(r"((?:data\.)?[a-z]\w+\.[\w-]+)(?:\[[^]]*\])?\.(.+)")
_NO_RESOURCES = ("each.", "local.", "module.", "path.", "self.", "terraform.", "var.")
_NUMBER = "000000000000"  # of a project
# attributes whose form providers or rules look at; Terraform makes up the other texts
_FORMED = {*IDENTITIES, "email_address", "name", "number"}
Path_ = tuple[str, ...]


def resolve(plan: Json, cloud: str, size: str, source: Path, variables: Json) -> Json:
    """Return a plan with the values and outputs that follow from names of what it creates.

    Raises:
        UnavailableError: when Terraform refuses the second plan.
    """
    open_paths = {change["address"]: [*_open(plan, change)] for change in _created(plan)}
    evaluated = terraform.evaluate(cloud, size, _test(plan, open_paths), source, variables)
    values = {change["address"]: change["change"]["after"] for change in evaluated["resource_changes"]}
    names = {
        str(name)
        for address, paths in open_paths.items()
        for path in paths
        if isinstance(name := _get(values.get(address), path), str)
    }
    known = re.compile("|".join(map(re.escape, names)) or "(?!)")
    changes = [_known_change(change, values.get(change["address"]), known) for change in plan["resource_changes"]]
    return plan | {"resource_changes": changes, "output_changes": evaluated["output_changes"]}


def leave_out(plan: Json) -> Json:
    """Return a plan without its unknown values and its outputs."""
    changes = [_known_change(change, None, re.compile("(?!)")) for change in plan["resource_changes"]]
    return plan | {"resource_changes": changes, "output_changes": {}}


def _known_change(change: Json, evaluated: Any, known: re.Pattern[str]) -> Json:
    shown = change["change"]
    return change | {"change": shown | {"after": _fill(shown["after"], shown["after_unknown"], evaluated, known)}}


def _fill(planned: Any, unknown: Any, evaluated: Any, known: re.Pattern[str]) -> Any:
    """Return what is planned, with the unknown parts in which a name occurs; others are left out."""
    if unknown is True:
        return _named(evaluated, known)
    if isinstance(planned, dict) and unknown:
        values = {key: value for key, value in planned.items() if key not in unknown}
        for key in unknown:
            value = _fill(planned.get(key), unknown[key], (evaluated or {}).get(key), known)
            values |= {key: value} if value is not None else {}
        return values
    if isinstance(planned, list) and unknown:
        parts = evaluated if isinstance(evaluated, list) and len(evaluated) == len(planned) else [None] * len(planned)
        filled = (_fill(*triple, known) for triple in zip(planned, unknown, parts, strict=True))
        return [part for part in filled if part is not None]
    return planned


def _named(value: Any, known: re.Pattern[str]) -> Any:
    """Return a value without the texts in which no name occurs; None where nothing is left."""
    if isinstance(value, list):
        return [part for part in (_named(part, known) for part in value) if part is not None] or None
    if isinstance(value, dict):
        parts = {key: _named(part, known) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part is not None} or None
    return value if isinstance(value, str) and known.search(value) else None


def _created(plan: Json) -> list[Json]:
    """Return the resources that are created, and the data that cannot be read before."""
    return [change for change in plan["resource_changes"] if {*change["change"]["actions"]} & {"create", "read"}]


def _open(plan: Json, change: Json) -> Iterator[Path_]:
    """Yield the unknown attributes by which others may refer to a resource, or do so in the configuration."""
    module = re.sub(r"\[.*?\]", "", change.get("module_address", ""))
    name = f"{'data.' * (change['mode'] == 'data')}{change['type']}.{change['name']}"
    referenced = _references(plan["configuration"]["root_module"]).get((module, name), set())
    for path in sorted({(name,) for name in _FORMED} | referenced):
        if _is_unknown(change["change"]["after_unknown"], path):
            yield path


def _references(module: Json, address: str = "") -> dict[tuple[str, str], set[Path_]]:
    """Return the attributes of resources that a module and those in it name, by module and resource."""
    references: dict[tuple[str, str], set[Path_]] = {}
    calls = module.get("module_calls", {})
    for text in _texts([value for key, value in module.items() if key != "module_calls"] + _arguments(calls)):
        match = None if text.startswith(_NO_RESOURCES) else _REFERENCE.fullmatch(text)
        if match:
            references.setdefault((address, match[1]), set()).add(tuple(_STEP.findall(match[2])))
    for name, call in calls.items():
        references |= _references(call["module"], f"{address}.module.{name}".lstrip("."))
    return references


def _arguments(calls: Json) -> list[Any]:
    return [{**call, "module": None} for call in calls.values()]


def _texts(value: Any) -> Iterator[str]:
    """Yield the references in a part of a plan's configuration."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if key == "references":
            yield from part
        else:
            yield from _texts(part)


def _is_unknown(unknown: Any, path: Path_) -> bool:
    for step in path:
        if unknown is True:
            return True
        unknown = _get(unknown, (step,))
    return unknown is True


def _get(value: Any, path: Path_) -> Any:
    """Return the part of a value at a path; None where there is none."""
    for step in path:
        if step.startswith("["):
            value = value[int(step[1:-1])] if isinstance(value, list) and len(value) > int(step[1:-1]) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _test(plan: Json, open_paths: dict[str, list[Path_]]) -> str:
    """Return a test with one run, which plans with names for the open attributes."""
    blocks, facts = [], _facts(plan)
    for change in _created(plan):
        values: Json = {}
        for path in (path for path in open_paths[change["address"]] if _is_overridden(change, path)):
            values |= _nest(path, _name(change, path, facts))
        kind = "override_data" if change["mode"] == "data" else "override_resource"
        body = f"target = {change['address']}\noverride_during = plan\nvalues = {json.dumps(values)}"
        blocks += [f"{kind} {{\n{body}\n}}\n"] if values else []
    return "".join(blocks) + 'run "evaluated" {\ncommand = plan\n}\n'


def _facts(plan: Json) -> Json:
    """Return the account and the project that a plan is for, as far as it knows them."""
    known = plan.get("prior_state", {}).get("values", {}).get("root_module", {}).get("resources", [])
    accounts = [data["values"]["account_id"] for data in known if data["type"] == "aws_caller_identity"]
    return {"account": next(iter(accounts), ""), "project": plan["variables"].get("project_id", {}).get("value", "")}


def _is_overridden(change: Json, path: Path_) -> bool:
    """Say whether a path needs a name of ours: Terraform makes up any text but one in a list, which it leaves empty."""
    is_open_as_a_whole = change["change"]["after_unknown"].get(path[0]) is True
    return is_open_as_a_whole and (path[0] in _FORMED or path[-1] != path[0])


def _nest(path: Path_, name: str) -> Json:
    value: Any = name
    for step in reversed(path):
        value = [value] if step.startswith("[") else {step: value}
    return dict(value)


def _name(change: Json, path: Path_, facts: Json) -> str:
    """Return a text for an attribute, of the form that providers want it in."""
    address, values = change["address"].replace('"', ""), change["change"]["after"]
    account = f"{values.get('account_id')}@{facts['project']}"
    if change["type"] == "google_project_service_identity":
        account = f"service-{_NUMBER}@gcp-sa-{values['service'].partition('.')[0]}"
    if change["type"] == "google_storage_project_service_account":
        account = f"service-{_NUMBER}@gs-project-accounts"
    forms = {
        "arn": f"arn:aws:{change['type']}::{facts['account']}:{address}",
        "email": f"{account}.iam.gserviceaccount.com",
        "email_address": f"{account}.iam.gserviceaccount.com",
        "member": f"serviceAccount:{account}.iam.gserviceaccount.com",
        **({"name": f"projects/{facts['project']}/roles/{values['role_id']}"} if "role_id" in values else {}),
        "number": _NUMBER,
        "repository_url": f"registry.example/{address}",
    }
    return forms.get(path[-1], f"{address}.{'.'.join(path)}")
