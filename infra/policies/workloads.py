"""Pods: probes, disruption budgets, priorities, selectors, quotas."""

import itertools
import re
from collections.abc import Iterator, Mapping

from infra.policies import quantities
from infra.policies.model import Environment, Json, Problem, blocks, label, policy, table

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_LABELS = "infra/policies/tables/kubernetes.yaml, labels"


def pods(environment: Environment) -> Iterator[tuple[Json, Json]]:
    """Yield each workload with its pod's template."""
    for value in environment.of_kind("Deployment", "StatefulSet", "DaemonSet", "Job"):
        template = value["spec"]["template"]
        yield value, template | {"metadata": {"labels": {}} | template.get("metadata", {})}


def containers(environment: Environment) -> Iterator[tuple[str, Json]]:
    """Yield each container with what a finding calls it."""
    for value, template in pods(environment):
        for container in template["spec"]["containers"]:
            yield f"{label(value)} {container['name']}", container


@policy("https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/")
def probes_ask_ports_that_are_open(environment: Environment) -> Iterator[Problem]:
    """A probe of a port without a listener never succeeds."""
    for where, container in containers(environment):
        ports = {value for port in container.get("ports", []) for value in (port.get("name"), port["containerPort"])}
        for probe in _PROBES:
            for way in ("tcpSocket", "httpGet", "grpc"):
                port = container.get(probe, {}).get(way, {}).get("port")
                if port is not None and port not in ports:
                    allowed = f"the container listens at {', '.join(sorted(map(str, ports - {None})))}"
                    yield Problem(where, f"{probe}.{way}.port", port, allowed)
        for number in re.findall(r"--port[= ](\d+)", " ".join(container.get("command", []))):
            if int(number) not in ports:
                yield Problem(
                    where, "command --port", number, f"its ports are {', '.join(sorted(map(str, ports - {None})))}"
                )


@policy("infra/policies/tables/kubernetes.yaml, listens")
def containers_declare_the_port_of_their_program(environment: Environment) -> Iterator[Problem]:
    """A declared port without a listener is unreachable for services and monitors."""
    for where, container in containers(environment):
        program = " ".join(container.get("command", [])) or container.get("image", "").rpartition("/")[2]
        ports = [port["containerPort"] for port in container.get("ports", [])]
        for name, port in table("kubernetes")["listens"].items():
            if program.startswith(name) and ports and port not in ports:
                yield Problem(where, "ports.containerPort", ports, f"{name} listens at {port}")


@policy("https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/")
def probes_end_before_the_next_and_leave_time_to_start(environment: Environment) -> Iterator[Problem]:
    """A probe lasts no longer than its period, and a startup probe allows five minutes to a process that has one."""
    described = [*containers(environment)]
    described += [(f"infra/cluster/values/{name}.yaml", values) for name, values in environment.values.items()]
    for where, content in described:
        for path, probe in blocks(content, *_PROBES):
            lasts, period = probe.get("timeoutSeconds", 1), probe.get("periodSeconds", 10)
            # a startup probe that is slower than its period is asked again right away, and may be
            if lasts > period and "startupProbe" not in path:
                yield Problem(where, f"{path}.timeoutSeconds", lasts, f"it is periodSeconds, {period}, or less")
            window = period * probe.get("failureThreshold", 3) + probe.get("initialDelaySeconds", 0)
            if "startupProbe" in path and window < 300:
                yield Problem(
                    where,
                    f"{path}.failureThreshold",
                    probe.get("failureThreshold"),
                    f"{window} s are too short to start in: 300 or more",
                )
            if window > 3600:
                yield Problem(
                    where,
                    f"{path}.periodSeconds",
                    period,
                    f"a process that hangs is noticed after {window} s: 3600 or less",
                )


