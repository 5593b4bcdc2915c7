"""Identities: service accounts, roles and user groups, and what each may read and write."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator

from infra.policies.model import Environment, Problem, Resource, Severity, label, one_of, policy, table
from infra.policies.names import as_list, documents

_RIGHTS = {"s3:GetObject": "reads", "s3:PutObject": "writes"}
_ROLES = {"roles/storage.objectViewer": ("reads",), "roles/storage.objectUser": ("reads", "writes")}
_PRINCIPAL = re.compile(
    r"principal://iam\.googleapis\.com/projects/[^/]+/locations/global/workloadIdentityPools/(?P<pool>[^/]+)"
    r"/subject/ns/(?P<namespace>[a-z0-9-]+)/sa/(?P<account>[a-z0-9-]+)"
)
_ACCOUNT = re.compile(r"serviceAccount:[^@]+@(?P<project>[a-z][a-z0-9-]+)\.iam\.gserviceaccount\.com")
# Google's projects, which own service agents
_AGENTS = ("compute-system", "container-engine-robot", "gcp-sa-", "gs-project-accounts")
# Kubernetes' built-in role of each user group, by the end of the group's name
_PEOPLE = {"operators": "edit", "readers": "view"}


@policy("https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html")
def pod_identity_associations_match_the_trusted_account(environment: Environment) -> Iterator[Problem]:
    """Pods of an account that the role does not trust get no AWS credentials."""
    for where, account, arn in _associations(environment):
        role = environment.owners.get(arn)
        trusted = _trusted(role) if role else account
        if role and trusted != account:
            allowed = f"{role.address} trusts {trusted}: give this account its own role"
            yield Problem(where, "service_account", account, allowed)


def _associations(environment: Environment) -> Iterator[tuple[str, str, str]]:
    for resource in environment.of_type("aws_eks_pod_identity_association"):
        values = resource.values
        account = f"{values['namespace']}/{values['service_account']}"
        yield resource.address, account, str(values.get("role_arn"))
    for addon in environment.of_type("aws_eks_addon"):
        for association in addon.values.get("pod_identity_association") or ():
            yield addon.address, f"kube-system/{association['service_account']}", str(association.get("role_arn"))


def _trusted(role: Resource) -> str:
    """Return the Kubernetes service account, or the AWS service, that a role trusts."""
    (statement,) = json.loads(role.values["assume_role_policy"])["Statement"]
    tags = statement.get("Condition", {}).get("StringEquals", {})
    account = [tags.get(f"aws:RequestTag/kubernetes-{part}", "") for part in ("namespace", "service-account")]
    return "/".join(filter(None, account)) or str(statement.get("Principal", {}).get("Service"))


# resources that assume a role, the argument that names it, and the service that it must trust
_ROLE_USERS = (
    ("aws_eks_cluster", "role_arn", "eks.amazonaws.com"),
    ("aws_eks_node_group", "node_role_arn", "ec2.amazonaws.com"),
    ("aws_flow_log", "iam_role_arn", "vpc-flow-logs.amazonaws.com"),
)


@policy("https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create_for-service.html")
def roles_trust_the_service_that_assumes_them(environment: Environment) -> Iterator[Problem]:
    """A service cannot assume a role that trusts another service."""
    for kind, field, service in _ROLE_USERS:
        for resource in environment.of_type(kind):
            role = environment.owners.get(str(resource.values.get(field)))
            if role and (role.type != "aws_iam_role" or _trusted(role) != service):
                yield Problem(resource.address, field, role.address, f"must be a role that trusts {service}")


@policy("https://docs.aws.amazon.com/eks/latest/userguide/add-ons-iam.html")
def addons_are_associated_under_their_own_account(environment: Environment) -> Iterator[Problem]:
    """An add-on fixes the account of its pods: an association with another account grants them nothing."""
    accounts = table("names")["addons"]
    for addon in environment.of_type("aws_eks_addon"):
        for association in addon.values.get("pod_identity_association") or ():
            account, expected = association["service_account"], accounts.get(addon.values["addon_name"])
            if account != expected:
                allowed = f"must be {expected}, the account of {addon.values['addon_name']}"
                yield Problem(addon.address, "pod_identity_association.service_account", account, allowed)


@policy("infra/policies/tables/names.yaml, stores", Severity.EXPOSES)
def accounts_have_access_to_exactly_their_stores(environment: Environment) -> Iterator[Problem]:
    """An account with too few rights fails, and one with too many exposes the data of others."""
    uses = _uses(environment)
    rights = _rights_on_aws(environment) if environment.cloud == "aws" else _rights_on_gcp(environment)
    by_account: dict[str, dict[str, set[str]]] = {}
    for account, use, store in rights:
        by_account.setdefault(account, {"reads": set(), "writes": set()})[use].add(store)
    for account, granted in by_account.items():
        expected = uses.get(account)
        if expected is None:
            yield Problem(f"the role of {account}", "account", account, f"no store is for it: {one_of(uses)}")
            continue
        for use, stores in granted.items():
            if stores != {*expected[use]}:
                allowed = f"must be {', '.join(expected[use]) or 'nothing'}"
                yield Problem(f"the role of {account}", use, sorted(stores), allowed)
    # before an apply the members of some grants are not known
    is_known = all(grant.values.get("member") for grant in environment.of_type("google_storage_bucket_iam_member"))
    for account in uses.keys() - by_account.keys() if by_account and is_known else ():
        yield Problem(f"the role of {account}", "account", None, "must have access to its stores, and has none")


_FILES = ("aws_fsx_lustre_file_system", "google_lustre_instance", "google_filestore_instance")


def _uses(environment: Environment) -> dict[str, dict[str, list[str]]]:
    """Return the stores that accounts read and write; without a file system the state of steps is in a bucket."""
    names = table("names")
    state = [] if environment.of_type(*_FILES) else [names["of_steps_without_files"][environment.cloud]]
    return {
        account: {
            use: folders + (state if account.startswith("kubeflow/nightshift") else []) for use, folders in uses.items()
        }
        for account, uses in names["stores"][environment.cloud].items()
    }


def _rights_on_aws(environment: Environment) -> Iterator[tuple[str, str, str]]:
    roles = {role.values.get("name"): _trusted(role) for role in environment.of_type("aws_iam_role")}
    buckets = tuple(f"{bucket.values.get('arn')}/" for bucket in environment.of_type("aws_s3_bucket"))
    for granted, _, statement in documents(environment):
        for action in {*as_list(statement["Action"])} & _RIGHTS.keys():
            for arn in as_list(statement.get("Resource", [])):
                if granted.type == "aws_iam_role_policy" and arn.startswith(buckets):
                    folder = arn.partition("/")[2].removesuffix("/*")
                    yield roles.get(granted.values.get("role"), ""), _RIGHTS[action], folder


def _rights_on_gcp(environment: Environment) -> Iterator[tuple[str, str, str]]:
    buckets = {bucket.values["name"] for bucket in environment.of_type("google_storage_bucket")}
    for grant in environment.of_type("google_storage_bucket_iam_member"):
        member = str(grant.values.get("member"))
        match, owner = _PRINCIPAL.fullmatch(member), environment.owners.get(member)
        account = f"{match['namespace']}/{match['account']}" if match else ""
        if owner and owner.type == "google_service_account":
            account = str(owner.values["account_id"]).rpartition("-")[2]
        if account and grant.values["bucket"] in buckets:
            for use in _ROLES.get(grant.values["role"], ()):
                yield account, use, grant.values["bucket"].rpartition("-")[2]


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/concepts/workload-identity")
def principals_belong_to_this_identity_pool(environment: Environment) -> Iterator[Problem]:
    """A grant to a subject of another pool grants this project's workloads nothing."""
    pool = f"{environment.facts['project']}.svc.id.goog"
    shape = f"principal://iam.googleapis.com/projects/NUMBER/locations/global/workloadIdentityPools/{pool}"
    for grant in environment.resources:
        member = str(grant.values.get("member", ""))
        match = _PRINCIPAL.fullmatch(member)
        if "principal" in member and (match is None or match["pool"] != pool):
            yield Problem(grant.address, "member", member, f"must be {shape}/subject/ns/NAMESPACE/sa/ACCOUNT")


