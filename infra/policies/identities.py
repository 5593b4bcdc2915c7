"""Identities: service accounts, roles and user groups, and what each may read and write."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator

from infra.policies.model import Environment, Problem, Resource, label, policy, table
from infra.policies.names import as_list, documents

_RIGHTS = {"s3:GetObject": "reads", "s3:PutObject": "writes"}
_ROLES = {"roles/storage.objectViewer": ("reads",), "roles/storage.objectUser": ("reads", "writes")}
_PRINCIPAL = re.compile(
    r"principal://iam\.googleapis\.com/projects/[^/]+/locations/global/workloadIdentityPools/(?P<pool>[^/]+)"
    r"/subject/ns/(?P<namespace>[a-z0-9-]+)/sa/(?P<account>[a-z0-9-]+)"
)
_ACCOUNT = re.compile(r"serviceAccount:[^@]+@(?P<project>[a-z][a-z0-9-]+)\.iam\.gserviceaccount\.com")
# projects of Google's, where service agents are
_AGENTS = ("compute-system", "container-engine-robot", "gs-project-accounts")
# which of Kubernetes' own roles the members of a group have, by how the group's name ends
_PEOPLE = {"operators": "edit", "readers": "view"}


@policy("https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html")
def an_association_gives_the_role_that_trusts_it(environment: Environment) -> Iterator[Problem]:
    """An association's service account is the one that its role trusts; requests of others are refused."""
    for where, account, arn in _associations(environment):
        role = environment.owners.get(arn)
        trusted = _trusted(role) if role else account
        if role and trusted != account:
            allowed = f"{role.address} trusts {trusted}; give that account this role, or this account its own"
            yield Problem(where, "service_account", account, allowed)


def _associations(environment: Environment) -> Iterator[tuple[str, str, str]]:
    for resource in environment.of_type("aws_eks_pod_identity_association"):
        values = resource.values
        account = f"{values['namespace']}/{values['service_account']}"
        yield resource.address, account, str(values.get("role_arn"))
    for addon in environment.of_type("aws_eks_addon"):
        for tie in addon.values.get("pod_identity_association") or ():
            yield addon.address, f"kube-system/{tie['service_account']}", str(tie.get("role_arn"))


def _trusted(role: Resource) -> str:
    """Return the account of Kubernetes that a role is for, or the service."""
    (statement,) = json.loads(role.values["assume_role_policy"])["Statement"]
    tags = statement.get("Condition", {}).get("StringEquals", {})
    named = [tags.get(f"aws:RequestTag/kubernetes-{part}", "") for part in ("namespace", "service-account")]
    return "/".join(filter(None, named)) or str(statement.get("Principal", {}).get("Service"))


# what takes a role, the argument that names it, and the service that has to be trusted
_TAKERS = (
    ("aws_eks_cluster", "role_arn", "eks.amazonaws.com"),
    ("aws_eks_node_group", "node_role_arn", "ec2.amazonaws.com"),
    ("aws_flow_log", "iam_role_arn", "vpc-flow-logs.amazonaws.com"),
)


@policy("https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create_for-service.html")
def roles_trust_who_takes_them(environment: Environment) -> Iterator[Problem]:
    """A service cannot assume a role that trusts another service."""
    for kind, field, service in _TAKERS:
        for resource in environment.of_type(kind):
            role = environment.owners.get(str(resource.values.get(field)))
            if role and (role.type != "aws_iam_role" or _trusted(role) != service):
                yield Problem(resource.address, field, role.address, f"it is a role that trusts {service}")


@policy("https://docs.aws.amazon.com/eks/latest/userguide/add-ons-iam.html")
def an_addon_has_the_role_under_its_own_account(environment: Environment) -> Iterator[Problem]:
    """An add-on's pods run under an account that the add-on names, so that an association to another does nothing."""
    accounts = table("names")["addons"]
    for addon in environment.of_type("aws_eks_addon"):
        for tie in addon.values.get("pod_identity_association") or ():
            wanted = accounts.get(addon.values["addon_name"])
            if tie["service_account"] != wanted:
                field, account = "pod_identity_association.service_account", tie["service_account"]
                yield Problem(addon.address, field, account, f"{addon.values['addon_name']} runs under {wanted}")


