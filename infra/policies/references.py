"""References between resources and objects: by key, type and name."""

import re
from collections.abc import Iterator

from infra.policies.model import (
    Environment,
    Json,
    Problem,
    Resource,
    blocks,
    judge_unknown,
    label,
    leaves,
    one_of,
    policy,
    table,
)
from infra.policies.names import as_list, documents
from infra.policies.secrets import namespaces_of_charts, read_keys

_KEYED = re.compile(r'(?P<base>.+)\["(?P<key>[^"]+)"\]')
_HOST = re.compile(r"(?:https?://|@|allowed-hosts=)([a-z0-9-]+(?:\.[a-z0-9-]+)*):(\d+)")
_CONFIG_MAP = re.compile(r"create configmap ([\w-]+) --namespace ([\w-]+)")


@policy("https://developer.hashicorp.com/terraform/language/meta-arguments/for_each")
def for_each_resources_reference_their_own_key(environment: Environment) -> Iterator[Problem]:
    """A resource that refers to another key's resource depends on the wrong zone, account or add-on."""
    addresses = {resource.address for resource in environment.resources}
    roles = {role.values.get("name"): role for role in environment.of_type("aws_iam_role")}
    for resource in environment.resources:
        key = _key(resource)
        for path, value in leaves(resource.values) if key else ():
            if path == ("availability_zone",) and key.startswith(environment.region) and value != key:
                yield Problem(resource.address, "availability_zone", value, f"must be {key}, its key in for_each")
            target = (roles if path == ("role",) else environment.owners).get(str(value))
            expected = _with_key(target, key) if target else ""
            if target and expected in addresses - {resource.address}:
                yield Problem(resource.address, ".".join(path), target.address, f"must be {expected}")


def _key(resource: Resource) -> str:
    """Return the key of a resource in for_each; empty where it has none."""
    match = _KEYED.fullmatch(resource.address)
    return match["key"] if match else ""


def _with_key(resource: Resource, key: str) -> str:
    """Return the address of a resource's sibling with a key; empty where the resource has this key or none."""
    match = _KEYED.fullmatch(resource.address)
    return f'{match["base"]}["{key}"]' if match and match["key"] != key else ""


@policy("infra/policies/tables/names.yaml, refers_to and named")
def arguments_reference_resources_of_the_expected_type(environment: Environment) -> Iterator[Problem]:
    """An id of another type, or a name that no resource has, fails when it is applied or reaches nothing."""
    types, named = table("names")["refers_to"], table("names")["named"]
    names = {kind: {resource.values.get("name") for resource in environment.of_type(kind)} for kind in named.values()}
    for resource in environment.resources:
        for path, value in leaves(resource.values):
            field, argument = ".".join(path), path[-1]
            owner, kind = environment.owners.get(str(value)), named.get(f"{resource.type.partition('_')[0]}.{argument}")
            if owner and owner.type not in types.get(argument, [owner.type]):
                yield Problem(resource.address, field, owner.address, f"must be of type {' or '.join(types[argument])}")
            existing = names[kind] - {None} if kind else set()
            if existing and value not in existing:
                yield Problem(resource.address, field, value, f"no {kind} has this name: {one_of(existing)}")


@policy("https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html")
def nodes_run_the_version_of_their_cluster(environment: Environment) -> Iterator[Problem]:
    """EKS refuses nodes that are newer than the control plane, and older ones were forgotten in an upgrade."""
    versions = {cluster.values.get("version") for cluster in environment.of_type("aws_eks_cluster")}
    for group in environment.of_type("aws_eks_node_group"):
        if group.values.get("version") not in versions | {None}:
            allowed = f"must be the cluster's version: {one_of(versions)}"
            yield Problem(group.address, "version", group.values["version"], allowed)


@policy("infra/policies/tables/names.yaml, acts_on")
def iam_actions_apply_to_their_resource_type(environment: Environment) -> Iterator[Problem]:
    """An action on a resource that it does not apply to grants nothing, such as s3:GetObject on a whole bucket."""
    rows = table("names")["acts_on"]
    arns = {arn: owner for arn, owner in environment.owners.items() if arn == owner.values.get("arn")}
    for resource, argument, statement in documents(environment):
        for action in as_list(statement["Action"]):
            pattern = next((row["is"] for row in rows if re.fullmatch(row["action"], action)), ".*")
            for arn in as_list(statement.get("Resource", [])):
                target = _with_type(arns, arn)
                if not re.fullmatch(pattern, target):
                    yield Problem(resource.address, f"{argument}.Resource of {action}", target, f"must match {pattern}")