@policy("https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/")
def requests_are_within_limits(environment: Environment) -> Iterator[Problem]:
    """Kubernetes rejects a pod whose request exceeds its limit, and evicts one whose request is far below it first."""
    for value in environment.objects:
        for path, block in blocks(value, "resources"):
            for name, read in (("memory", quantities.size), ("cpu", quantities.cores)):
                request, limit = (block.get(part, {}).get(name) for part in ("requests", "limits"))
                if request and limit and read(request) > read(limit):
                    yield Problem(label(value), f"{path}.limits.{name}", limit, f"requests are {request}: that or more")


@policy("https://kubernetes.io/docs/tasks/run-application/configure-pdb/")
def budgets_let_nodes_be_drained(environment: Environment) -> Iterator[Problem]:
    """A budget leaves a replica to evict, unless its pods are steps: none may go, and nobody counts them."""
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
        chosen = [count for labels, count in replicas.items() if chooses(spec["selector"], dict(labels))]
        if str(spec.get("maxUnavailable", 1)) in ("0", "0%"):
            yield Problem(where, "maxUnavailable", spec["maxUnavailable"], "1 or more: at 0 no node is ever drained")
        least = spec.get("minAvailable")
        if least is not None and (str(least).endswith("%") or (chosen and least >= min(chosen))):
            allowed = f"it is less than the replicas, {chosen or 'which nobody counts'}"
            yield Problem(where, "minAvailable", least, allowed)
        elif least is not None and not chosen and least <= 10 * cores:
            allowed = f"more than any count of steps, {10 * cores:g}: fewer let running ones be evicted"
            yield Problem(where, "minAvailable", least, allowed)


def chooses(selector: Json, labels: Mapping[str, str]) -> bool:
    """Say whether a selector of labels chooses a pod."""
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
def selectors_choose_pods(environment: Environment) -> Iterator[Problem]:
    """A policy, budget, service or monitor with labels that no pod bears does nothing, and says nothing."""
    labels = [
        template["metadata"]["labels"] for _, template in pods(environment) if "labels" in template.get("metadata", {})
    ]
    services = [service["metadata"].get("labels", {}) for service in environment.of_kind("Service")]
    known = [{row: "true"} if isinstance(row, str) else row for row in table("kubernetes")["labels"]]
    for value in environment.of_kind("NetworkPolicy", "PodDisruptionBudget", "PodMonitor", "Service", "ServiceMonitor"):
        spec = value["spec"]
        selector = spec.get("podSelector", spec.get("selector")) or {}
        selector = {"matchLabels": selector} if value["kind"] == "Service" else selector
        borne = services if value["kind"] == "ServiceMonitor" else [*labels, *known]
        if selector and not any(chooses(selector, labels_of_pod) for labels_of_pod in borne):
            allowed = f"no pod or service bears them; if one does, say so in {_LABELS}"
            yield Problem(label(value), "selector", selector, allowed)


@policy("https://kubernetes.io/docs/concepts/services-networking/service/#defining-a-service")
def services_lead_to_ports_that_are_open(environment: Environment) -> Iterator[Problem]:
    """A service's target is a port of the pods behind it."""
    for service in environment.of_kind("Service"):
        for value, template in pods(environment):
            same = value["metadata"].get("namespace") == service["metadata"].get("namespace")
            if same and (service["spec"].get("selector") or {"": ""}).items() <= template["metadata"]["labels"].items():
                open_ports = {
                    number
                    for container in template["spec"]["containers"]
                    for port in container.get("ports", [])
                    for number in (port.get("name"), port["containerPort"])
                }
                for port in service["spec"]["ports"]:
                    target = port.get("targetPort", port["port"])
                    if target not in open_ports:
                        yield Problem(
                            label(service), "ports.targetPort", target, f"{label(value)} listens at {open_ports}"
                        )


