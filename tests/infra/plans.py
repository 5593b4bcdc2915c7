"""What a plan or a state of Terraform holds, as `terraform show -json` writes it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from infra.terraform import INFRA

Json = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """A managed resource, and what is known of it: in a plan that is what does not depend on a cloud's answer."""

    address: str
    type: str
    values: Json


def _walk(module: Json) -> Iterator[Resource]:
    for found in module.get("resources", []):
        if found["mode"] == "managed":
            yield Resource(found["address"], found["type"], found.get("values", {}))
    for child in module.get("child_modules", []):
        yield from _walk(child)


def resources(shown: Json, *types: str) -> list[Resource]:
    """The resources of a plan or state, all of them or those of some types."""
    values = shown.get("planned_values") or shown["values"]
    return [found for found in _walk(values["root_module"]) if not types or found.type in types]


def expressions(plan: Json, *types: str) -> dict[str, Json]:
    """The arguments of resources as they were written, by address: their references are there."""

    def walk(module: Json) -> Iterator[tuple[str, Json]]:
        for found in module.get("resources", []):
            if found["mode"] == "managed" and (not types or found["type"] in types):
                yield found["address"], found["expressions"]
        for name, call in module.get("module_calls", {}).items():
            yield from ((f"module.{name}.{address}", written) for address, written in walk(call["module"]))

    return dict(walk(plan["configuration"]["root_module"]))


def volume(cloud: str, plan: Json) -> Json:
    """What the environment of a plan says of its own of the volume in Kubernetes, by the field's path."""
    folder = INFRA / "kubernetes" / f"{cloud}-{plan['variables']['environment']['value']}"
    patches = yaml.safe_load((folder / "kustomization.yaml").read_text())["patches"]
    (patch,) = (each["patch"] for each in patches if each["target"]["kind"] == "PersistentVolume")
    return {change["path"]: change["value"] for change in yaml.safe_load(patch)}


def groups_of_people() -> set[str]:
    """The groups to which Kubernetes gives rights in our namespaces."""
    objects = yaml.safe_load_all((INFRA / "cluster/namespaces/common/people.yaml").read_text())
    return {subject["name"] for found in objects for subject in found.get("subjects", ())}
