"""An environment, read from Terraform, kustomize and the charts' values."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from infra import terraform
from infra.cloud import answers as questions
from infra.cloud import rendering
from infra.cloud.answers import AwsAccount, EnvironmentAnswers
from infra.policies import unknowns
from infra.policies.model import Environment, Json, Resource
from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UnavailableError, UserError

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
_MOUNTING = ("kubernetes/ui",)  # where there is a shared file system


def read(cloud: str, name: str, infra: Path = terraform.INFRA) -> Environment:
    """Plan and render an environment.

    Raises:
        UserError: when its file of answers is missing, or kustomize refuses its manifests.
        UnavailableError: when Terraform cannot plan it.
    """
    answers = questions.read(cloud, name, questions.choose_folder(infra))
    variables = rendering.variables(answers)
    plan = terraform.plan(cloud, answers.size, infra, variables)
    try:
        resolved = unknowns.resolve(plan, cloud, answers.size, infra, variables)
    except UnavailableError as error:
        sys.stderr.write(f"policies: what only an apply decides is not judged: {error}\n")
        resolved = unknowns.leave_out(plan)
    return describe(answers, resolved, infra)


def describe(answers: EnvironmentAnswers, plan: Json, infra: Path = terraform.INFRA) -> Environment:
    """Build an environment from a plan.

    Args:
        answers: the answers file of the environment.
        plan: as `terraform show -json` writes it, resolved by `unknowns.resolve`.
        infra: the folder with the manifests.
    """
    managed = tuple(
        Resource(change["address"], change["type"], change["change"]["after"])
        for change in plan["resource_changes"]
        if change["mode"] == "managed" and change["change"]["after"]
    )
    outputs = {name: {"value": change["after"]} for name, change in plan["output_changes"].items()}
    return Environment(
        answers.cloud,
        answers.environment,
        managed,
        *manifests(answers, outputs, infra),
        infra,
        answers.region,
        _account([*_walk(plan.get("prior_state", {}).get("values", {}))]),
        _people(answers),
        outputs,
        answers.gpu.provisioning,
        tuple(answers.policies.allow),
        answers.protected_data,
    )


def _people(answers: EnvironmentAnswers) -> dict[str, list[str]]:
    account = answers.account
    return {"operators": account.operators, "readers": account.readers} if isinstance(account, AwsAccount) else {}


def manifests(answers: EnvironmentAnswers, outputs: Json, infra: Path) -> tuple[tuple[Json, ...], dict[str, Json]]:
    """Return the objects of an environment, with its own overlays where outputs are known, and the charts' values.

    Raises:
        UserError: when kustomize refuses a folder.
    """
    with tempfile.TemporaryDirectory(dir=infra.parent) as scratch:
        folders = [infra / name for name in (*_SHARED[answers.cloud], *_list_mounting(outputs))]
        if outputs:
            (Path(scratch) / rendering.OUTPUTS).write_text(json.dumps(outputs))
            folders += _overlays(answers, Path(scratch), infra)
        else:
            folders += [infra / "cluster" / "namespaces", infra / "kubernetes" / answers.cloud, infra / "monitoring"]
        objects = [value for folder in folders for value in render(folder)]
    return (*objects, *_patches(infra / "cluster" / "pipelines")), _values(infra)


def _list_mounting(outputs: Json) -> tuple[str, ...]:
    """Return the folders whose pods mount the shared file system, where there is one, or no output says."""
    has_volume = any((outputs.get(name) or {}).get("value") for name in ("lustre", "volume"))
    return _MOUNTING if has_volume or not outputs else ()


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


def _values(infra: Path) -> dict[str, Json]:
    paths = sorted((infra / "cluster" / "values").glob("*.yaml"))
    return {path.stem: strict_yaml.load_document(path.read_text()) or {} for path in paths}


def _walk(values: Json) -> Iterator[Json]:
    module = values.get("root_module", values)
    yield from module.get("resources", [])
    for child in module.get("child_modules", []):
        yield from _walk(child)


def _account(looked_up: list[Json]) -> str:
    accounts = (resource["values"]["account_id"] for resource in looked_up if resource["type"] == "aws_caller_identity")
    return str(next(accounts, ""))