@policy("https://prometheus-operator.dev/docs/developer/getting-started/")
def monitors_name_ports_of_services(environment: Environment) -> Iterator[Problem]:
    """A monitor's endpoint is a port of a service, by its name; another is never scraped."""
    for monitor in environment.of_kind("ServiceMonitor"):
        names = {
            port.get("name")
            for service in environment.of_kind("Service")
            for port in service["spec"]["ports"]
            if chooses(monitor["spec"]["selector"], service["metadata"].get("labels", {}))
        }
        for endpoint in monitor["spec"]["endpoints"]:
            if names and endpoint.get("port") not in names:
                yield Problem(label(monitor), "endpoints.port", endpoint.get("port"), f"the service has {names}")


@policy("https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config")
def a_scrape_ends_before_the_next(environment: Environment) -> Iterator[Problem]:
    """The operator refuses a monitor whose timeout is longer than its interval."""
    for monitor in environment.of_kind("ServiceMonitor", "PodMonitor"):
        for endpoint in monitor["spec"].get("endpoints", monitor["spec"].get("podMetricsEndpoints", [])):
            interval, limit = endpoint.get("interval", "30s"), endpoint.get("scrapeTimeout", "10s")
            if quantities.seconds(limit) > quantities.seconds(interval):
                yield Problem(label(monitor), "scrapeTimeout", limit, f"it is the interval, {interval}, or less")
            if "path" in endpoint and not endpoint["path"].startswith("/"):
                yield Problem(label(monitor), "path", endpoint["path"], "it begins with /")


@policy("https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/")
def priorities_are_ours_to_give(environment: Environment) -> Iterator[Problem]:
    """A class has no reserved name or value, one is the default, and serving comes before platform before training."""
    limits, ranks = table("kubernetes")["priorities"], table("kubernetes")["ranks"]
    classes = _classes(environment)
    for name, value in classes.items():
        if re.fullmatch(limits["reserved"], name):
            yield Problem(label(value), "metadata.name", name, f"names like {limits['reserved']} are the cluster's own")
        if not limits["from"] <= value["value"] < limits["to"]:
            allowed = f"from {limits['from']}, below which no node is added, to less than {limits['to']}"
            yield Problem(label(value), "value", value["value"], allowed)
    for first, second in itertools.pairwise(ranks):
        if classes and not {first, second} <= classes.keys():
            yield Problem("PriorityClass", "metadata.name", sorted(classes), f"{first} and {second} are among them")
        elif classes and classes[first]["value"] <= classes[second]["value"]:
            allowed = f"it is above {second}, {classes[second]['value']}"
            yield Problem(f"PriorityClass/{first}", "value", classes[first]["value"], allowed)


@policy("https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/")
def trainings_are_the_default_and_take_nobodys_place(environment: Environment) -> Iterator[Problem]:
    """Kubeflow gives a step no class of its own: the default is training's, and never preempts."""
    classes, ranks = _classes(environment), table("kubernetes")["ranks"]
    default = [name for name, value in classes.items() if value.get("globalDefault")]
    if classes and default != ranks[-1:]:
        yield Problem("PriorityClass", "globalDefault", default, f"it is {ranks[-1]}, and no other")
    trainings = classes.get(ranks[-1], {})
    if trainings and trainings.get("preemptionPolicy") != "Never":
        allowed = "Never: a step takes nobody's place"
        yield Problem(label(trainings), "preemptionPolicy", trainings.get("preemptionPolicy"), allowed)


@policy("https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/")
def steps_are_queued_before_trainings(environment: Environment) -> Iterator[Problem]:
    """What takes minutes does not wait for what takes hours."""
    classes = {value["metadata"]["name"]: value["value"] for value in environment.of_kind("WorkloadPriorityClass")}
    for first, second in itertools.pairwise(table("kubernetes")["queue_ranks"]):
        if classes and classes.get(first, 0) <= classes.get(second, 0):
            yield Problem(f"WorkloadPriorityClass/{first}", "value", classes.get(first), f"it is above {second}'s")


def _classes(environment: Environment) -> dict[str, Json]:
    return {value["metadata"]["name"]: value for value in environment.of_kind("PriorityClass")}


