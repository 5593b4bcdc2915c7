"""Which rights a cloud's accounts are given, and who uses each: `rights.yaml` beside it says so, line by line."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from tests.infra.plans import Json, resources


def used(cloud: str) -> dict[str, set[str]]:
    """Return the rights of which somebody has said who uses them, by holder."""
    uses_by_holder = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())[cloud]
    return {holder: {right for use in uses for right in use["rights"]} for holder, uses in uses_by_holder.items()}


def holders(cloud: str, shown: Json) -> dict[str, set[str]]:
    """Return the rights in a state of AWS or a plan of Google Cloud, by who holds them.

    Holders are accounts of Kubernetes as `namespace/name`, services of the cloud, people, and else names of grants.
    """
    rights: dict[str, set[str]] = {}
    for holder, right in _on_aws(shown) if cloud == "aws" else _on_gcp(shown):
        rights.setdefault(holder, set()).add(right)
    return rights


def _on_aws(state: Json) -> Iterator[tuple[str, str]]:
    roles = {
        role.values["name"]: _trusted(role.values["assume_role_policy"]) for role in resources(state, "aws_iam_role")
    }
    for policy in resources(state, "aws_iam_role_policy"):
        yield from ((roles[policy.values["role"]], action) for action in _actions(policy.values["policy"]))
    for policy in resources(state, "aws_iam_policy"):
        yield from (("people", action) for action in _actions(policy.values["policy"]))
    for attached in resources(state, "aws_iam_role_policy_attachment"):
        yield roles[attached.values["role"]], attached.values["policy_arn"].rpartition("/")[2]


def _trusted(policy: str) -> str:
    (trust,) = json.loads(policy)["Statement"]
    tags = trust.get("Condition", {}).get("StringEquals", {})
    named = [tags.get(f"aws:RequestTag/kubernetes-{part}", "") for part in ("namespace", "service-account")]
    return "/".join(filter(None, named)) or str(trust["Principal"]["Service"])


def _actions(policy: str) -> Iterator[str]:
    for statement in json.loads(policy)["Statement"]:
        actions = statement["Action"]
        yield from [actions] if isinstance(actions, str) else actions


def _on_gcp(plan: Json) -> Iterator[tuple[str, str]]:
    """Whom a plan does not know is called as the grant is."""
    for role in resources(plan, "google_project_iam_custom_role"):
        yield from ((role.address.rpartition(".")[2], permission) for permission in role.values["permissions"])
    for grant in (resource for resource in resources(plan) if resource.type.endswith("_iam_member")):
        module = r'^module\.(\w+)(?:\[0\])?\..*?\.(\w+(?:\["(.*)"\])?)$'
        name = re.sub(module, lambda at: f"{at[1]} {at[3] or at[2]}", grant.address)
        account = re.search(r"/subject/ns/(.+)/sa/(.+)", grant.values.get("member", ""))
        yield (
            "/".join(account.groups()) if account else name,
            grant.values.get("role", "a role of ours").removeprefix("roles/"),
        )
