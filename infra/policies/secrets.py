"""References to secrets, and the keys that `infra/cluster/secrets.sh` creates."""

import re
from collections.abc import Iterator
from typing import Any

from infra.policies.model import Environment, Json, Problem, blocks, label, leaves, one_of, policy, table
from nightshift.runtime import strict_yaml
from pipelines.environments import SITES

_SECRET_COMMAND = re.compile(r'^ *secret (\$?\w+) ([\w-]+) <<< "(.*?)(?<!\\)"$', re.MULTILINE | re.DOTALL)
_LOOP = re.compile(r"for namespace in ([\w ]+); do")


def read_keys(script: str) -> dict[tuple[str, str], set[str]]:
    """Return the keys of each secret that the script creates, by namespace and name."""
    keys: dict[tuple[str, str], set[str]] = {}
    for match in _SECRET_COMMAND.finditer(script):
        loops = _LOOP.findall(script[: match.start()])
        namespaces = loops[-1].split() if match[1].startswith("$") else [match[1]]
        names = set(re.findall(r"^([\w.-]+)=", match[3], re.MULTILINE))
        keys |= {(namespace, match[2]): names for namespace in namespaces}
    return keys


@policy("infra/cluster/secrets.sh")
def secret_references_name_existing_keys(environment: Environment) -> Iterator[Problem]:
    """A missing key leaves a pod in CreateContainerConfigError."""
    keys = read_keys((environment.infra / "cluster" / "secrets.sh").read_text())
    for where, field, namespace, name, key in _references(environment):
        if (namespace, name) not in keys:
            yield Problem(where, field, name, f"secrets.sh creates no secret {namespace}/{name}")
        elif key not in keys[namespace, name]:
            allowed = f"secret {namespace}/{name} has no such key: {one_of(keys[namespace, name])}"
            yield Problem(where, f"{field} {name}", key, allowed)


def _references(environment: Environment) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the reader, the field, and the namespace, name and key of every referenced secret."""
    for value in environment.objects:
        namespace = value["metadata"].get("namespace", "")
        references = [entry for entry in blocks(value, "secretKeyRef", "secretRef") if not entry[1].get("optional")]
        for field, reference in references:
            for key in [reference["key"]] if "key" in reference else _of_image(value, reference["name"]):
                yield label(value), field, namespace, reference["name"], key
    yield from _of_charts(environment)
    for placement in SITES[environment.cloud].placements.values():
        for secret in (secret for secret in placement.secrets if not secret.is_optional):
            yield from (("pipelines/environments.py", "secrets", "kubeflow", secret.name, key) for key in secret.keys)
    for name, required in table("kubernetes")["of_kubeflow"].items():
        yield from (("infra/cluster/pipelines", "secret", "kubeflow", name, key) for key in required)


@policy("https://kubernetes.io/docs/concepts/configuration/secret/#using-secrets-as-files-from-a-pod")
def files_of_secrets_are_named_after_their_keys(environment: Environment) -> Iterator[Problem]:
    """A mounted secret has a file for each key: a program that opens any other fails."""
    keys = read_keys((environment.infra / "cluster" / "secrets.sh").read_text())
    for where, namespace, content in _contents(environment):
        entries = [block for _, block in blocks(content) if "name" in block]
        secrets = {volume["name"]: volume["secret"].get("secretName", "") for volume in entries if "secret" in volume}
        texts = [text for _, text in leaves(content) if isinstance(text, str)]
        for mount in (block for block in entries if "mountPath" in block):
            names = keys.get((namespace, secrets.get(mount["name"], "")), set())
            for file in re.findall(rf"{re.escape(mount['mountPath'])}/([\w.-]+)", " ".join(texts)):
                if names and file not in names:
                    path = f"{mount['mountPath']}/{file}"
                    yield Problem(where, "args", path, f"the secret has no such key: {one_of(names)}")


def _contents(environment: Environment) -> Iterator[tuple[str, str, Json]]:
    """Yield objects and charts' values with their name in findings and their namespace."""
    yield from ((label(value), value["metadata"].get("namespace", ""), value) for value in environment.objects)
    namespaces = namespaces_of_charts(environment)
    for name, values in environment.values.items():
        yield f"infra/cluster/values/{name}.yaml", namespaces.get(name, ""), values


def namespaces_of_charts(environment: Environment) -> dict[str, str]:
    """Return the namespace of each chart by its name."""
    charts = strict_yaml.load_document((environment.infra / "cluster" / "charts.yaml").read_text())
    return {chart["name"]: chart["namespace"] for chart in charts}


def _of_charts(environment: Environment) -> Iterator[tuple[str, str, str, str, str]]:
    namespaces = namespaces_of_charts(environment)
    for chart, paths in table("kubernetes")["secrets"].items():
        for path, required in paths.items():
            for name in _at(environment.values.get(chart), path.split(".")):
                where = f"infra/cluster/values/{chart}.yaml"
                yield from ((where, path, namespaces[chart], name, key) for key in required)


def _of_image(value: Json, name: str) -> list[str]:
    """Return the variables that an image reads from a secret that its pod refers to as a whole."""
    images = table("kubernetes")["environments"]
    keys: list[str] = []
    for container in value["spec"]["template"]["spec"]["containers"]:
        if name in {source["secretRef"]["name"] for source in container.get("envFrom", []) if "secretRef" in source}:
            program = re.split(r"[:@]", container["image"].rpartition("/")[2])[0]
            keys += images.get(program, [])
    return keys


def _at(content: Any, path: list[str]) -> Iterator[str]:
    """Yield the texts at a path, in every element of lists on the way."""
    if isinstance(content, list):
        for nested in content:
            yield from _at(nested, path)
    elif not path and isinstance(content, str):
        yield content
    elif isinstance(content, dict) and path and path[0] in content:
        yield from _at(content[path[0]], path[1:])