@policy("https://kubernetes.io/docs/reference/access-authn-authz/rbac/#user-facing-roles", Severity.EXPOSES)
def user_groups_have_their_own_roles(environment: Environment) -> Iterator[Problem]:
    """Where a binding mixes up operators and readers, readers can edit or operators cannot."""
    for binding in environment.of_kind("RoleBinding"):
        role = binding["roleRef"]["name"]
        for subject in binding.get("subjects", []):
            kind = re.fullmatch(r"nightshift-(operators|readers)(@.*)?", subject["name"])
            others = [name for group, view in _PEOPLE.items() for name in (view, f"nightshift-{group}")
                      if kind and group != kind[1]]  # fmt: skip
            if subject["kind"] == "Group" and kind and role in others:
                allowed = f"{subject['name']} must have {_PEOPLE[kind[1]]}, nightshift-{kind[1]} or a role of its own"
                yield Problem(label(binding), "roleRef.name", role, allowed)


@policy("infra/policies/tables/kubernetes.yaml, resources")
def rbac_rules_name_existing_resources_and_verbs(environment: Environment) -> Iterator[Problem]:
    """RBAC accepts a group, resource or verb that does not exist; it grants nothing."""
    known = table("kubernetes")
    for role in environment.of_kind("Role", "ClusterRole"):
        for rule in role.get("rules") or ():
            for group, resource in itertools.product(rule.get("apiGroups", []), rule.get("resources", [])):
                if resource not in known["resources"].get(group, []):
                    allowed = f"API group {group!r} has no such resource: {one_of(known['resources'].get(group, []))}"
                    yield Problem(label(role), "rules.resources", resource, allowed)
            for verb in {*rule["verbs"]} - {*known["verbs"]}:
                yield Problem(label(role), "rules.verbs", verb, one_of(known["verbs"]))