@policy("https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/")
def pods_name_priorities_that_are_there(environment: Environment) -> Iterator[Problem]:
    """A pod of a class that is not there is refused, and so is one of the system's outside of its namespace."""
    classes = {value["metadata"]["name"] for value in environment.of_kind("PriorityClass")}
    described = [(label(value), value) for value in environment.objects]
    described += [(f"infra/cluster/values/{name}.yaml", values) for name, values in environment.values.items()]
    for where, content in described:
        for path, block in blocks(content):
            name = block.get("priorityClassName")
            if classes and name and name not in classes and not where.startswith("kube-system/"):
                yield Problem(where, f"{path}.priorityClassName", name, f"there are {', '.join(sorted(classes))}")


@policy("infra/cluster/values/airflow.yaml")
def airflow_starts_as_many_as_the_quota_admits(environment: Environment) -> Iterator[Problem]:
    """The pool `gpu` has as many slots as Kubeflow's namespace GPUs: more are refused there, fewer leave GPUs idle."""
    quotas = [
        quota["spec"]["hard"].get("requests.nvidia.com/gpu")
        for quota in environment.of_kind("ResourceQuota")
        if quota["metadata"].get("namespace") == "kubeflow"
    ]
    admitted = next((int(count) for count in quotas if count is not None), None)
    job = environment.values.get("airflow", {}).get("migrateDatabaseJob", {})
    for slots in re.findall(r"pools set gpu (\d+)", " ".join(job.get("args", []))):
        if admitted is not None and int(slots) != admitted:
            allowed = f"the quota of kubeflow has {admitted} GPUs"
            yield Problem("infra/cluster/values/airflow.yaml", "migrateDatabaseJob.args", int(slots), allowed)


@policy("infra/policies/tables/kubernetes.yaml, identity")
def pods_reach_the_address_that_says_who_they_are(environment: Environment) -> Iterator[Problem]:
    """Policies name the addresses of metadata servers and the ports at which they answer, and DNS by both protocols."""
    known = table("kubernetes")["identity"]
    for value in environment.of_kind("NetworkPolicy"):
        for rule in value["spec"].get("egress") or ():
            ports = {(port.get("protocol", "TCP"), port["port"]) for port in rule.get("ports", [])}
            for block in (peer["ipBlock"]["cidr"] for peer in rule.get("to", []) if "ipBlock" in peer):
                row = known.get(block)
                if row is None and block.startswith("169.254."):
                    yield Problem(label(value), "egress.to.ipBlock.cidr", block, f"it is one of {', '.join(known)}")
                elif row and ("TCP", row["ports"][-1]) not in ports:
                    yield Problem(
                        label(value),
                        "egress.ports",
                        sorted(ports),
                        f"{block} answers at {row['ports']} ({row['source']})",
                    )
            if any(number == 53 for _, number in ports) and not {("UDP", 53), ("TCP", 53)} <= ports:
                yield Problem(label(value), "egress.ports", sorted(ports), "names are asked for by UDP and TCP at 53")


@policy("infra/policies/tables/kubernetes.yaml, open_ports")
def policies_open_ports_at_which_somebody_listens(environment: Environment) -> Iterator[Problem]:
    """A port at which nobody listens is that of another, and the right one stays closed."""
    listening = _listening(environment)
    for value in environment.of_kind("NetworkPolicy"):
        for way, name, port in _opened(value):
            if name in listening and port not in listening[name]:
                allowed = f"pods of {name} listen at {', '.join(map(str, sorted(listening[name])))}"
                yield Problem(label(value), f"{way}.ports to {name}", port, allowed)


def _listening(environment: Environment) -> dict[str, set[int]]:
    """Return the ports at which pods listen, by namespace."""
    listening = {name: {*ports} for name, ports in table("kubernetes")["open_ports"].items()}
    for value, template in pods(environment):
        ports = {port["containerPort"] for part in template["spec"]["containers"] for port in part.get("ports", [])}
        listening.setdefault(value["metadata"].get("namespace", ""), set()).update(ports)
    return listening


