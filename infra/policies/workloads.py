"""Pods: probes, disruption budgets, priorities, selectors, quotas."""

import itertools
import re
from collections.abc import Iterator, Mapping

from infra.policies import quantities
from infra.policies.model import Environment, Json, Problem, Severity, blocks, label, leaves, one_of, policy, table

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_LABELS = "infra/policies/tables/kubernetes.yaml, labels"


def pods(environment: Environment) -> Iterator[tuple[Json, Json]]:
    """Yield each workload with its pod's template."""
    for value in environment.of_kind("Deployment", "StatefulSet", "DaemonSet", "Job"):
        template = value["spec"]["template"]
        yield value, template | {"metadata": {"labels": {}} | template.get("metadata", {})}


def containers(environment: Environment) -> Iterator[tuple[str, Json]]:
    """Yield each container with its name in findings."""
    for value, template in pods(environment):
        for container in template["spec"]["containers"]:
            yield f"{label(value)} {container['name']}", container


@policy("https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/")
def probes_use_open_ports(environment: Environment) -> Iterator[Problem]:
    """A probe of a port without a listener never succeeds."""
    for where, container in containers(environment):
        ports = _ports([container])
        for probe, handler in itertools.product(_PROBES, ("tcpSocket", "httpGet", "grpc")):
            port = container.get(probe, {}).get(handler, {}).get("port")
            if port is not None and port not in ports:
                allowed = f"the container declares no such port: {one_of(ports)}"
                yield Problem(where, f"{probe}.{handler}.port", port, allowed)
        for number in re.findall(r"--port[= ](\d+)", " ".join(container.get("command", []))):
            if int(number) not in ports:
                allowed = f"the container declares no such port: {one_of(ports)}"
                yield Problem(where, "command --port", number, allowed)


def _ports(containers: list[Json]) -> set[str | int]:
    """Return the numbers and names of the ports that containers declare."""
    ports = [port for container in containers for port in container.get("ports", [])]
    return {value for port in ports for value in (port.get("name"), port["containerPort"])} - {None}


@policy("infra/policies/tables/kubernetes.yaml, listens")
def containers_declare_the_port_of_their_program(environment: Environment) -> Iterator[Problem]:
    """Services and monitors that use a declared port without a listener get no response."""
    for where, container in containers(environment):
        program = " ".join(container.get("command", [])) or container.get("image", "").rpartition("/")[2]
        ports = [port["containerPort"] for port in container.get("ports", [])]
        # a program may be configured otherwise, such as PostgreSQL by PGPORT
        configured = {str(value) for _, value in leaves([container.get("env"), container.get("args")])} & {
            *map(str, ports)
        }
        for name, port in table("kubernetes")["listens"].items():
            if program.startswith(name) and ports and port not in ports and not configured:
                yield Problem(where, "ports.containerPort", ports, f"must include {port}, at which {name} listens")


@policy("https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/")
def probes_fit_their_period_and_allow_startup(environment: Environment) -> Iterator[Problem]:
    """Probes longer than their period overlap, and a short startup probe restarts a process before it is ready."""
    contents = [*containers(environment)]
    contents += environment.values_files
    for where, content in contents:
        for path, probe in blocks(content, *_PROBES):
            timeout, period = probe.get("timeoutSeconds", 1), probe.get("periodSeconds", 10)
            # a startup probe may be slower than its period: the next one then follows immediately
            if timeout > period and "startupProbe" not in path:
                yield Problem(where, f"{path}.timeoutSeconds", timeout, f"must be at most periodSeconds, {period}")
            window = period * probe.get("failureThreshold", 3) + probe.get("initialDelaySeconds", 0)
            if "startupProbe" in path and window < 300:
                allowed = f"the process has {window} s to start: must be at least 300 s"
                yield Problem(where, f"{path}.failureThreshold", probe.get("failureThreshold"), allowed)
            if path.endswith("livenessProbe") and "startupProbe" not in content and window < 20:
                allowed = f"the process has {window} s to start: must be at least 20 s, or there must be a startupProbe"
                yield Problem(where, f"{path}.failureThreshold", probe.get("failureThreshold"), allowed)
            if window > 3600:
                allowed = f"a hung process is noticed after {window} s: must be at most 3600 s"
                yield Problem(where, f"{path}.periodSeconds", period, allowed)


