"""What refers to what: to one's own of several, to what an action is for, to what somebody makes under that name."""

import re
from collections.abc import Iterator

from infra.policies.model import Environment, Json, Problem, Resource, blocks, label, leaves, policy, table
from infra.policies.names import as_list, documents
from infra.policies.secrets import namespaces_of_charts, read_keys

_KEYED = re.compile(r'(?P<base>.+)\["(?P<key>[^"]+)"\]')
_HOST = re.compile(r"(?:https?://|@|allowed-hosts=)([a-z0-9-]+(?:\.[a-z0-9-]+)*):(\d+)")
_CONFIG_MAP = re.compile(r"create configmap ([\w-]+) --namespace ([\w-]+)")


@policy("https://developer.hashicorp.com/terraform/language/meta-arguments/for_each")
def what_is_made_for_each_refers_to_its_own(environment: Environment) -> Iterator[Problem]:
    """Of what is made for each zone, account or add-on, one refers to the other that is made for the same."""
    addresses = {resource.address for resource in environment.resources}
    roles = {role.values.get("name"): role for role in environment.of_type("aws_iam_role")}
    for resource in environment.resources:
        own = _KEYED.fullmatch(resource.address)
        for path, value in leaves(resource.values) if own else ():
            if (
                own
                and path == ("availability_zone",)
                and value != own["key"]
                and own["key"].startswith(environment.region)
            ):
                yield Problem(resource.address, "availability_zone", value, f"it is {own['key']}")
            other = (roles if path == ("role",) else environment.owners).get(str(value))
            match = _KEYED.fullmatch(other.address) if other else None
            if own and match and own["key"] != match["key"]:
                wanted = f'{match["base"]}["{own["key"]}"]'
                if wanted in addresses and wanted != resource.address:
                    yield Problem(resource.address, ".".join(path), match[0], f"it is {wanted}")


@policy("infra/policies/tables/names.yaml, refers_to and named")
def arguments_name_what_they_are_for(environment: Environment) -> Iterator[Problem]:
    """An id is of the kind that its argument asks for, and a name is one that some resource of that kind has."""
    kinds, named = table("names")["refers_to"], table("names")["named"]
    names = {kind: {resource.values.get("name") for resource in environment.of_type(kind)} for kind in named.values()}
    for resource in environment.resources:
        for path, value in leaves(resource.values):
            owner, kind = environment.owners.get(str(value)), named.get(f"{resource.type.partition('_')[0]}.{path[-1]}")
            if owner and path[-1] in kinds and owner.type not in kinds[path[-1]]:
                yield Problem(resource.address, ".".join(path), owner.address, f"it is a {kinds[path[-1]]}")
            if kind and names[kind] - {None} and value not in names[kind]:
                there = ", ".join(sorted(map(str, names[kind])))
                yield Problem(resource.address, ".".join(path), value, f"{kind} is called {there}")


@policy("https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html")
def nodes_have_the_version_of_their_cluster(environment: Environment) -> Iterator[Problem]:
    """Nodes of another version than the control plane's are newer than it, which EKS refuses, or were forgotten."""
    versions = {cluster.values.get("version") for cluster in environment.of_type("aws_eks_cluster")}
    for group in environment.of_type("aws_eks_node_group"):
        if group.values.get("version") not in versions | {None}:
            yield Problem(group.address, "version", group.values["version"], f"the cluster has {versions}")


@policy("infra/policies/tables/names.yaml, acts_on")
def actions_are_about_what_they_act_on(environment: Environment) -> Iterator[Problem]:
    """A right to do to a bucket what is done to objects, or to a role what is done to a queue, is one to nothing."""
    rows = table("names")["acts_on"]
    arns = {arn: owner for arn, owner in environment.owners.items() if arn == owner.values.get("arn")}
    for resource, argument, statement in documents(environment):
        for action in as_list(statement["Action"]):
            pattern = next((row["is"] for row in rows if re.fullmatch(row["action"], action)), ".*")
            for arn in as_list(statement.get("Resource", [])):
                shown = _shown(arns, arn)
                if not re.fullmatch(pattern, shown):
                    yield Problem(resource.address, f"{argument}.Resource of {action}", shown, f"it is {pattern}")