def _opened(value: Json) -> Iterator[tuple[str, str, int]]:
    """Yield the ports that a policy opens, with the namespace of those who are called: its own, or a neighbor."""
    own = value["metadata"].get("namespace", "")
    for rule in value["spec"].get("ingress") or ():
        yield from (("ingress", own, port["port"]) for port in rule.get("ports", []))
    for rule in value["spec"].get("egress") or ():
        selectors = [peer["namespaceSelector"] for peer in rule.get("to", []) if "namespaceSelector" in peer]
        names = [selector.get("matchLabels", {}).get("kubernetes.io/metadata.name") for selector in selectors]
        for name, port in itertools.product(names, rule.get("ports", [])):
            yield "egress", name, port["port"]


@policy("https://kubernetes.io/docs/concepts/storage/volumes/#emptydir")
def volumes_in_memory_fit_into_the_limit(environment: Environment) -> Iterator[Problem]:
    """What is written to a volume in memory counts against the containers' limit, and ends the pod beyond it."""
    for value in environment.objects:
        for path, spec in blocks(value, "spec"):
            volumes = [volume.get("emptyDir") or {} for volume in spec.get("volumes", [])]
            limits = [part.get("resources", {}).get("limits", {}).get("memory") for part in spec.get("containers", [])]
            for size in (volume.get("sizeLimit") for volume in volumes if volume.get("medium") == "Memory"):
                if None not in limits and (not size or quantities.size(size) >= sum(map(quantities.size, limits))):
                    allowed = f"it is smaller than the memory of the containers, {' + '.join(limits)}"
                    yield Problem(label(value), f"{path}.volumes.emptyDir.sizeLimit", size, allowed)


@policy("https://keda.sh/docs/latest/reference/scaledobject-spec/")
def scaling_stays_within_its_bounds(environment: Environment) -> Iterator[Problem]:
    """A fallback lies between least and most replicas, and a threshold is of what the query counts."""
    for value in environment.of_kind("ScaledObject"):
        spec = value["spec"]
        least, most = spec.get("minReplicaCount", 0), spec.get("maxReplicaCount", 100)
        fallback = spec.get("fallback", {}).get("replicas", least)
        if not least <= fallback <= most:
            yield Problem(label(value), "fallback.replicas", fallback, f"it lies between {least} and {most}")
        if least > most or most < 1:
            yield Problem(label(value), "maxReplicaCount", most, f"it is minReplicaCount, {least}, or more")
        for trigger in spec["triggers"]:
            threshold = trigger["metadata"].get("threshold")
            if threshold is not None and not 1 <= float(threshold) <= 1000:
                yield Problem(
                    label(value), "triggers.threshold", threshold, "it is a number of requests that wait: 1 to 1000"
                )
        window = (
            spec.get("advanced", {})
            .get("horizontalPodAutoscalerConfig", {})
            .get("behavior", {})
            .get("scaleDown", {})
            .get("stabilizationWindowSeconds", 300)
        )
        if not 60 <= window <= 3600:
            yield Problem(
                label(value),
                "scaleDown.stabilizationWindowSeconds",
                window,
                "60 to 3600: a replica loads its weights for minutes",
            )


@policy("https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/")
def routes_lead_to_pools_that_are_there(environment: Environment) -> Iterator[Problem]:
    """A route names pools, their weights are shares of one sum, and a monitor asks the port that the pool serves."""
    pools = {value["metadata"]["name"]: value["spec"] for value in environment.of_kind("InferencePool")}
    for route in environment.of_kind("HTTPRoute"):
        for backend in (backend for rule in route["spec"]["rules"] for backend in rule["backendRefs"]):
            if backend.get("kind") == "InferencePool" and backend["name"] not in pools:
                yield Problem(label(route), "backendRefs.name", backend["name"], f"there are {', '.join(pools)}")
        for rule in route["spec"]["rules"]:
            total = sum(backend.get("weight", 1) for backend in rule["backendRefs"])
            if total not in (100, 1000, 10000, len(rule["backendRefs"])):
                yield Problem(label(route), "backendRefs.weight", total, "weights are shares of 10000 together")


