"""An environment, read from Terraform, kustomize and the charts' values."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from infra import terraform
from infra.policies.model import Environment, Json, Resource
from nightshift.errors import UserError


def read(cloud: str, name: str, infra: Path = terraform.INFRA) -> Environment:
    """Read an environment; without the offline providers what a cloud answers is unknown, and rules about it pass.

    Raises:
        UserError: when there is no such environment, or kustomize refuses its manifests.
    """
    if not (infra / cloud / f"{name}.tfvars").exists():
        raise UserError(f"infra/{cloud}/{name}.tfvars is not there; name one that is, or copy dev.tfvars")
    if not terraform.OFFLINE.exists():
        return describe(cloud, name, terraform.plan(cloud, name, infra), {}, infra)
    plan, state = terraform.applied(cloud, name, infra)
    return describe(cloud, name, plan, state, infra)


def describe(
    cloud: str, name: str, plan: Json, state: Json, infra: Path = terraform.INFRA, module: str = ""
) -> Environment:
    """Put an environment together from a plan, and from what an apply made of it, if there is that.

    Args:
        cloud: aws or gcp.
        name: of the environment.
        plan: as `terraform show -json` writes it.
        state: the same of the state afterwards; empty where nothing was applied.
        infra: the folder with the manifests.
        module: address with a dot of the module that the environment is; empty for the root.
    """
    created = {resource["address"]: resource["values"] for resource in _walk(state.get("values", {}))}
    managed = tuple(
        Resource(
            change["address"].removeprefix(module),
            change["type"],
            _known(change["change"]["after"], change["change"]["after_unknown"], created.get(change["address"])) or {},
        )
        for change in plan["resource_changes"]
        if change["mode"] == "managed" and change["address"].startswith(module)
    )
    looked_up = [each for each in _walk(plan["prior_state"]["values"]) if each["address"].startswith(module)]
    return Environment(
        cloud,
        name,
        managed,
        *manifests(cloud, name, infra),
        infra,
        _region(managed),
        _account(looked_up),
        _variable(plan, module, "people") or {},
    )


def manifests(cloud: str, name: str, infra: Path) -> tuple[tuple[Json, ...], dict[str, Json]]:
    """Return the objects of an environment and the values of its charts.

    Raises:
        UserError: when kustomize refuses a folder.
    """
    rendered = [value for folder in _folders(cloud, name, infra) for value in render(folder)]
    return (*rendered, *_patches(infra / "cluster" / "pipelines")), _values(infra)


def _patches(folder: Path) -> Iterator[Json]:
    """Yield what is changed of Kubeflow's manifests, which lie elsewhere and are not rendered here."""
    for patch in yaml.safe_load((folder / "kustomization.yaml").read_text())["patches"]:
        value = yaml.safe_load(patch["patch"])
        if "$patch" not in value:
            yield value | {"metadata": {"namespace": "kubeflow"} | value["metadata"]}


def render(folder: Path) -> list[Json]:
    """Return the objects of a kustomization.

    Raises:
        UserError: when kustomize refuses it.
    """
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"kustomize refuses {folder}: {done.stderr.strip()}; fix the file that it names")
    return [value for value in yaml.load_all(done.stdout, yaml.CSafeLoader) if value]


def _folders(cloud: str, name: str, infra: Path) -> Iterator[Path]:
    own = [f"kubernetes/{cloud}-{name}", "kubernetes/language", "kubernetes/multi-user", "monitoring"]
    own += ["cluster/storage", f"cluster/karpenter-{name}"] if cloud == "aws" else []
    for folder in ("cluster/namespaces", *own):
        if (infra / folder / "kustomization.yaml").exists():
            yield infra / folder


def _is_made_up(key: str, value: Any) -> bool:
    """Say whether a list is what the offline providers put where nothing was set."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, str) and first.startswith(f"mock-{key.replace('_', '-')}-")


def _values(infra: Path) -> dict[str, Json]:
    paths = sorted((infra / "cluster" / "values").glob("*.yaml"))
    return {path.stem: yaml.safe_load(path.read_text()) or {} for path in paths}


def _variable(plan: Json, module: str, name: str) -> Any:
    """Return a variable's value: of the root, or the constant that a call of a module gives."""
    if not module:
        return plan["variables"].get(name, {}).get("value")
    call = plan["configuration"]["root_module"]["module_calls"][module.split(".")[1]]
    return call["expressions"].get(name, {}).get("constant_value")


def _walk(values: Json) -> Iterator[Json]:
    module = values.get("root_module", values)
    yield from module.get("resources", [])
    for child in module.get("child_modules", []):
        yield from _walk(child)


def _known(planned: Any, unknown: Any, created: Any) -> Any:
    """Return what is planned, and of what is not known yet the texts that an apply made of it: they are references."""
    if unknown is True:
        return created if isinstance(created, str | list | dict) else None
    if isinstance(planned, dict) and unknown:
        keys = {*planned, *unknown}
        known = {key: _known(planned.get(key), unknown.get(key), (created or {}).get(key)) for key in keys}
        return {key: value for key, value in known.items() if not _is_made_up(key, value)}
    if isinstance(planned, list) and unknown and len(planned) == len(unknown) == len(created or ()):
        return [_known(*triple) for triple in zip(planned, unknown, created, strict=True)]
    return created if isinstance(planned, list) and unknown else planned


def _region(resources: tuple[Resource, ...]) -> str:
    """Return the region: of the cluster on Google Cloud, of the zone of a subnet on AWS."""
    for resource in resources:
        if resource.type == "google_container_cluster":
            return str(resource.values["location"])
        if resource.type == "aws_subnet":
            return str(resource.values["availability_zone"])[:-1]
    return ""


def _account(looked_up: list[Json]) -> str:
    accounts = (each["values"]["account_id"] for each in looked_up if each["type"] == "aws_caller_identity")
    return str(next(accounts, ""))
