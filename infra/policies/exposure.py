"""What is open to people who should not get in: public addresses, anonymous users, privileged pods, broad rights."""

import ipaddress
import re
from collections.abc import Iterator

from infra.policies.model import Environment, Json, Problem, Resource, Severity, blocks, label, leaves, policy
from infra.policies.names import as_list, documents
from infra.policies.settings import variables

_CIDR = re.compile(r"\d+(?:\.\d+){3}/\d{1,2}|[0-9a-f:]*::[0-9a-f:]*/\d{1,3}")
# the arguments of resources, and the fields of objects, that say who may come in
_CALLERS = {
    "aws_vpc_security_group_ingress_rule": ("cidr_ipv4", "cidr_ipv6"),
    "aws_security_group_rule": ("cidr_blocks", "ipv6_cidr_blocks"),
    "aws_security_group": ("ingress",),
    "aws_eks_cluster": ("vpc_config",),
    "google_compute_firewall": ("source_ranges",),
    "google_container_cluster": ("master_authorized_networks_config",),
    "google_sql_database_instance": ("settings",),
}
_ANYBODY = ("allUsers", "allAuthenticatedUsers", "system:anonymous", "system:unauthenticated", "system:authenticated")
_HOST = ("hostPID", "hostIPC", "hostNetwork", "privileged")
_SECRET = re.compile(r"(^|_)(PASSWORD|PASSWD|SECRET|TOKEN|API_KEY|SECRET_KEY|ACCESS_KEY|CREDENTIALS)$")
_SECRET_VALUE = re.compile(r"([pP]assword|[tT]oken|[sS]ecretKey|[aA]piKey)$")
_UNVERIFIED = re.compile(
    r"insecure-skip-tls-verify(?:=|: *)true|insecure_?[sS]kip_?[vV]erify *[:=] *true|--no-verify-ssl"
    r"|sslmode=(?:disable|allow|prefer)|curl[^\n|]* (?:-k|--insecure)\b"
)
_REF = re.compile(r"[?&]ref=([^&\s\"']*)")
_RBAC = "https://kubernetes.io/docs/concepts/security/rbac-good-practices/"


@policy("https://docs.aws.amazon.com/vpc/latest/userguide/security-group-rules.html", Severity.EXPOSES)
def nothing_is_open_to_the_internet(environment: Environment) -> Iterator[Problem]:
    """A rule for public addresses lets everybody on the Internet try; nothing here answers outside its network."""
    for where, field, text in (*_callers(environment), *_peers(environment)):
        for cidr in filter(_is_public, _CIDR.findall(text)):
            yield Problem(where, field, cidr, "must be addresses of your own networks")
    for resource in environment.resources:
        if resource.values.get("publicly_accessible"):
            yield Problem(resource.address, "publicly_accessible", True, "must be false")
    for cluster in (resource.block("vpc_config") for resource in environment.of_type("aws_eks_cluster")):
        if cluster.get("endpoint_public_access") and not cluster.get("public_access_cidrs"):
            yield Problem("aws_eks_cluster", "vpc_config.public_access_cidrs", None, "must name the callers' addresses")
    yield from _published_services(environment)


def _published_services(environment: Environment) -> Iterator[Problem]:
    for service in environment.of_kind("Service"):
        if (kind := service["spec"].get("type", "ClusterIP")) in ("LoadBalancer", "NodePort"):
            yield Problem(label(service), "type", kind, "must be ClusterIP: it is reachable from outside the cluster")


def _callers(environment: Environment) -> Iterator[tuple[str, str, str]]:
    """Yield the arguments of resources that say from where requests may come."""
    for resource in environment.of_type(*_CALLERS):
        if "egress" not in (resource.values.get("type"), str(resource.values.get("direction")).lower()):
            for field in _CALLERS[resource.type]:
                yield resource.address, field, str(resource.values.get(field) or "")


def _peers(environment: Environment) -> Iterator[tuple[str, str, str]]:
    """Yield the callers that network policies admit; an empty rule admits every address."""
    for where, rule in _ingress_rules(environment):
        yield where, "ingress", str(rule.get("from", "")) if rule else "0.0.0.0/0"


def _ingress_rules(environment: Environment) -> Iterator[tuple[str, Json]]:
    for value in environment.of_kind("NetworkPolicy"):
        for rule in value["spec"].get("ingress") or ():
            yield label(value), rule or {}


@policy("https://kubernetes.io/docs/concepts/services-networking/network-policies/", Severity.EXPOSES)
def no_namespace_is_open_to_all_others(environment: Environment) -> Iterator[Problem]:
    """An empty selector of namespaces admits every pod of the cluster, other teams' too."""
    for where, rule in _ingress_rules(environment):
        if {"namespaceSelector": {}} in rule.get("from", ()):
            yield Problem(where, "ingress.from.namespaceSelector", {}, "must name the callers' namespaces")


@policy("https://kubernetes.io/docs/concepts/configuration/secret/", Severity.EXPOSES)
def connections_are_verified(environment: Environment) -> Iterator[Problem]:
    """Who does not verify a certificate gives a password or token to whoever answers."""
    for file in sorted(path for path in environment.infra.rglob("*") if path.suffix in (".sh", ".yaml", ".tf")):
        for word in _UNVERIFIED.findall(file.read_text()):
            yield Problem(str(file.relative_to(environment.infra.parent)), "text", word, "must be absent")


@policy("https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/resource/")
def remote_manifests_have_fixed_versions(environment: Environment) -> Iterator[Problem]:
    """What a branch holds is another thing on another day."""
    for file in environment.infra.rglob("kustomization.yaml"):
        for ref in _REF.findall(file.read_text()):
            if not re.fullmatch(r"v?\d+(\.\d+)+[\w.-]*|[0-9a-f]{40}", ref):
                where = str(file.relative_to(environment.infra.parent))
                yield Problem(where, "resources (ref)", ref, "must be a version or a commit")


