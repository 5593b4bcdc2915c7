"""What Terraform plans, as facts: every argument that is set, with references for what a cloud would answer.

References are found by an apply with providers that know no cloud and make up what the cloud would answer. Copies of a
configuration may stand in one root as modules beside each other: a plan of all is cheaper than a plan of each.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from infra import terraform
from infra.costs import core as costs
from tests.infra import hcl
from tests.infra.golden.facts import Fact

Json = dict[str, Any]
_MADE_UP = re.compile(r"mock-[a-z0-9-]+?-[0-9a-f]{8}")
_UNPLANNED = (
    "condition",
    "create_before_destroy",
    "depends_on",
    "ignore_changes",
    "nullable",
    "prevent_destroy",
    "provider",
    "replace_triggered_by",
    "sensitive",
)
# blocks that do something beside what is planned
_BESIDE = ("action", "check", "import", "moved", "removed")
_WITHIN = ("connection", "provisioner")
PLAN = "terraform plan -input=false -no-color -out=plan >/dev/null && terraform show -json plan"
PLAN_AND_APPLY = f"{PLAN} && terraform apply -input=false -no-color plan >/dev/null && cat terraform.tfstate"
# a second apply would change nothing, and a destroy, of what that plan has just read, leaves nothing
AND_DESTROY = (
    f"{PLAN_AND_APPLY} && terraform plan -input=false -no-color -detailed-exitcode >&2"
    ' && terraform destroy -refresh=false -auto-approve -input=false -no-color >&2 && test -z "$(terraform state list)"'
)


@dataclass(frozen=True)
class Copy:
    """A configuration and the environment it is planned for: `folder` is one like `infra/aws`.

    Beside dev and prod there is `other`, whose values are here: it has what neither of the two has.
    """

    folder: Path
    environment: str

    @property
    def values(self) -> Path:
        """Return the file of the environment's values."""
        own = Path(__file__).parent / f"{self.folder.name}-{self.environment}.tfvars"
        return own if own.exists() else self.folder / f"{self.environment}.tfvars"


@dataclass(frozen=True)
class Observed:
    """What Terraform has planned for copies of a configuration, and what an apply made of it."""

    plan: Json
    state: Json


def known(observed: Observed, name: str) -> dict[str, Any]:
    """Return what the plan alone shows of one of the copies: the values that no answer of a cloud is needed for."""
    changes = {_own(change["address"], name): change for change in observed.plan["resource_changes"]}
    own = {address: change for address, change in changes.items() if change["address"].startswith(f"module.{name}.")}
    return {address: _resolved(own[address]["change"]["after"], None, None, "", {}) for address in own}


def facts(observed: Observed, name: str, copy: Copy) -> list[Fact]:
    """Return what is known of one of the copies that were planned."""
    return [*_planned(observed, name), *written(copy.folder)]


def observe(cloud: str, copies: Mapping[str, Copy], commands: str = PLAN_AND_APPLY) -> Observed:
    """Plan copies of a cloud's configuration beside each other, and apply them unless the commands are `PLAN`.

    Raises:
        UnavailableError: when Terraform refuses one of them; it is named as `copies/<name>/` or `module.<name>`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, cloud)
        for name, copy in copies.items():
            _lay_out(copy, name, root)
        printed = terraform.run(cloud, commands, Path(scratch))
    plan, end = json.JSONDecoder().raw_decode(printed)
    return Observed(plan, json.loads(printed[end:].strip() or "null"))


def _lay_out(copy: Copy, name: str, root: Path) -> None:
    """Put a copy into a root, as a module with the environment's values; the root has its providers."""
    folder = Path(shutil.copytree(copy.folder, root / "copies" / name, ignore=shutil.ignore_patterns("tests")))
    arguments = copy.values.read_text()
    main = root / "main.tf"
    before = main.read_text() if main.exists() else ""
    providers = take_providers(folder)
    if not before:
        before = (folder / "versions.tf").read_text() + "".join(
            f'provider "{provider}" {{}}\n' for provider in providers
        )
    main.write_text(
        f'{before}module "{name}" {{\nsource = "./copies/{name}"\n{arguments}\n}}\n'
        f'output "{name}" {{\nvalue = module.{name}\nsensitive = true\n}}\n'
    )