@policy("https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/")
def requests_are_within_limits(environment: Environment) -> Iterator[Problem]:
    """Kubernetes rejects a pod whose request exceeds its limit, and evicts one whose request is far below it first."""
    for value in environment.objects:
        for path, block in blocks(value, "resources"):
            for name, read in (("memory", quantities.size), ("cpu", quantities.cores)):
                request, limit = (block.get(part, {}).get(name) for part in ("requests", "limits"))
                if request and limit and read(request) > read(limit):
                    allowed = f"must be at least the request, {request}"
                    yield Problem(label(value), f"{path}.limits.{name}", limit, allowed)


@policy("https://kubernetes.io/docs/tasks/run-application/configure-pdb/")
def disruption_budgets_let_nodes_drain(environment: Environment) -> Iterator[Problem]:
    """A budget that covers every replica blocks upgrades, and one that covers few steps lets them be evicted."""
    replicas = {
        tuple(sorted(template["metadata"]["labels"].items())): value["spec"].get("replicas", 1)
        for value, template in pods(environment)
        if value["kind"] in ("Deployment", "StatefulSet")
    }
    cores = max(
        (
            quantities.cores(quota["spec"]["hard"]["requests.cpu"])
            for quota in environment.of_kind("ResourceQuota")
            if "requests.cpu" in quota["spec"]["hard"]
        ),
        default=0,
    )
    for budget in environment.of_kind("PodDisruptionBudget"):
        spec, where = budget["spec"], label(budget)
        counts = [count for labels, count in replicas.items() if selects(spec["selector"], dict(labels))]
        if str(spec.get("maxUnavailable", 1)) in ("0", "0%"):
            allowed = "must be at least 1: at 0 no node can be drained"
            yield Problem(where, "maxUnavailable", spec["maxUnavailable"], allowed)
        least = spec.get("minAvailable")
        if least is not None and (str(least).endswith("%") or (counts and least >= min(counts))):
            allowed = f"must be less than the replicas, {counts or 'of which there is no fixed number'}"
            yield Problem(where, "minAvailable", least, allowed)
        elif least is not None and not counts and least <= 10 * cores:
            allowed = f"must exceed any number of steps, {10 * cores:g}, so that none is evicted"
            yield Problem(where, "minAvailable", least, allowed)


def selects(selector: Json, labels: Mapping[str, str]) -> bool:
    """Say whether a selector matches labels."""
    exact = selector.get("matchLabels", {}).items() <= labels.items()
    return exact and all(_fits(expression, labels) for expression in selector.get("matchExpressions", []))