@policy("https://kubernetes.io/docs/reference/access-authn-authz/rbac/#rolebinding-and-clusterrolebinding")
def role_bindings_reference_existing_roles(environment: Environment) -> Iterator[Problem]:
    """A binding to a role that does not exist is accepted but grants nothing."""
    roles = {(role["metadata"].get("namespace"), role["metadata"]["name"]) for role in environment.of_kind("Role")}
    for binding in environment.of_kind("RoleBinding"):
        kind, name, namespace = binding["roleRef"]["kind"], binding["roleRef"]["name"], binding["metadata"]["namespace"]
        if kind == "Role" and (namespace, name) not in roles:
            existing = one_of(role for role_namespace, role in roles if role_namespace == namespace)
            yield Problem(label(binding), "roleRef.name", name, f"namespace {namespace} has no such Role: {existing}")


@policy("https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html")
def access_entry_groups_have_role_bindings(environment: Environment) -> Iterator[Problem]:
    """A user whose group has no binding, or who is in no group, is let into the cluster and can do nothing."""
    bound = {
        subject["name"]
        for binding in environment.of_kind("RoleBinding")
        for subject in binding.get("subjects", [])
        if subject["kind"] == "Group" and "@" not in subject["name"]
    }
    groups: set[str] = set()
    for entry in environment.of_type("aws_eks_access_entry"):
        for group in entry.values.get("kubernetes_groups") or ():
            groups.add(group)
            if group not in bound:
                allowed = f"no RoleBinding has this group: {one_of(bound)}"
                yield Problem(entry.address, "kubernetes_groups", group, allowed)
    variables = {f"nightshift-{name}" for name, arns in environment.people.items() if arns}
    for group in variables - groups if environment.people else ():
        allowed = f"must include {group}, the group of people.{group.removeprefix('nightshift-')}"
        yield Problem("aws_eks_access_entry", "kubernetes_groups", sorted(groups), allowed)


@policy("https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html", Severity.EXPOSES)
def access_entries_have_the_group_of_their_variable(environment: Environment) -> Iterator[Problem]:
    """A role in another group than that of the variable `people` has the wrong permissions."""
    groups = {arn: f"nightshift-{name}" for name, arns in environment.people.items() for arn in arns or ()}
    for entry in environment.of_type("aws_eks_access_entry"):
        expected, listed = groups.get(entry.values["principal_arn"]), entry.values.get("kubernetes_groups") or []
        if expected and listed != [expected]:
            yield Problem(entry.address, "kubernetes_groups", listed, f"must be {expected}, as in the variable people")


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/how-to/google-groups-rbac")
def user_groups_belong_to_the_domain_of_the_cluster(environment: Environment) -> Iterator[Problem]:
    """GKE looks up groups of one domain: members of another domain's group have no access."""
    for cluster in environment.of_type("google_container_cluster"):
        domain = str(cluster.block("authenticator_groups_config").get("security_group", "")).partition("@")[2]
        for grant in environment.of_type("google_project_iam_member"):
            member = str(grant.values.get("member", ""))
            if domain and member.startswith("group:") and not member.endswith(f"@{domain}"):
                yield Problem(grant.address, "member", member, f"the cluster only looks up groups of {domain}")
        for binding in environment.of_kind("RoleBinding"):
            for name in (subject["name"] for subject in binding.get("subjects", []) if "@" in subject["name"]):
                if domain and not name.endswith(f"@{domain}"):
                    yield Problem(label(binding), "subjects", name, f"the cluster only looks up groups of {domain}")