def take_providers(folder: Path) -> list[str]:
    """Remove the providers' blocks of a copy, which a module may not have; return their names."""
    providers = []
    path = folder / "versions.tf"
    text = path.read_text()
    for part in reversed([part for part in hcl.blocks(text) if part.path[0] == "provider"]):
        providers.append(part.path[1])
        text = text[: part.start] + text[part.end :]
    path.write_text(text)
    return providers


def _planned(observed: Observed, name: str) -> Iterator[Fact]:
    """Return a fact for each resource of one copy, and one for its outputs."""
    resources = {
        _own(address, name): values
        for address, values in _resources(observed.state)
        if address.startswith(f"module.{name}.")
    }
    owners = _owners(resources)
    changes = {_own(change["address"], name): change["change"] for change in observed.plan["resource_changes"]}
    for address in sorted(resources.keys() & changes.keys()):
        shown = changes[address]
        own = f"<{address}.".replace('"', "")
        known = _resolved(shown["after"], shown["after_unknown"], resources[address], own, owners)
        keys = re.findall(r'\["?(.*?)"?\]', address)
        yield Fact(re.sub(r"\[.*?\]", "[*]", address), "/".join(keys), known or {})
    yield Fact("outputs", "", _set(observed.state["outputs"][name]["value"], "nobody's", owners) or {})


def _resources(state: Json) -> Iterator[tuple[str, Json]]:
    """Return what an apply made, what others wait for first."""
    instances = [(resource, instance) for resource in state["resources"] for instance in resource["instances"]]
    for resource, instance in sorted(instances, key=lambda pair: len(pair[1].get("dependencies", []))):
        key = f"[{json.dumps(instance['index_key'])}]" if "index_key" in instance else ""
        mode = "data." if resource["mode"] == "data" else ""
        address = f"{resource.get('module', '')}.{mode}{resource['type']}.{resource['name']}{key}"
        yield address, instance["attributes"]


def _own(address: str, name: str) -> str:
    return address.removeprefix(f"module.{name}.").replace("module.", "")


def _owners(resources: Mapping[str, Json]) -> dict[str, str]:
    """Say by what the texts that the apply made up are referred to."""
    owners: dict[str, str] = {}
    for address, values in resources.items():
        for value, path in _made_up(values, ()):
            owners.setdefault(value, f"<{address}.{path}>".replace('"', ""))
    return owners