def _with_type(arns: dict[str, Resource], arn: str) -> str:
    """Return an ARN with the type of the resource in place of the resource's own ARN."""
    for known, owner in arns.items():
        if arn == known or arn.startswith((f"{known}/", f"{known}:")):
            return f"<{owner.type}>{arn.removeprefix(known)}"
    return arn


@policy("infra/policies/tables/names.yaml, together")
def iam_grants_include_dependent_actions(environment: Environment) -> Iterator[Problem]:
    """An action without those that it depends on fails: writing to an encrypted bucket also needs the key."""
    actions: dict[str, set[str]] = {}
    for resource, argument, statement in documents(environment):
        if argument == "policy" and statement["Effect"] == "Allow" and resource.type.startswith("aws_iam"):
            principal = str(resource.values.get("role") or resource.values.get("name"))
            actions.setdefault(principal, set()).update(as_list(statement["Action"]))
    # before an apply a part of them is not known
    is_known = all(grant.values.get("policy") for grant in environment.of_type("aws_iam_role_policy"))
    for principal, granted in actions.items() if is_known else ():
        for action, dependent in table("names")["together"].items():
            for missing in {*dependent} - granted if action in granted else ():
                where = f"IAM permissions of {principal}"
                yield Problem(where, "policy.Action", action, f"this action also requires {missing}")


@policy("https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources")
def roles_name_existing_secrets_and_config_maps(environment: Environment) -> Iterator[Problem]:
    """RBAC accepts a role for a Secret or ConfigMap that does not exist; it grants nothing."""
    existing = _secrets_and_config_maps(environment)
    for role in environment.of_kind("Role"):
        namespace = role["metadata"].get("namespace", "")
        for kind, name in _restricted_names(role):
            if (kind, namespace, name) not in existing:
                allowed = f"nothing creates {kind} with this name in namespace {namespace}"
                yield Problem(label(role), "rules.resourceNames", name, allowed)


def _secrets_and_config_maps(environment: Environment) -> set[tuple[str, str, str]]:
    """Return the resource, namespace and name of what manifests, charts and scripts create."""
    charts = (environment.infra / "cluster" / "charts.yaml").read_text()
    secrets = read_keys((environment.infra / "cluster" / "secrets.sh").read_text())
    existing = {("configmaps", namespace, name) for name, namespace in _CONFIG_MAP.findall(charts)}
    existing |= {("secrets", namespace, name) for namespace, name in secrets}
    for value in environment.of_kind("ConfigMap", "Secret"):
        kind = f"{value['kind'].lower()}s"
        existing.add((kind, value["metadata"].get("namespace", ""), value["metadata"]["name"]))
    return existing


def _restricted_names(role: Json) -> Iterator[tuple[str, str]]:
    """Yield the Secrets and ConfigMaps that a role is restricted to, with their resource."""
    for rule in role.get("rules") or ():
        for kind in {*rule.get("resources", [])} & {"configmaps", "secrets"}:
            yield from ((kind, name) for name in rule.get("resourceNames", []))


@policy("infra/policies/tables/kubernetes.yaml, services")
def hosts_are_existing_services(environment: Environment) -> Iterator[Problem]:
    """A host in the cluster without a Service, or at a port that the Service lacks, refuses connections."""
    services = {name: {*ports} for name, ports in table("kubernetes")["services"].items()}
    for service in environment.of_kind("Service"):
        name = f"{service['metadata'].get('namespace')}/{service['metadata']['name']}"
        services.setdefault(name, set()).update(port["port"] for port in service["spec"]["ports"])
    namespaces = {name.partition("/")[0] for name in services}
    for where, reader, text in _texts(environment):
        for host, port in _HOST.findall(text):
            name, _, rest = host.partition(".")
            namespace, _, suffix = rest.partition(".")
            ports = services.get(f"{namespace or reader}/{name}", set())
            is_in_cluster = (namespace or reader) in namespaces and suffix in ("", "svc", "svc.cluster.local")
            if is_in_cluster and int(port) not in ports:
                allowed = one_of(f"{service} at {sorted(ports)}" for service, ports in services.items())
                yield Problem(where, "host", f"{host}:{port}", f"no service has this name and port: {allowed}")


def _texts(environment: Environment) -> Iterator[tuple[str, str, str]]:
    """Yield texts that may name a host, with their reader's name in findings and its namespace."""
    for value in environment.objects:
        if value["kind"] != "ConfigMap":
            namespace = value["metadata"].get("namespace", "")
            yield from ((label(value), namespace, str(text)) for _, text in leaves(value))
    namespaces = namespaces_of_charts(environment)
    for name, values in environment.values.items():
        where = f"infra/cluster/values/{name}.yaml"
        yield from ((where, namespaces.get(name, ""), str(text)) for _, text in leaves(values))
    script = (environment.infra / "cluster" / "secrets.sh").read_text()
    for namespace, text in re.findall(r'^secret ([\w-]+) [\w-]+ <<< "(.*?)(?<!\\)"$', script, re.MULTILINE | re.DOTALL):
        yield "infra/cluster/secrets.sh", namespace, text