@policy("infra/policies/tables/names.yaml, stores")
def accounts_reach_the_stores_that_they_use(environment: Environment) -> Iterator[Problem]:
    """Each service account, and each server outside the cluster, reads and writes its locations and no others."""
    uses = _uses(environment)
    rights = _rights_on_aws(environment) if environment.cloud == "aws" else _rights_on_gcp(environment)
    by_account: dict[str, dict[str, set[str]]] = {}
    for account, use, store in rights:
        by_account.setdefault(account, {"reads": set(), "writes": set()})[use].add(store)
    for account, granted in by_account.items():
        wanted = uses.get(account)
        if wanted is None:
            yield Problem(f"the role of {account}", "account", account, f"the stores are of {', '.join(uses)}")
            continue
        for use, stores in granted.items():
            if stores != {*wanted[use]}:
                allowed = f"it {use} {', '.join(wanted[use]) or 'nothing'}"
                yield Problem(f"the role of {account}", use, sorted(stores), allowed)
    # before an apply nobody knows who some grants are to
    is_known = all(grant.values.get("member") for grant in environment.of_type("google_storage_bucket_iam_member"))
    for account in uses.keys() - by_account.keys() if by_account and is_known else ():
        yield Problem(f"the role of {account}", "account", None, "it has no right to any store")


_FILES = ("aws_fsx_lustre_file_system", "google_lustre_instance", "google_filestore_instance")


def _uses(environment: Environment) -> dict[str, dict[str, list[str]]]:
    """Return what accounts read and write; without a shared file system steps keep their state in a bucket."""
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
def principals_are_accounts_of_this_pool(environment: Environment) -> Iterator[Problem]:
    """A workload is a subject of this project's identity pool; another pool has no such subject."""
    pool = f"{environment.facts['project']}.svc.id.goog"
    shape = f"principal://iam.googleapis.com/projects/NUMBER/locations/global/workloadIdentityPools/{pool}"
    for grant in environment.resources:
        member = str(grant.values.get("member", ""))
        match = _PRINCIPAL.fullmatch(member)
        if "principal" in member and (match is None or match["pool"] != pool):
            yield Problem(grant.address, "member", member, f"it is {shape}/subject/ns/NAMESPACE/sa/ACCOUNT")


@policy("https://kubernetes.io/docs/reference/access-authn-authz/rbac/#user-facing-roles")
def groups_of_people_have_their_own_rights(environment: Environment) -> Iterator[Problem]:
    """Operators edit and readers view; a binding that mixes them up grants the wrong permissions."""
    for binding in environment.of_kind("RoleBinding"):
        role = binding["roleRef"]["name"]
        for subject in binding.get("subjects", []):
            kind = re.fullmatch(r"nightshift-(operators|readers)(@.*)?", subject["name"])
            if subject["kind"] == "Group" and kind and role not in (_PEOPLE[kind[1]], f"nightshift-{kind[1]}"):
                allowed = f"{subject['name']} have {_PEOPLE[kind[1]]} and nightshift-{kind[1]}"
                yield Problem(label(binding), "roleRef.name", role, allowed)


@policy("infra/policies/tables/kubernetes.yaml, resources")
def rights_are_to_resources_that_are_there(environment: Environment) -> Iterator[Problem]:
    """RBAC accepts any name of a group, a resource or a verb; one that does not exist grants nothing."""
    known = table("kubernetes")
    for role in environment.of_kind("Role", "ClusterRole"):
        for rule in role.get("rules") or ():
            for group, resource in itertools.product(rule.get("apiGroups", []), rule.get("resources", [])):
                if resource not in known["resources"].get(group, []):
                    allowed = f"the API group {group!r} has {', '.join(known['resources'].get(group, []))}"
                    yield Problem(label(role), "rules.resources", resource, allowed)
            for verb in {*rule["verbs"]} - {*known["verbs"]}:
                yield Problem(label(role), "rules.verbs", verb, f"verbs are {', '.join(known['verbs'])}")


@policy("https://kubernetes.io/docs/reference/access-authn-authz/rbac/#rolebinding-and-clusterrolebinding")
def bindings_name_a_role_of_their_namespace(environment: Environment) -> Iterator[Problem]:
    """A binding to a role that does not exist is accepted but grants nothing."""
    roles = {(role["metadata"].get("namespace"), role["metadata"]["name"]) for role in environment.of_kind("Role")}
    for binding in environment.of_kind("RoleBinding"):
        kind, name, namespace = binding["roleRef"]["kind"], binding["roleRef"]["name"], binding["metadata"]["namespace"]
        if kind == "Role" and (namespace, name) not in roles:
            there = ", ".join(sorted(role for own, role in roles if own == namespace))
            yield Problem(label(binding), "roleRef.name", name, f"{namespace} has {there}")


