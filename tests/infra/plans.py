"""What a plan or a state of Terraform holds, as `terraform show -json` writes it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """A managed resource, and what is known of it: in a plan that is what does not depend on a cloud's answer."""

    address: str
    type: str
    values: Json


def _walk(module: Json) -> Iterator[Resource]:
    for resource in module.get("resources", []):
        if resource["mode"] == "managed":
            yield Resource(resource["address"], resource["type"], resource.get("values", {}))
    for child in module.get("child_modules", []):
        yield from _walk(child)


def resources(shown: Json, *types: str) -> list[Resource]:
    """The resources of a plan or state, all of them or those of some types."""
    values = shown.get("planned_values") or shown["values"]
    return [resource for resource in _walk(values["root_module"]) if not types or resource.type in types]