@policy("https://kubernetes.io/docs/concepts/storage/volumes/")
def mounts_name_volumes_of_their_pod(environment: Environment) -> Iterator[Problem]:
    """A mount of a volume that its pod lacks is refused when the pod is created, long after the apply."""
    for value in environment.objects:
        templates = value.get("spec", {}).get("volumeClaimTemplates", [])
        for path, spec in blocks(value, "spec"):
            volumes = {volume["name"] for volume in spec.get("volumes", [])}
            volumes |= {claim["metadata"]["name"] for claim in templates}
            for part in [*spec.get("containers", []), *spec.get("initContainers", []), spec]:
                for name in {mount["name"] for mount in part.get("volumeMounts", [])} - volumes:
                    allowed = f"no volume of the pod has this name: {one_of(volumes)}"
                    yield Problem(label(value), f"{path}.volumeMounts.name", name, allowed)


@policy("https://kubernetes.io/docs/concepts/workloads/controllers/")
def workloads_select_their_pods_and_name_existing_accounts(environment: Environment) -> Iterator[Problem]:
    """A selector that misses its own pods is refused, and a pod of a missing account is never created."""
    kinds = ("ServiceAccount", "Service")
    existing = {(kind, label(value)) for kind, value in _kinds(environment) if kind in kinds}
    for value in environment.objects:
        namespace = value["metadata"].get("namespace", "")
        for path, spec in blocks(value, "spec"):
            for kind, field in zip(kinds, ("serviceAccountName", "serviceName"), strict=True):
                name = spec.get(field)
                if name and (kind, f"{namespace}/{kind}/{name}") not in existing:
                    allowed = f"no {kind} has this name in namespace {namespace}"
                    yield Problem(label(value), f"{path}.{field}", name, allowed)
            if not _selects_its_pods(spec):
                allowed = "must match the labels of its own pod template"
                yield Problem(label(value), f"{path}.selector", spec["selector"], allowed)


def _selects_its_pods(spec: Json) -> bool:
    """Say whether a workload's selector matches its pod template; a spec without both passes."""
    selector, template = spec.get("selector"), spec.get("template")
    if not isinstance(selector, dict) or not isinstance(template, dict) or not selector.get("matchLabels"):
        return True
    return bool(selector["matchLabels"].items() <= template["metadata"].get("labels", {}).items())


def _kinds(environment: Environment) -> Iterator[tuple[str, Json]]:
    """Yield the objects, and the service accounts that charts create, with their kinds."""
    yield from ((value["kind"], value) for value in environment.objects)
    for name in table("kubernetes")["accounts"]:
        namespace, _, account = name.partition("/")
        yield "ServiceAccount", {"kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": account}}


@policy("https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-subjects")
def role_bindings_reference_existing_service_accounts(environment: Environment) -> Iterator[Problem]:
    """Kubernetes accepts a binding to a service account that does not exist; it grants nothing."""
    existing = {label(value) for kind, value in _kinds(environment) if kind == "ServiceAccount"}
    for binding in environment.of_kind("RoleBinding", "ClusterRoleBinding"):
        for subject in binding.get("subjects", []):
            namespace = subject.get("namespace", binding["metadata"].get("namespace"))
            if subject["kind"] == "ServiceAccount" and f"{namespace}/ServiceAccount/{subject['name']}" not in existing:
                name = f"{namespace}/{subject['name']}"
                yield Problem(label(binding), "subjects", name, "no ServiceAccount has this name")


@policy("https://kubernetes.io/docs/concepts/services-networking/network-policies/#targeting-a-namespace-by-its-name")
def network_policies_select_existing_namespaces(environment: Environment) -> Iterator[Problem]:
    """A rule for a namespace that does not exist allows no traffic."""
    names = {value["metadata"]["name"] for value in environment.of_kind("Namespace")} | {"kube-system"}
    for value in environment.of_kind("NetworkPolicy"):
        for path, selector in blocks(value, "namespaceSelector"):
            selected = [selector.get("matchLabels", {}).get("kubernetes.io/metadata.name")]
            for expression in selector.get("matchExpressions", []):
                selected += expression.get("values", [])
            for name in {*selected} - names - {None}:
                allowed, severity = judge_unknown(name, names)
                yield Problem(label(value), path, name, allowed, severity=severity)