@policy("https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html")
def access_entries_belong_to_one_account(environment: Environment) -> Iterator[Problem]:
    """EKS refuses an access entry for a principal of another account than the cluster's."""
    entries = environment.of_type("aws_eks_access_entry")
    accounts = Counter(str(entry.values["principal_arn"]).split(":")[4] for entry in entries)
    for entry in entries:
        arn = entry.values["principal_arn"]
        if arn.split(":")[4] != accounts.most_common(1)[0][0]:
            allowed = f"must belong to the account of the other entries, {accounts.most_common(1)[0][0]}"
            yield Problem(entry.address, "principal_arn", arn, allowed)


@policy("https://docs.cloud.google.com/iam/docs/service-account-overview", Severity.EXPOSES)
def service_accounts_belong_to_this_project(environment: Environment) -> Iterator[Problem]:
    """A grant to another project's account exposes this one; only readers of images are from other projects."""
    project = environment.facts["project"]
    for grant in environment.resources:
        match = _ACCOUNT.fullmatch(str(grant.values.get("member", "")))
        pulls = ".readers[" in grant.address
        if match and match["project"].startswith(_AGENTS):
            continue
        if match and (match["project"] == project) == pulls:
            allowed = (
                "must belong to another project, which pulls images" if pulls else f"must belong to project {project}"
            )
            yield Problem(grant.address, "member", match[0], allowed)


@policy(
    "https://docs.cloud.google.com/kubernetes-engine/docs/how-to/hardening-your-cluster#use_least_privilege_sa",
    Severity.EXPOSES,
)
def nodes_run_under_their_own_account(environment: Environment) -> Iterator[Problem]:
    """Pods on nodes under the project's default account may edit everything in the project."""
    for pool in environment.of_type("google_container_node_pool"):
        email = pool.block("node_config").get("service_account")
        owner = environment.owners.get(str(email))
        if email and not (owner and str(owner.values.get("account_id")).endswith("-nodes")):
            account = owner.address if owner else email
            yield Problem(
                pool.address, "node_config.service_account", account, "must be the account with suffix -nodes"
            )


@policy("https://docs.cloud.google.com/artifact-registry/docs/access-control")
def grants_name_the_account_in_their_address(environment: Environment) -> Iterator[Problem]:
    """A grant called `nodes` or `vertex` to another account leaves that one without its permissions."""
    for grant in environment.resources:
        owner = environment.owners.get(str(grant.values.get("member")))
        name = re.search(r"_iam_member\.(nodes|vertex)", grant.address)
        if owner and name and not str(owner.values.get("account_id")).endswith(f"-{name[1]}"):
            allowed = f"must be the account with suffix -{name[1]}"
            yield Problem(grant.address, "member", owner.address, allowed)


@policy("https://docs.cloud.google.com/iam/docs/granting-changing-revoking-access")
def grants_do_not_replace_each_other(environment: Environment) -> Iterator[Problem]:
    """A binding is all members of a role on a resource: it takes the role from those who have a member's grant."""
    granted = {_target(grant) for grant in environment.resources if grant.type.endswith("_iam_member")}
    for binding in environment.resources:
        if binding.type.endswith("_iam_binding") and _target(binding) in granted:
            yield Problem(binding.address, "role", binding.values["role"], "must be an iam_member: others have it")


def _target(grant: Resource) -> tuple[object, ...]:
    """Return what a grant is on, by all of its arguments but the members and what the cloud computes."""
    names = sorted(grant.values.keys() - {"member", "members", "etag", "id"})
    return (grant.type.rpartition("_iam_")[0], *((name, str(grant.values[name])) for name in names))