def _shown(arns: dict[str, Resource], arn: str) -> str:
    """Return an ARN with the type of a resource of the plan in place of its own."""
    for known, owner in arns.items():
        if arn == known or arn.startswith((f"{known}/", f"{known}:")):
            return f"<{owner.type}>{arn.removeprefix(known)}"
    return arn


@policy("infra/policies/tables/names.yaml, together")
def rights_that_are_used_together_are_given_together(environment: Environment) -> Iterator[Problem]:
    """Who may write what is encrypted may ask for its key, and who may read a queue may empty it."""
    actions: dict[str, set[str]] = {}
    for resource, argument, statement in documents(environment):
        if argument == "policy" and statement["Effect"] == "Allow" and resource.type.startswith("aws_iam"):
            who = str(resource.values.get("role") or resource.values.get("name"))
            actions.setdefault(who, set()).update(as_list(statement["Action"]))
    # before an apply a part of them is not known
    is_known = all(grant.values.get("policy") for grant in environment.of_type("aws_iam_role_policy"))
    for who, granted in actions.items() if is_known else ():
        for action, others in table("names")["together"].items():
            for missing in {*others} - granted if action in granted else ():
                yield Problem(f"the rights of {who}", "policy.Action", action, f"it is of no use without {missing}")


@policy("https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources")
def names_that_rights_are_limited_to_are_there(environment: Environment) -> Iterator[Problem]:
    """A right to one secret or ConfigMap is to one that somebody makes."""
    charts = (environment.infra / "cluster" / "charts.yaml").read_text()
    secrets = read_keys((environment.infra / "cluster" / "secrets.sh").read_text())
    there = {("configmaps", namespace, name) for name, namespace in _CONFIG_MAP.findall(charts)}
    there |= {("secrets", namespace, name) for namespace, name in secrets}
    for value in environment.of_kind("ConfigMap", "Secret"):
        kind = f"{value['kind'].lower()}s"
        there.add((kind, value["metadata"].get("namespace", ""), value["metadata"]["name"]))
    for role in environment.of_kind("Role"):
        for rule in role.get("rules") or ():
            for kind in {*rule.get("resources", [])} & {"configmaps", "secrets"}:
                for name in rule.get("resourceNames", []):
                    if (kind, role["metadata"].get("namespace", ""), name) not in there:
                        yield Problem(label(role), "rules.resourceNames", name, f"nobody makes {kind} of this name")


@policy("infra/policies/tables/kubernetes.yaml, services")
def hosts_are_services_that_are_there(environment: Environment) -> Iterator[Problem]:
    """An address within the cluster is a service of its namespace, at one of its ports."""
    services = {name: {*ports} for name, ports in table("kubernetes")["services"].items()}
    for service in environment.of_kind("Service"):
        name = f"{service['metadata'].get('namespace')}/{service['metadata']['name']}"
        services.setdefault(name, set()).update(port["port"] for port in service["spec"]["ports"])
    namespaces = {name.partition("/")[0] for name in services}
    for where, own, text in _texts(environment):
        for host, port in _HOST.findall(text):
            name, _, rest = host.partition(".")
            namespace, _, suffix = rest.partition(".")
            known = services.get(f"{namespace or own}/{name}", set())
            is_ours = (namespace or own) in namespaces and suffix in ("", "svc", "svc.cluster.local")
            if is_ours and int(port) not in known:
                there = ", ".join(sorted(f"{service} at {sorted(ports)}" for service, ports in services.items()))
                yield Problem(where, "host", f"{host}:{port}", f"services are {there}")