@policy("https://gateway-api-inference-extension.sigs.k8s.io/api-types/inferencepool/")
def a_pool_has_its_own_pods_and_picker(environment: Environment) -> Iterator[Problem]:
    """Pods and picker of a pool bear its name: with a neighbor's, weights mean nothing."""
    pools = {value["metadata"]["name"]: value["spec"] for value in environment.of_kind("InferencePool")}
    for name, spec in pools.items():
        if not spec["endpointPickerRef"]["name"].startswith(f"{name}-"):
            yield Problem(
                f"InferencePool/{name}",
                "endpointPickerRef.name",
                spec["endpointPickerRef"]["name"],
                f"the picker of {name} is {name}-epp",
            )
        if spec["selector"]["matchLabels"].get("app") != name:
            yield Problem(
                f"InferencePool/{name}",
                "selector.app",
                spec["selector"]["matchLabels"],
                f"the pods of {name} bear app: {name}",
            )


@policy("https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/")
def queues_lead_to_flavors_that_are_there(environment: Environment) -> Iterator[Problem]:
    """A local queue names a cluster queue, and that one flavors with a quota of what it covers."""
    queues = {value["metadata"]["name"] for value in environment.of_kind("ClusterQueue")}
    flavors = {value["metadata"]["name"] for value in environment.of_kind("ResourceFlavor")}
    for local in environment.of_kind("LocalQueue"):
        if local["spec"]["clusterQueue"] not in queues:
            yield Problem(label(local), "clusterQueue", local["spec"]["clusterQueue"], f"there is {sorted(queues)}")
    for queue in environment.of_kind("ClusterQueue"):
        groups = queue["spec"]["resourceGroups"]
        for wanted, flavor in [(group["coveredResources"], flavor) for group in groups for flavor in group["flavors"]]:
            covered = {resource["name"] for resource in flavor["resources"]}
            if flavor["name"] not in flavors:
                yield Problem(label(queue), "flavors.name", flavor["name"], f"there is {sorted(flavors)}")
            if covered != {*wanted}:
                yield Problem(label(queue), "coveredResources", wanted, f"quotas are of {covered}")


@policy("https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/expander/priority/readme.md")
def spot_comes_before_all_others(environment: Environment) -> Iterator[Problem]:
    """The highest priority of the autoscaler is that of groups with spot in their names."""
    priorities = environment.values.get("cluster-autoscaler", {}).get("expanderPriorities", {})
    first = priorities.get(max(priorities, default=0), [])
    if priorities and not any("spot" in pattern for pattern in first):
        where = "infra/cluster/values/cluster-autoscaler.yaml"
        yield Problem(where, "expanderPriorities", priorities, "the largest number is the one of .*spot.*")


@policy("infra/cluster/values")
def what_watches_gpus_tolerates_their_taints(environment: Environment) -> Iterator[Problem]:
    """What runs on GPU nodes tolerates every taint that a pool may have, or leaves some of them alone."""
    wanted = {"nvidia.com/gpu", "nightshift/spot"}
    for name, values in environment.values.items():
        keys = {toleration["key"] for toleration in values.get("tolerations", [])}
        if keys and keys != wanted:
            yield Problem(
                f"infra/cluster/values/{name}.yaml", "tolerations", sorted(keys), f"{sorted(wanted)} are on GPU nodes"
            )
        if keys and values.get("nodeSelector", {}).get("nightshift/pool") == "general":
            yield Problem(f"infra/cluster/values/{name}.yaml", "nodeSelector", "general", "GPUs are on the other nodes")