def _made_up(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Find what the apply made up for the very argument it stands in."""
    if isinstance(value, dict):
        for key, nested in value.items():
            yield from _made_up(nested, (*path, key))
    elif isinstance(value, list):
        for nested in value:
            yield from _made_up(nested, path)
    elif isinstance(value, str) and path and re.fullmatch(rf"mock-{path[-1].replace('_', '-')}-[0-9a-f]{{8}}", value):
        yield value, ".".join(path)


def _resolved(planned: Any, unknown: Any, created: Any, own: str, owners: Mapping[str, str]) -> Any:
    """Return what is planned, and where that is not known what was made of it; None where nothing was set."""
    if unknown is True:
        return _set(created, own, owners)
    if isinstance(planned, dict):
        unknown = unknown or {}
        known = {
            key: _resolved(planned.get(key), unknown.get(key), (created or {}).get(key), own, owners)
            for key in {*planned, *unknown}
        }
        return {key: value for key, value in known.items() if value not in (None, [], {})}
    if isinstance(planned, list) and unknown and len(planned) == len(unknown) == len(created):
        return [_resolved(*triple, own, owners) for triple in zip(planned, unknown, created, strict=True)]
    return _set(created, own, owners) if isinstance(planned, list) and unknown else planned


def _set(attribute: Any, own: str, owners: Mapping[str, str]) -> Any:
    """Return what was set to something unknown, with references; None for what the apply made up itself."""
    if isinstance(attribute, dict):
        attributes = {key: _set(value, own, owners) for key, value in attribute.items()}
        return {key: value for key, value in attributes.items() if value is not None} or None
    if isinstance(attribute, list):
        attributes = [value for nested in attribute if (value := _set(nested, own, owners)) is not None]
        # a set's order is that of what was made up
        return (sorted(attributes) if all(isinstance(nested, str) for nested in attributes) else attributes) or None
    if not isinstance(attribute, str):
        return None
    text = _MADE_UP.sub(lambda match: owners.get(match[0], match[0]), attribute)
    if re.fullmatch(r"\d{1,3}", text):
        return "<a number>"
    return None if text.startswith(own) and text.endswith(">") else text


def written(folder: Path) -> Iterator[Fact]:
    """Return what no plan shows: what is refused, waited for and left alone, what could be chosen, and versions."""
    statements: dict[tuple[str, str], list[str | list[str]]] = {}
    for path in sorted(folder.rglob("*.tf")):
        if "tests" not in path.relative_to(folder).parts:
            module = path.parent.name if path.parent != folder else "root"
            for address, value in stated(path.read_text()):
                statements.setdefault((address, module), []).append(value)
    for (address, module), texts in statements.items():
        yield Fact(f"terraform {address}", module, {"is": texts if len(texts) > 1 else texts[0]})


def stated(text: str) -> Iterator[tuple[str, str | list[str]]]:
    """Return what no plan shows of a file's text: addresses, and what stands there, a table line by line."""
    end = 0
    tables = _tables(text)
    for part in hcl.parts(text):
        if part.kind == "argument" and part.start >= end:
            statement = text[part.start : part.end].split("=", 1)[1].replace('"', "")
            table = part.path in tables or (part.path[-1] in ("default", "type") and part.path[0] == "variable")
            if _is_unplanned(part.path):
                end = part.end  # what is in it is said with it
                yield part.address, re.sub(r"\s+", " ", statement).strip(" ,")
            elif table and (part.path[-1] != "type" or "optional(" in statement):
                end = part.end
                yield part.address, _lines(statement)


def _is_unplanned(path: tuple[str, ...]) -> bool:
    beside = path[0] in ("provider", "terraform", *_BESIDE)
    return beside or path[-1] in _UNPLANNED or not {*path[:-1]}.isdisjoint(_WITHIN)


def _tables(text: str) -> set[tuple[str, str]]:
    """Return the locals that are looked things up in, of which a plan shows what is chosen, and those named there."""
    looked_up = {*re.findall(r"local\.(\w+)\[", text), *re.findall(r"lookup\(local\.(\w+)", text)}
    written = {part.path: text[part.start : part.end] for part in hcl.parts(text) if part.path[:1] == ("locals",)}
    tables = {("locals", name) for name in looked_up} & written.keys()
    return tables | {("locals", name) for table in tables for name in re.findall(r"\blocal\.(\w+)", written[table])}


def _lines(statement: str) -> str | list[str]:
    lines = [re.sub(r"\s+", " ", line).strip(" ,") for line in statement.splitlines()]
    kept = [line for line in lines if line.strip("[](){}") and not line.startswith("#")]
    return kept if len(kept) > 1 else "".join(lines)


def spent(cloud: str, observed: Observed, name: str, table: Path) -> Iterator[Fact]:
    """Return what one of the copies that were planned costs a month, by how it is used."""
    root = observed.plan["planned_values"]["root_module"]["child_modules"]
    (whole,) = (child for child in root if child["address"] == f"module.{name}")
    arguments = observed.plan["configuration"]["root_module"]["module_calls"][name]["expressions"]
    zones = {"zones": {"value": arguments.get("zones", {}).get("constant_value")}}
    seen = {"planned_values": {"root_module": whole}, "variables": zones}
    prices = {
        price: costs.Price(**value)
        for price, value in costs.with_machines(yaml.safe_load(table.read_text())[cloud]["prices"], cloud).items()
    }
    for use, month in costs.PROFILES.items():
        by_group = costs.costs(costs.charges(seen, month), prices)
        yield Fact("costs in USD a month", use, {group: _usd(monthly) for group, monthly in by_group.items()})


def _usd(cost: costs.MonthlyCost) -> str:
    return f"{cost.usd:.2f}" + (f" and {', '.join(sorted(cost.unknown))}" if cost.unknown else "")