@policy("https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html")
def people_are_in_groups_that_have_rights(environment: Environment) -> Iterator[Problem]:
    """Groups of access entries and of bindings are the same, and an entry is of the variable that is called so."""
    bound = {
        subject["name"]
        for binding in environment.of_kind("RoleBinding")
        for subject in binding.get("subjects", [])
        if subject["kind"] == "Group" and "@" not in subject["name"]
    }
    named: set[str] = set()
    for entry in environment.of_type("aws_eks_access_entry"):
        for group in entry.values.get("kubernetes_groups") or ():
            if not group.startswith("mock-"):
                named.add(group)
                if group not in bound:
                    allowed = f"Kubernetes gives rights to {', '.join(sorted(bound))}"
                    yield Problem(entry.address, "kubernetes_groups", group, allowed)
    variables = {f"nightshift-{name}" for name, arns in environment.people.items() if arns}
    for group in variables - named if environment.people else ():
        yield Problem("aws_eks_access_entry", "kubernetes_groups", sorted(named), f"people.{group[11:]} are in {group}")


@policy("https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html")
def an_access_entry_has_the_group_of_its_variable(environment: Environment) -> Iterator[Problem]:
    """A role that the variable `people` names a reader is in the group of readers."""
    groups = {arn: f"nightshift-{name}" for name, arns in environment.people.items() for arn in arns or ()}
    for entry in environment.of_type("aws_eks_access_entry"):
        wanted, named = groups.get(entry.values["principal_arn"]), entry.values.get("kubernetes_groups") or []
        if wanted and named != [wanted]:
            yield Problem(entry.address, "kubernetes_groups", named, f"it is in {wanted}, by the variable people")


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/how-to/google-groups-rbac")
def groups_are_of_the_domain_that_is_asked(environment: Environment) -> Iterator[Problem]:
    """GKE knows members of groups of one domain: bindings and the right to connect name that one."""
    for cluster in environment.of_type("google_container_cluster"):
        domain = str(cluster.block("authenticator_groups_config").get("security_group", "")).partition("@")[2]
        for grant in environment.of_type("google_project_iam_member"):
            member = str(grant.values.get("member", ""))
            if domain and member.startswith("group:") and not member.endswith(f"@{domain}"):
                yield Problem(grant.address, "member", member, f"the cluster asks about groups of {domain}")
        for binding in environment.of_kind("RoleBinding"):
            for name in (subject["name"] for subject in binding.get("subjects", []) if "@" in subject["name"]):
                if domain and not name.endswith(f"@{domain}"):
                    yield Problem(label(binding), "subjects", name, f"the cluster asks about groups of {domain}")


@policy("https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html")
def people_are_of_one_account(environment: Environment) -> Iterator[Problem]:
    """A principal of an access entry is of the cluster's account, so that all are of one."""
    entries = environment.of_type("aws_eks_access_entry")
    accounts = Counter(str(entry.values["principal_arn"]).split(":")[4] for entry in entries)
    for entry in entries:
        arn = entry.values["principal_arn"]
        if arn.split(":")[4] != accounts.most_common(1)[0][0]:
            allowed = f"the others are of {accounts.most_common(1)[0][0]}, which has to be the cluster's account"
            yield Problem(entry.address, "principal_arn", arn, allowed)


@policy("https://docs.cloud.google.com/iam/docs/service-account-overview")
def accounts_are_of_this_project(environment: Environment) -> Iterator[Problem]:
    """A grant is to accounts of this project, but for those of others that pull images."""
    project = environment.facts["project"]
    for grant in environment.resources:
        match = _ACCOUNT.fullmatch(str(grant.values.get("member", "")))
        pulls = ".readers[" in grant.address
        if match and match["project"] in _AGENTS:
            continue
        if match and (match["project"] == project) == pulls:
            allowed = "who pulls is of another project" if pulls else f"it is of this project, {project}"
            yield Problem(grant.address, "member", match[0], allowed)


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/how-to/hardening-your-cluster#use_least_privilege_sa")
def nodes_run_as_their_own_account(environment: Environment) -> Iterator[Problem]:
    """Nodes have the account that may pull images and write logs; the project's default one may edit everything."""
    for pool in environment.of_type("google_container_node_pool"):
        email = pool.block("node_config").get("service_account")
        owner = environment.owners.get(str(email))
        if email and not (owner and str(owner.values.get("account_id")).endswith("-nodes")):
            shown = owner.address if owner else email
            yield Problem(pool.address, "node_config.service_account", shown, "it is the account that ends with -nodes")


@policy("https://docs.cloud.google.com/artifact-registry/docs/access-control")
def grants_are_to_who_uses_them(environment: Environment) -> Iterator[Problem]:
    """A grant within a module is to the account that the grant is called after, such as `nodes` or `vertex`."""
    for grant in environment.resources:
        owner = environment.owners.get(str(grant.values.get("member")))
        name = re.search(r"_iam_member\.(nodes|vertex)", grant.address)
        if owner and name and not str(owner.values.get("account_id")).endswith(f"-{name[1]}"):
            allowed = f"it is the account whose id ends with -{name[1]}"
            yield Problem(grant.address, "member", owner.address, allowed)
