"""An environment, read from Terraform, kustomize and the charts' values."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra import terraform
from infra.cloud import answers as questions
from infra.cloud import rendering
from infra.cloud.answers import AwsAccount, EnvironmentAnswers
from infra.policies.model import Environment, Json, Resource
from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError

# folders that are checked even where an environment does not use them
_SHARED = {
    "aws": (
        "cluster/storage",
        "cluster/karpenter",
        "cluster/kueue",
        "kubernetes/language",
        "kubernetes/multi-user",
    ),
    "gcp": ("cluster/kueue", "kubernetes/language", "kubernetes/multi-user"),
}


def read(cloud: str, name: str, infra: Path = terraform.INFRA) -> Environment:
    """Read an environment; without the offline providers a cloud's outputs are unknown, and rules on them pass.

    Raises:
        UserError: when its file of answers is missing, or kustomize refuses its manifests.
    """
    answers = questions.read(cloud, name, infra / "answers")
    if not terraform.OFFLINE.exists():
        return describe(answers, terraform.plan(cloud, answers.size, infra, rendering.variables(answers)), {}, infra)
    plan, state = terraform.plan_and_apply(cloud, answers.size, infra, rendering.variables(answers))
    return describe(answers, plan, state, infra)


def describe(
    answers: EnvironmentAnswers, plan: Json, state: Json, infra: Path = terraform.INFRA, module: str = ""
) -> Environment:
    """Build an environment from a plan and, where it was applied, from the state.

    Args:
        answers: the answers file of the environment.
        plan: as `terraform show -json` writes it.
        state: the same of the state afterwards; empty where nothing was applied.
        infra: the folder with the manifests.
        module: name of the environment's module; empty for the root.
    """
    start = f"module.{module}." if module else ""
    created = {resource["address"]: resource["values"] for resource in _walk(state.get("values", {}))}
    managed = tuple(
        Resource(
            change["address"].removeprefix(start),
            change["type"],
            _known(change["change"]["after"], change["change"]["after_unknown"], created.get(change["address"])) or {},
        )
        for change in plan["resource_changes"]
        if change["mode"] == "managed" and change["address"].startswith(start)
    )
    outputs = _outputs(state, module)
    looked_up = _walk(plan.get("prior_state", {}).get("values", {}))
    return Environment(
        answers.cloud,
        answers.environment,
        managed,
        *manifests(answers, outputs, infra),
        infra,
        answers.region,
        _account([resource for resource in looked_up if resource["address"].startswith(start)]),
        _people(answers),
        outputs,
        answers.gpu.provisioning,
    )


def _people(answers: EnvironmentAnswers) -> dict[str, list[str]]:
    account = answers.account
    return {"operators": account.operators, "readers": account.readers} if isinstance(account, AwsAccount) else {}


def _outputs(state: Json, module: str) -> Json:
    """Return the outputs as `terraform output -json` prints them; empty where nothing was applied."""
    outputs: Json = state.get("values", {}).get("outputs", {})
    return {name: {"value": value} for name, value in outputs[module]["value"].items()} if module else outputs


def manifests(answers: EnvironmentAnswers, outputs: Json, infra: Path) -> tuple[tuple[Json, ...], dict[str, Json]]:
    """Return the objects of an environment, with its own overlays where outputs are known, and the charts' values.

    Raises:
        UserError: when kustomize refuses a folder.
    """
    with tempfile.TemporaryDirectory(dir=infra.parent) as scratch:
        folders = [infra / name for name in _SHARED[answers.cloud]]
        if outputs:
            (Path(scratch) / rendering.OUTPUTS).write_text(json.dumps(outputs))
            folders += _overlays(answers, Path(scratch), infra)
        else:
            folders += [infra / "cluster" / "namespaces", infra / "kubernetes" / answers.cloud, infra / "monitoring"]
        objects = [value for folder in folders for value in render(folder)]
    return (*objects, *_patches(infra / "cluster" / "pipelines")), _values(infra)


def _overlays(answers: EnvironmentAnswers, scratch: Path, infra: Path) -> Iterator[Path]:
    """Write the overlays of an environment over the manifests of `infra`; yields their folders."""
    for path in [*rendering.write(answers, scratch)]:
        if path.name == "kustomization.yaml":
            old, new = (os.path.relpath(base, path.parent) for base in (terraform.INFRA, infra))
            path.write_text(path.read_text().replace(f"- {old}/", f"- {new}/"))
            yield path.parent


def render(folder: Path) -> list[Json]:
    """Return the objects of a kustomization.

    Raises:
        UserError: when kustomize refuses it.
    """
    result = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=False)
    if result.returncode:
        raise UserError(f"kustomize refuses {folder}: {result.stderr.strip()}; fix the file that it names")
    return [value for value in strict_yaml.load_documents(result.stdout) if value]


def _patches(folder: Path) -> Iterator[Json]:
    """Yield the patches of Kubeflow's manifests, which are elsewhere and not rendered here."""
    for patch in strict_yaml.load_document((folder / "kustomization.yaml").read_text())["patches"]:
        value = strict_yaml.load_document(patch["patch"])
        if "$patch" not in value:
            yield value | {"metadata": {"namespace": "kubeflow"} | value["metadata"]}


def _is_mock(key: str, value: Any) -> bool:
    """Say whether a list is a mock value of the offline providers for an argument that is not set."""
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, str) and first.startswith(f"mock-{key.replace('_', '-')}-")


def _values(infra: Path) -> dict[str, Json]:
    paths = sorted((infra / "cluster" / "values").glob("*.yaml"))
    return {path.stem: strict_yaml.load_document(path.read_text()) or {} for path in paths}


def _walk(values: Json) -> Iterator[Json]:
    module = values.get("root_module", values)
    yield from module.get("resources", [])
    for child in module.get("child_modules", []):
        yield from _walk(child)


def _known(planned: Any, unknown: Any, created: Any) -> Any:
    """Return the planned value, with unknown parts filled in from the state.

    Without an apply, unknown parts are left out.
    """
    if unknown is True:
        return created if isinstance(created, str | list | dict) else None
    if isinstance(planned, dict) and unknown:
        keys = {*planned, *unknown}
        known = {key: _known(planned.get(key), unknown.get(key), (created or {}).get(key)) for key in keys}
        undecided = {key for key, value in known.items() if value is None and unknown.get(key)}
        return {key: value for key, value in known.items() if key not in undecided and not _is_mock(key, value)}
    if isinstance(planned, list) and unknown and created is None:
        created = [None] * len(planned)
    if isinstance(planned, list) and unknown and len(planned) == len(unknown) == len(created):
        known_parts = (_known(*triple) for triple in zip(planned, unknown, created, strict=True))
        return [part for part in known_parts if part is not None]
    return created if isinstance(planned, list) and unknown else planned


def _account(looked_up: list[Json]) -> str:
    accounts = (resource["values"]["account_id"] for resource in looked_up if resource["type"] == "aws_caller_identity")
    return str(next(accounts, ""))