def _fits(expression: Json, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values", [])
    present = key in labels
    return {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": present,
        "DoesNotExist": not present,
    }[expression["operator"]]


@policy(_LABELS)
def selectors_match_pods(environment: Environment) -> Iterator[Problem]:
    """A policy, budget, service or monitor that selects no pod silently does nothing."""
    labels = [
        template["metadata"]["labels"] for _, template in pods(environment) if "labels" in template.get("metadata", {})
    ]
    services = [service["metadata"].get("labels", {}) for service in environment.of_kind("Service")]
    known = [{row: "true"} if isinstance(row, str) else row for row in table("kubernetes")["labels"]]
    for value in environment.of_kind("NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "Service", "ServiceMonitor"):
        spec = value["spec"]
        selector = spec.get("podSelector", spec.get("selector")) or {}
        selector = {"matchLabels": selector} if value["kind"] == "Service" else selector
        candidates = services if value["kind"] == "ServiceMonitor" else [*labels, *known]
        if selector and not any(selects(selector, candidate) for candidate in candidates):
            allowed = f"no pod or service has these labels; add those that a chart creates to {_LABELS}"
            yield Problem(label(value), "selector", selector, allowed)


@policy("https://kubernetes.io/docs/concepts/services-networking/service/#defining-a-service")
def services_target_open_ports(environment: Environment) -> Iterator[Problem]:
    """A service whose target port its pods do not open refuses every connection."""
    for service in environment.of_kind("Service"):
        for value, template in _backends(environment, service):
            ports = _ports(template["spec"]["containers"])
            for target in (port.get("targetPort", port["port"]) for port in service["spec"]["ports"]):
                if target not in ports:
                    allowed = f"{label(value)} declares no such port: {one_of(ports)}"
                    yield Problem(label(service), "ports.targetPort", target, allowed)


def _backends(environment: Environment, service: Json) -> Iterator[tuple[Json, Json]]:
    """Yield the workloads whose pods a service selects, with their templates."""
    selector = service["spec"].get("selector") or {"": ""}
    for value, template in pods(environment):
        is_neighbor = value["metadata"].get("namespace") == service["metadata"].get("namespace")
        if is_neighbor and selector.items() <= template["metadata"]["labels"].items():
            yield value, template


@policy("https://prometheus-operator.dev/docs/developer/getting-started/")
def monitors_name_service_ports(environment: Environment) -> Iterator[Problem]:
    """Prometheus never scrapes an endpoint that is not the name of a service's port."""
    for monitor in environment.of_kind("ServiceMonitor"):
        names = {
            port.get("name")
            for service in environment.of_kind("Service")
            for port in service["spec"]["ports"]
            if selects(monitor["spec"]["selector"], service["metadata"].get("labels", {}))
        }
        for endpoint in monitor["spec"]["endpoints"]:
            if names and endpoint.get("port") not in names:
                allowed = f"the service has no such port: {one_of(names)}"
                yield Problem(label(monitor), "endpoints.port", endpoint.get("port"), allowed)
    listening = _ports_by_namespace(environment)
    for monitor in environment.of_kind("PodMonitor"):
        chosen = monitor["spec"].get("namespaceSelector", {})
        namespaces = chosen.get("matchNames", [monitor["metadata"].get("namespace")])
        ports = set().union(*(listening.get(name, ()) for name in (listening if chosen.get("any") else namespaces)))
        for endpoint in monitor["spec"].get("podMetricsEndpoints", []):
            if ports and endpoint.get("portNumber") not in ports | {None}:
                allowed = f"no pod of {', '.join(map(str, namespaces))} listens there: {one_of(ports)}"
                yield Problem(label(monitor), "podMetricsEndpoints.portNumber", endpoint["portNumber"], allowed)


@policy("https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config")
def scrapes_end_within_their_interval(environment: Environment) -> Iterator[Problem]:
    """The operator refuses a monitor whose timeout is longer than its interval."""
    for monitor in environment.of_kind("ServiceMonitor", "PodMonitor"):
        for endpoint in monitor["spec"].get("endpoints", monitor["spec"].get("podMetricsEndpoints", [])):
            interval, limit = endpoint.get("interval", "30s"), endpoint.get("scrapeTimeout", "10s")
            if quantities.seconds(limit) > quantities.seconds(interval):
                yield Problem(label(monitor), "scrapeTimeout", limit, f"must be at most the interval, {interval}")
            if "path" in endpoint and not endpoint["path"].startswith("/"):
                yield Problem(label(monitor), "path", endpoint["path"], "must begin with /")


@policy("https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/")
def priority_classes_are_valid_and_ordered(environment: Environment) -> Iterator[Problem]:
    """The API refuses reserved names and values, and in the wrong order training evicts serving."""
    limits, ranks = table("kubernetes")["priorities"], table("kubernetes")["ranks"]
    classes = _classes(environment)
    for name, value in classes.items():
        if re.fullmatch(limits["reserved"], name):
            yield Problem(
                label(value), "metadata.name", name, f"must not match {limits['reserved']}: such names are reserved"
            )
        if not limits["from"] <= value["value"] < limits["to"]:
            allowed = f"must be at least {limits['from']}, below which no node is added, and less than {limits['to']}"
            yield Problem(label(value), "value", value["value"], allowed)
    for first, second in itertools.pairwise(ranks):
        if classes and not {first, second} <= classes.keys():
            yield Problem("PriorityClass", "metadata.name", sorted(classes), f"must include {first} and {second}")
        elif classes and classes[first]["value"] <= classes[second]["value"]:
            allowed = f"must exceed that of {second}, {classes[second]['value']}"
            yield Problem(f"PriorityClass/{first}", "value", classes[first]["value"], allowed)


@policy("https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/")
def training_is_the_default_and_never_preempts(environment: Environment) -> Iterator[Problem]:
    """Kubeflow sets no class on a step: with another default, or one that preempts, training evicts serving."""
    classes, ranks = _classes(environment), table("kubernetes")["ranks"]
    default = [name for name, value in classes.items() if value.get("globalDefault")]
    if classes and default != ranks[-1:]:
        yield Problem("PriorityClass", "globalDefault", default, f"must be {ranks[-1]} alone")
    trainings = classes.get(ranks[-1], {})
    if trainings and trainings.get("preemptionPolicy") != "Never":
        allowed = "must be Never: training evicts no pod"
        yield Problem(label(trainings), "preemptionPolicy", trainings.get("preemptionPolicy"), allowed)


@policy("https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/", Severity.ADVICE)
def steps_are_queued_before_trainings(environment: Environment) -> Iterator[Problem]:
    """A step of minutes otherwise waits for training of hours."""
    classes = {value["metadata"]["name"]: value["value"] for value in environment.of_kind("WorkloadPriorityClass")}
    for first, second in itertools.pairwise(table("kubernetes")["queue_ranks"]):
        if classes and classes.get(first, 0) <= classes.get(second, 0):
            yield Problem(
                f"WorkloadPriorityClass/{first}", "value", classes.get(first), f"must exceed that of {second}"
            )


def _classes(environment: Environment) -> dict[str, Json]:
    return {value["metadata"]["name"]: value for value in environment.of_kind("PriorityClass")}


@policy("https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/")
def pods_name_existing_priority_classes(environment: Environment) -> Iterator[Problem]:
    """A pod of a missing class is refused, and so is one of a system class outside kube-system."""
    classes = {value["metadata"]["name"] for value in environment.of_kind("PriorityClass")}
    contents = [(label(value), value) for value in environment.objects]
    contents += environment.values_files
    for where, content in contents:
        for path, block in blocks(content):
            name = block.get("priorityClassName")
            if classes and name and name not in classes and not where.startswith("kube-system/"):
                yield Problem(where, f"{path}.priorityClassName", name, one_of(classes))


@policy("infra/cluster/values/airflow.yaml")
def airflow_pool_matches_the_gpu_quota(environment: Environment) -> Iterator[Problem]:
    """With more slots than GPUs in the quota of Kubeflow's namespace steps are refused, with fewer GPUs stay idle."""
    quotas = [
        value["spec"]["hard"].get("requests.nvidia.com/gpu")
        for value in environment.of_kind("ResourceQuota")
        if value["metadata"].get("namespace") == "kubeflow"
    ]
    quota = next((int(count) for count in quotas if count is not None), None)
    job = environment.values.get("airflow", {}).get("migrateDatabaseJob", {})
    for slots in re.findall(r"pools set gpu (\d+)", " ".join(job.get("args", []))):
        if quota is not None and int(slots) != quota:
            allowed = f"must be {quota}, the GPUs in the quota of namespace kubeflow"
            yield Problem("infra/cluster/values/airflow.yaml", "migrateDatabaseJob.args", int(slots), allowed)


@policy("infra/policies/tables/kubernetes.yaml, identity")
def pods_can_reach_metadata_servers_and_dns(environment: Environment) -> Iterator[Problem]:
    """Without the metadata server a pod has no cloud credentials, and without DNS over TCP large responses are lost."""
    servers = table("kubernetes")["identity"]
    for value in environment.of_kind("NetworkPolicy"):
        for rule in value["spec"].get("egress") or ():
            ports = {(port.get("protocol", "TCP"), port["port"]) for port in rule.get("ports", [])}
            for block in (peer["ipBlock"]["cidr"] for peer in rule.get("to", []) if "ipBlock" in peer):
                row = servers.get(block)
                if row is None and block.startswith("169.254."):
                    yield Problem(label(value), "egress.to.ipBlock.cidr", block, one_of(servers))
                elif row and ("TCP", row["ports"][-1]) not in ports:
                    allowed = f"{block} listens at {row['ports']} ({row['source']})"
                    yield Problem(label(value), "egress.ports", sorted(ports), allowed)
            if any(number == 53 for _, number in ports) and not {("UDP", 53), ("TCP", 53)} <= ports:
                yield Problem(label(value), "egress.ports", sorted(ports), "must open port 53 for both UDP and TCP")


@policy("https://kubernetes.io/docs/concepts/services-networking/network-policies/#networkpolicy-resource")
def network_policies_name_their_directions(environment: Environment) -> Iterator[Problem]:
    """Rules of a direction that policyTypes leaves out do nothing."""
    for value in environment.of_kind("NetworkPolicy"):
        named = value["spec"].get("policyTypes")
        for direction in ("Ingress", "Egress"):
            if named and value["spec"].get(direction.lower()) and direction not in named:
                yield Problem(label(value), "policyTypes", named, f"must include {direction}, which has rules")


@policy("https://kubernetes.io/docs/concepts/policy/resource-quotas/#compute-resource-quota")
def quotas_have_defaults(environment: Environment) -> Iterator[Problem]:
    """A quota refuses every container that names no request or limit of its resource, unless there is a default."""
    defaults = {
        (value["metadata"]["namespace"], f"{kind}.{name}")
        for value in environment.of_kind("LimitRange")
        for limit in value["spec"]["limits"]
        for kind, field in (("limits", "default"), ("requests", "defaultRequest"))
        for name in limit.get(field, {})
    }
    for quota in environment.of_kind("ResourceQuota"):
        of_containers = [name for name in quota["spec"]["hard"] if name.endswith((".cpu", ".memory"))]
        for name in of_containers:
            if (quota["metadata"]["namespace"], name) not in defaults:
                yield Problem(label(quota), "hard", name, "the LimitRange of its namespace must have a default of it")


@policy("infra/policies/tables/kubernetes.yaml, open_ports")
def network_policies_open_ports_with_listeners(environment: Environment) -> Iterator[Problem]:
    """Where a policy opens a port without a listener, the right port stays closed."""
    listening = _ports_by_namespace(environment)
    for value in environment.of_kind("NetworkPolicy"):
        for direction, namespace, port in _opened_ports(value):
            ports = listening.get(namespace)
            if ports is not None and port not in ports:
                allowed = f"pods of {namespace} listen at {', '.join(map(str, sorted(ports)))}"
                yield Problem(label(value), f"{direction}.ports to {namespace}", port, allowed)


def _ports_by_namespace(environment: Environment) -> dict[str, set[int]]:
    """Return the ports at which pods listen, by namespace."""
    listening = {name: {*ports} for name, ports in table("kubernetes")["open_ports"].items()}
    for value, template in pods(environment):
        ports = {port["containerPort"] for part in template["spec"]["containers"] for port in part.get("ports", [])}
        listening.setdefault(value["metadata"].get("namespace", ""), set()).update(ports)
    return listening


def _opened_ports(value: Json) -> Iterator[tuple[str, str, int]]:
    """Yield the ports that a policy opens, with the direction and the namespace of the listeners."""
    namespace = value["metadata"].get("namespace", "")
    for rule in value["spec"].get("ingress") or ():
        yield from (("ingress", namespace, port["port"]) for port in rule.get("ports", []))
    for rule in value["spec"].get("egress") or ():
        selectors = [peer["namespaceSelector"] for peer in rule.get("to", []) if "namespaceSelector" in peer]
        names = [selector.get("matchLabels", {}).get("kubernetes.io/metadata.name") for selector in selectors]
        for name, port in itertools.product(names, rule.get("ports", [])):
            yield "egress", name, port["port"]


@policy("https://kubernetes.io/docs/concepts/storage/volumes/#emptydir")
def memory_volumes_fit_the_container_limits(environment: Environment) -> Iterator[Problem]:
    """Data in a memory volume counts against the containers' limits: a larger volume gets the pod killed."""
    for value in environment.objects:
        for path, spec in blocks(value, "spec"):
            volumes = [volume.get("emptyDir") or {} for volume in spec.get("volumes", [])]
            limits = [part.get("resources", {}).get("limits", {}).get("memory") for part in spec.get("containers", [])]
            for size in (volume.get("sizeLimit") for volume in volumes if volume.get("medium") == "Memory"):
                if None not in limits and (not size or quantities.size(size) >= sum(map(quantities.size, limits))):
                    allowed = f"must be less than the memory limits of the containers, {' + '.join(limits)}"
                    yield Problem(label(value), f"{path}.volumes.emptyDir.sizeLimit", size, allowed)


@policy("https://keda.sh/docs/latest/reference/scaledobject-spec/")
def scaled_objects_stay_within_bounds(environment: Environment) -> Iterator[Problem]:
    """KEDA refuses a fallback beyond its bounds, and with a wrong threshold or window it never scales, or flaps."""
    for value in environment.of_kind("ScaledObject"):
        spec = value["spec"]
        least, most = spec.get("minReplicaCount", 0), spec.get("maxReplicaCount", 100)
        fallback = spec.get("fallback", {}).get("replicas", least)
        if not least <= fallback <= most:
            yield Problem(label(value), "fallback.replicas", fallback, f"must lie between {least} and {most}")
        if least < 1 and all(trigger["type"] == "prometheus" for trigger in spec["triggers"]):
            allowed = "must be at least 1: the metrics are those of its pods, and without a pod nothing wakes it"
            yield Problem(label(value), "minReplicaCount", least, allowed)
        if least > most or most < 1:
            yield Problem(label(value), "maxReplicaCount", most, f"must be at least 1 and minReplicaCount, {least}")
        for trigger in spec["triggers"]:
            threshold = trigger["metadata"].get("threshold")
            if threshold is not None and not 1 <= float(threshold) <= 1000:
                allowed = "must be a number of waiting requests, from 1 to 1000"
                yield Problem(label(value), "triggers.threshold", threshold, allowed)
        window = (
            spec.get("advanced", {})
            .get("horizontalPodAutoscalerConfig", {})
            .get("behavior", {})
            .get("scaleDown", {})
            .get("stabilizationWindowSeconds", 300)
        )
        if not 60 <= window <= 3600:
            allowed = "must lie between 60 and 3600: loading a replica takes minutes"
            yield Problem(label(value), "scaleDown.stabilizationWindowSeconds", window, allowed)


@policy("https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/")
def routes_name_existing_pools(environment: Environment) -> Iterator[Problem]:
    """A route to a missing pool returns errors, and with another sum its weights are not the shares they seem."""
    pools = {value["metadata"]["name"]: value["spec"] for value in environment.of_kind("InferencePool")}
    for route in environment.of_kind("HTTPRoute"):
        for backend in (backend for rule in route["spec"]["rules"] for backend in rule["backendRefs"]):
            if backend.get("kind") == "InferencePool" and backend["name"] not in pools:
                yield Problem(label(route), "backendRefs.name", backend["name"], one_of(pools))
        for rule in route["spec"]["rules"]:
            total = sum(backend.get("weight", 1) for backend in rule["backendRefs"])
            if total not in (100, 1000, 10000, len(rule["backendRefs"])):
                yield Problem(label(route), "backendRefs.weight", total, "must add up to 10000")


@policy("https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/")
def inference_pools_use_their_own_pods_and_picker(environment: Environment) -> Iterator[Problem]:
    """A pool with the pods or the picker of another pool takes traffic that was meant for the other version."""
    pools = {value["metadata"]["name"]: value["spec"] for value in environment.of_kind("InferencePool")}
    for name, spec in pools.items():
        where, picker, labels = (
            f"InferencePool/{name}",
            spec["endpointPickerRef"]["name"],
            spec["selector"]["matchLabels"],
        )
        if not picker.startswith(f"{name}-"):
            yield Problem(where, "endpointPickerRef.name", picker, f"must be {name}-epp, the picker of {name}")
        if labels.get("app") != name:
            yield Problem(where, "selector.app", labels, f"must be app: {name}, the label of its pods")


@policy("https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/")
def queues_name_existing_flavors(environment: Environment) -> Iterator[Problem]:
    """Workloads wait forever in a queue without a cluster queue, flavor or quota of a resource they request."""
    queues = {value["metadata"]["name"] for value in environment.of_kind("ClusterQueue")}
    flavors = {value["metadata"]["name"] for value in environment.of_kind("ResourceFlavor")}
    for local in environment.of_kind("LocalQueue"):
        if local["spec"]["clusterQueue"] not in queues:
            yield Problem(label(local), "clusterQueue", local["spec"]["clusterQueue"], one_of(queues))
    for queue in environment.of_kind("ClusterQueue"):
        groups = queue["spec"]["resourceGroups"]
        for covered, flavor in [(group["coveredResources"], flavor) for group in groups for flavor in group["flavors"]]:
            quotas = {resource["name"] for resource in flavor["resources"]}
            if flavor["name"] not in flavors:
                yield Problem(label(queue), "flavors.name", flavor["name"], one_of(flavors))
            if quotas != {*covered}:
                allowed = f"must be the resources with quotas: {', '.join(sorted(quotas))}"
                yield Problem(label(queue), "coveredResources", covered, allowed)


@policy(
    "https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/expander/priority/readme.md",
    Severity.ADVICE,
)
def autoscaler_prefers_spot(environment: Environment) -> Iterator[Problem]:
    """Where spot groups lack the highest priority, the autoscaler starts more expensive nodes first."""
    priorities = environment.values.get("cluster-autoscaler", {}).get("expanderPriorities", {})
    first = priorities.get(max(priorities, default=0), [])
    if priorities and not any("spot" in pattern for pattern in first):
        where = "infra/cluster/values/cluster-autoscaler.yaml"
        yield Problem(where, "expanderPriorities", priorities, "the largest number must be that of .*spot.*")


@policy("infra/cluster/values")
def gpu_agents_tolerate_the_taints_of_gpu_nodes(environment: Environment) -> Iterator[Problem]:
    """Some GPU nodes have no metrics or device plugin where an agent does not tolerate all of their taints."""
    taints = {"nvidia.com/gpu", "nightshift/spot"}
    for name, values in environment.values.items():
        where, keys = (
            f"infra/cluster/values/{name}.yaml",
            {toleration["key"] for toleration in values.get("tolerations", [])},
        )
        if keys and keys != taints:
            allowed = f"must be {sorted(taints)}, the taints of GPU nodes"
            yield Problem(where, "tolerations", sorted(keys), allowed)
        if keys and values.get("nodeSelector", {}).get("nightshift/pool") == "general":
            yield Problem(where, "nodeSelector", "general", "must be another pool: general nodes have no GPUs")