def _is_public(cidr: str) -> bool:
    """Say whether a range is of public addresses and larger than an office's."""
    network = ipaddress.ip_network(cidr, strict=False)
    return network.prefixlen == 0 or (
        not network.is_private and network.prefixlen < (16 if network.version == 4 else 32)
    )


@policy("https://docs.aws.amazon.com/IAM/latest/UserGuide/best-practices.html#grant-least-privilege", Severity.EXPOSES)
def grants_are_limited(environment: Environment) -> Iterator[Problem]:
    """All actions of a service on all resources, or a grant to everybody, is more than any part here needs."""
    for resource, argument, statement in documents(environment):
        for field, value, allowed in _excesses(resource, argument, statement):
            yield Problem(resource.address, f"{argument}.{field}", value, allowed)
    for grant in environment.resources:
        members = {grant.values.get("member"), *(grant.values.get("members") or ())}
        if members & {*_ANYBODY}:
            yield Problem(grant.address, "member", grant.values.get("member"), "must be somebody of yours")
        if "_iam_" in grant.type and grant.values.get("role") in ("roles/owner", "roles/editor"):
            yield Problem(grant.address, "role", grant.values["role"], "must be a role for one service")


def _excesses(resource: Resource, argument: str, statement: Json) -> Iterator[tuple[str, object, str]]:
    """Yield field, value and expected value of what a statement allows beyond any need."""
    if statement["Effect"] != "Allow":
        return
    actions, is_unbounded = as_list(statement.get("Action", [])), "*" in as_list(statement.get("Resource", "*"))
    broad = [action for action in actions if action.rpartition(":")[2] == "*" or action == "iam:PassRole"]
    if argument == "policy" and resource.type.startswith("aws_iam") and broad and is_unbounded:
        yield "Action", broad, "must name actions, or resources"
    for field in statement.keys() & {"NotAction", "NotResource", "NotPrincipal"}:
        yield field, statement[field], "must be absent: name what it allows, not what it does not"


@policy(_RBAC, Severity.EXPOSES)
def roles_of_the_cluster_are_limited(environment: Environment) -> Iterator[Problem]:
    """A wildcard in a role grants what is added later too, and a binding to everybody opens it to anonymous users."""
    for role in environment.of_kind("Role", "ClusterRole"):
        wild = {field for rule in role.get("rules") or () for field, names in rule.items() if "*" in names}
        for field in wild & {"verbs", "resources", "apiGroups"}:
            yield Problem(label(role), f"rules.{field}", "*", "must name them")
    for binding in environment.of_kind("RoleBinding", "ClusterRoleBinding"):
        for subject in binding.get("subjects") or ():
            if subject["name"] in _ANYBODY:
                yield Problem(label(binding), "subjects.name", subject["name"], "must be somebody of yours")
            if subject["kind"] == "Group" and subject["name"].partition("@")[0].endswith("readers"):
                yield from _excesses_of_readers(environment, binding["roleRef"]["name"])
            if binding["roleRef"]["name"] == "cluster-admin" and subject["kind"] == "ServiceAccount":
                yield Problem(label(binding), "roleRef.name", "cluster-admin", "must be a role with what its pods need")


def _excesses_of_readers(environment: Environment, name: str) -> Iterator[Problem]:
    """Yield what a role lets people do who may only look: change something, or read the secrets of others."""
    for role in environment.of_kind("Role", "ClusterRole"):
        for rule in (role.get("rules") or ()) if role["metadata"]["name"] == name else ():
            # a page that asks for a login is reached by it
            verbs = {*rule["verbs"]} - {"get", "list", "watch"} if rule.get("resources") != ["pods/portforward"] else ()
            if verbs:
                yield Problem(label(role), "rules.verbs", sorted(verbs), "must be get, list and watch for readers")
            if {"secrets", "*"} & {*rule.get("resources", ())}:
                yield Problem(label(role), "rules.resources", "secrets", "must be absent from a role of readers")


@policy("https://kubernetes.io/docs/concepts/security/pod-security-standards/", Severity.EXPOSES)
def pods_stay_apart_from_their_node(environment: Environment) -> Iterator[Problem]:
    """A privileged pod, or one with its node's files, processes or network, is root on the node once it is broken."""
    for value in environment.objects:
        for path, block in blocks(value):
            for field in {*_HOST} & {name for name, content in block.items() if content is True}:
                yield Problem(label(value), f"{path}.{field}", True, "must be absent")
            folder = block["hostPath"].get("path", "") if isinstance(block.get("hostPath"), dict) else ""
            # the libraries that GKE lays out on GPU nodes
            if folder and not folder.startswith("/home/kubernetes/bin"):
                yield Problem(label(value), f"{path}.hostPath", folder, "must be another kind of volume")


@policy("https://kubernetes.io/docs/concepts/configuration/secret/", Severity.EXPOSES)
def secrets_are_not_written_into_manifests(environment: Environment) -> Iterator[Problem]:
    """A password in a manifest is in the repository, and everybody who may read pods reads it."""
    for where, entries, _ in variables(environment):
        for entry in entries:
            if _SECRET.search(entry["name"]) and entry.get("value") and not str(entry["value"]).startswith("/"):
                yield Problem(where, f"env.{entry['name']}", "...", "must be valueFrom.secretKeyRef")
    for where, values in environment.values_files:
        for path, value in leaves(values):
            if path and _SECRET_VALUE.search(path[-1]) and isinstance(value, str) and value and value[0] not in "$/":
                yield Problem(where, ".".join(path), "...", "must be absent: name an existing secret instead")