def _texts(environment: Environment) -> Iterator[tuple[str, str, str]]:
    """Yield texts that may name a host, with what a finding calls them and the namespace of who reads them."""
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
    """A mount of a volume that the pod has not is refused when the pod is made, long after it was applied."""
    for value in environment.objects:
        templates = value.get("spec", {}).get("volumeClaimTemplates", [])
        for path, spec in blocks(value, "spec"):
            volumes = {volume["name"] for volume in spec.get("volumes", [])}
            volumes |= {claim["metadata"]["name"] for claim in templates}
            for part in [*spec.get("containers", []), *spec.get("initContainers", []), spec]:
                for name in {mount["name"] for mount in part.get("volumeMounts", [])} - volumes:
                    yield Problem(label(value), f"{path}.volumeMounts.name", name, f"it has {sorted(volumes)}")


@policy("https://kubernetes.io/docs/concepts/workloads/controllers/")
def pods_have_the_labels_account_and_service_that_are_named(environment: Environment) -> Iterator[Problem]:
    """A workload chooses the pods that it makes, under an account and with a service that are there."""
    kinds = ("ServiceAccount", "Service")
    there = {(kind, label(value)) for kind, value in _kinds(environment) if kind in kinds}
    for value in environment.objects:
        namespace = value["metadata"].get("namespace", "")
        for path, spec in blocks(value, "spec"):
            for kind, field in zip(kinds, ("serviceAccountName", "serviceName"), strict=True):
                name = spec.get(field)
                if name and (kind, f"{namespace}/{kind}/{name}") not in there:
                    yield Problem(label(value), f"{path}.{field}", name, f"{namespace} has no such {kind}")
            chosen, template = spec.get("selector"), spec.get("template")
            wanted = chosen.get("matchLabels", {}) if isinstance(chosen, dict) and isinstance(template, dict) else {}
            if wanted and not wanted.items() <= (template or {})["metadata"].get("labels", {}).items():
                yield Problem(label(value), f"{path}.selector", chosen, "it chooses the pods that it makes")


def _kinds(environment: Environment) -> Iterator[tuple[str, Json]]:
    """Yield the objects that are here, and the accounts that charts make, with their kinds."""
    yield from ((value["kind"], value) for value in environment.objects)
    for name in table("kubernetes")["accounts"]:
        namespace, _, account = name.partition("/")
        yield "ServiceAccount", {"kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": account}}


@policy("https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-subjects")
def rights_are_of_accounts_that_are_there(environment: Environment) -> Iterator[Problem]:
    """A binding to an account that is not there is accepted, and gives nobody anything."""
    there = {label(value) for kind, value in _kinds(environment) if kind == "ServiceAccount"}
    for binding in environment.of_kind("RoleBinding", "ClusterRoleBinding"):
        for subject in binding.get("subjects", []):
            own = subject.get("namespace", binding["metadata"].get("namespace"))
            if subject["kind"] == "ServiceAccount" and f"{own}/ServiceAccount/{subject['name']}" not in there:
                yield Problem(label(binding), "subjects", f"{own}/{subject['name']}", "there is no such account")


@policy("https://kubernetes.io/docs/concepts/services-networking/network-policies/#targeting-a-namespace-by-its-name")
def namespaces_that_policies_name_are_there(environment: Environment) -> Iterator[Problem]:
    """A rule for a namespace that is not there lets nobody through."""
    names = {value["metadata"]["name"] for value in environment.of_kind("Namespace")} | {"kube-system"}
    for value in environment.of_kind("NetworkPolicy"):
        for path, selector in blocks(value, "namespaceSelector"):
            chosen = [selector.get("matchLabels", {}).get("kubernetes.io/metadata.name")]
            for expression in selector.get("matchExpressions", []):
                chosen += expression.get("values", [])
            for name in {*chosen} - names - {None}:
                yield Problem(label(value), path, name, f"there are {', '.join(sorted(names))}")
