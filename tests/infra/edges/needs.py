"""Who has to call whom: read from compiled pipelines, manifests, charts, monitors and webhooks, not listed by hand."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from components.release.targets.kserve_raw import PORT
from infra.terraform import INFRA
from pipelines import arguments
from pipelines.environments import KUBEFLOW_INSIDE, SERVICE_ACCOUNT, Role, Site
from tests.infra.edges.model import Cluster, Json, Pod, Service
from tests.infra.edges.policy import ELSEWHERE, Rule, matches, rules, through

# as `pipelines/engines/airflow/operators/kubernetes.py` and Kubeflow label them
STEP = {"pipelines.kubeflow.org/v2_component": "true"}
DNS = Pod("kube-dns", "kube-system", {"k8s-app": "kube-dns"}, ports={"dns": 53, "metrics": 9153})
# where a pod learns which role of the cloud it has
IDENTITY = {"aws": [("169.254.170.23", 80)], "gcp": [("169.254.169.252", 988), ("169.254.169.254", 80)]}
# what Kubeflow's launcher, which starts a step in its pod, calls beside what the step does
LAUNCHER = "grpc://ml-pipeline.kubeflow:8887 grpc://metadata-grpc-service.kubeflow:8080 http://seaweedfs.kubeflow:9000"
# how KServe labels the pods of a use case's model and the service before them, which the release step asks
MODEL = {"serving.kserve.io/inferenceservice": "fraud", "app": "isvc.fraud-predictor"}
MODEL_URL = "http://fraud-predictor.nightshift:80"
_URL = re.compile(
    r"(?P<scheme>\w+://(?:[^\s\"'@/]*@)?)?\b(?P<host>[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*):(?P<port>\d{2,5})\b"
)
_PAIR = re.compile(r'"(\w+)_HOST=([a-z0-9.-]+)".*?"\1_PORT=(\d+)"')
_SECRET = re.compile(r'^ *secret (\w+) ([\w-]+) <<< "(.*?)"$', re.MULTILINE | re.DOTALL)
# the facts of Airflow's chart name the variable and not the secret it is taken from
_AIRFLOWS = "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"
_ACCOUNT = re.compile(r'namespace\s*=\s*"([\w-]+)",\s*account\s*=\s*"([\w-]+)"')


@dataclass(frozen=True)
class Need:
    """A call that has to go through.

    Attributes:
        client: who calls, or `ELSEWHERE` for the API server.
        server: a service as `namespace/name`, or an address.
        port: it asks for.
        why: what it is read from.
        protocol: of the port.
    """

    client: Pod | str
    server: str
    port: int | str
    why: str
    protocol: str = "TCP"


def started(site: Site) -> list[Pod]:
    """Return the pods that no manifest names: of steps, of Airflow's tasks, of served models, of the operators."""
    text = "".join(str(arguments.load_compiled(name, site.name).documents) for name in arguments.list_shipped())
    light = dict(site.placements[Role.LAUNCHER].labels)
    says = f"{text} {KUBEFLOW_INSIDE} {LAUNCHER} {MODEL_URL}"
    return [
        Pod("steps", "kubeflow", STEP | light, SERVICE_ACCOUNT, says=says),
        *(Pod(account, "kubeflow", STEP, account, says=says) for account in accounts(site)),
        # the KubernetesExecutor's pod; on Kubeflow's engine a task asks its API for a run
        Pod(
            "airflow-task",
            "airflow",
            {"tier": "airflow", "component": "worker", "release": "airflow"},
            "airflow-worker",
            says=f"{KUBEFLOW_INSIDE} http://airflow-api-server:8080 {_AIRFLOWS}",
        ),
        Pod("model", "nightshift", MODEL, "serving", {"http": PORT}),
        Pod(
            "prometheus",
            "monitoring",
            {"app.kubernetes.io/name": "prometheus", "operator.prometheus.io/name": "kube-prometheus-stack-prometheus"},
            "kube-prometheus-stack-prometheus",
            {"http-web": 9090, "reloader-web": 8080},
            "http://kube-prometheus-stack-alertmanager:9093",
        ),
        Pod(
            "alertmanager",
            "monitoring",
            {"app.kubernetes.io/name": "alertmanager", "alertmanager": "kube-prometheus-stack-alertmanager"},
            "kube-prometheus-stack-alertmanager",
            {"http-web": 9093, "reloader-web": 8080},
        ),
        DNS,
    ]


def accounts(site: Site) -> list[str]:
    """Return the accounts of steps that ask something of Kubernetes."""
    placements = [*site.placements.values(), *site.with_trainjobs().placements.values()]
    return sorted({placement.account for placement in placements if placement.account})


def exposed() -> Json:
    """Return the service that KServe makes of an InferenceService, as manifests have it."""
    ports = [{"port": 80, "targetPort": PORT}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "fraud-predictor", "namespace": "nightshift"},
        "spec": {"selector": {"app": MODEL["app"]}, "ports": ports},
    }


def needs(cluster: Cluster, cloud: str) -> list[Need]:
    """Return every call, each once."""
    calls = [*_urls(cluster), *_databases(cluster), *_monitors(cluster), *_webhooks(cluster), *_cloud(cluster, cloud)]
    calls += [*_api(cluster), *_made_later(cluster)]
    calls += [
        Need(pod, "kube-system/dns", 53, "names", protocol) for pod in _callers(calls) for protocol in ("UDP", "TCP")
    ]
    return list({(str(call.client), call.server, call.port, call.protocol): call for call in calls}.values())


def _callers(calls: list[Need]) -> list[Pod]:
    return list({str(call.client): call.client for call in calls if isinstance(call.client, Pod)}.values())


def _urls(cluster: Cluster) -> Iterator[Need]:
    """Return what a workload is told to call: URLs, and hosts with ports."""
    for pod in cluster.pods:
        for match in _URL.finditer(pod.says):
            if server := _named(cluster, match["host"], pod, sure=bool(match["scheme"])):
                yield Need(pod, server, int(match["port"]), "its settings")
        for _, host, port in _PAIR.findall(pod.says):
            yield Need(pod, _named(cluster, host, pod, sure=True), int(port), "its settings")


def _named(cluster: Cluster, host: str, pod: Pod, *, sure: bool) -> str:
    """Return a service as `namespace/name`, or nothing where a text names none."""
    name, namespace, *_ = *host.split("."), pod.namespace
    known = namespace in {fact["name"] for fact in cluster.of_kind("Namespace")}
    service = cluster.service(namespace, name)
    own = service is not None and pod in cluster.behind(service)
    written = service or (sure and known and name != "localhost")
    return f"{namespace}/{name}" if written and not own else ""


def _databases(cluster: Cluster) -> Iterator[Need]:
    """Return what the secrets that are made for a cluster name, for who is given them."""
    script = (INFRA / "cluster" / "secrets.sh").read_text()
    for namespace, secret, content in _SECRET.findall(script):
        for match in _URL.finditer(content):
            for pod in cluster.pods:
                if pod.namespace == namespace and (f'"{secret}"' in pod.says or _AIRFLOWS in pod.says):
                    yield Need(pod, f"{namespace}/{match['host']}", int(match["port"]), f"the secret {secret}")


def _monitors(cluster: Cluster) -> Iterator[Need]:
    prometheus = next(pod for pod in cluster.pods if pod.name == "prometheus")
    for monitor in cluster.of_kind("ServiceMonitor"):
        chosen = [service for service in cluster.services if _chooses(monitor, service.namespace, service.labels)]
        for service in chosen:
            for endpoint in monitor["spec"]["endpoints"]:
                if any(port.get("name") == endpoint["port"] for port in service.ports):
                    yield Need(prometheus, f"{service.namespace}/{service.name}", endpoint["port"], "a monitor")
        if not chosen and "metadata" in monitor:
            yield Need(prometheus, f"{monitor['namespace']}/{monitor['name']}", 0, "a monitor")


def _chooses(monitor: Json, namespace: str, labels: object) -> bool:
    spaces = monitor["spec"].get("namespaceSelector", {})
    there = spaces.get("any") or namespace in spaces.get("matchNames", [monitor["namespace"]])
    return bool(there) and matches(monitor["spec"]["selector"], dict(labels))


def _webhooks(cluster: Cluster) -> Iterator[Need]:
    for configuration in cluster.of_kind("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for webhook in configuration["webhooks"]:
            service = webhook["service"]
            yield Need(ELSEWHERE, f"{service['namespace']}/{service['name']}", service.get("port", 443), "a webhook")


def _made_later(cluster: Cluster) -> Iterator[Need]:
    """Return what no manifest holds: the webhook that Kubeflow's cache deployer makes, and where alerts are mailed."""
    if cluster.service("kubeflow", "cache-server"):
        yield Need(ELSEWHERE, "kubeflow/cache-server", 443, "a webhook")
    for pod in (pod for pod in cluster.pods if pod.name == "airflow-task"):
        yield from (Need(pod, ELSEWHERE, port, "a user's connection for alerts") for port in (465, 587))


def identities(cloud: str) -> set[tuple[str, str]]:
    """Return the accounts, with their namespaces, that Terraform gives a role of the cloud."""
    texts = [path.read_text() for path in sorted((INFRA / cloud).rglob("main.tf"))]
    return {account for text in texts for account in _ACCOUNT.findall(text)}


def _cloud(cluster: Cluster, cloud: str) -> Iterator[Need]:
    for pod in cluster.pods:
        if (pod.namespace, pod.account) in identities(cloud):
            yield from (Need(pod, address, port, "its role in the cloud") for address, port in IDENTITY[cloud])
            yield Need(pod, ELSEWHERE, 443, "its role in the cloud")


def _api(cluster: Cluster) -> Iterator[Need]:
    """Return who asks the Kubernetes API: whose account is given a role."""
    bound = {
        (subject.get("namespace", binding["namespace"]), subject["name"])
        for binding in cluster.of_kind("RoleBinding", "ClusterRoleBinding")
        for subject in binding.get("subjects", [])
        if subject["kind"] == "ServiceAccount"
    }
    # the exporter's role is one that Kubeflow's API looks at
    for pod in cluster.pods:
        if (pod.namespace, pod.account) in bound and pod.name != "nightshift-exporter":
            yield Need(pod, ELSEWHERE, 443, "the Kubernetes API")


def broken(cluster: Cluster, need: Need) -> list[str]:
    """Say what keeps a call from going through."""
    try:
        ends = _ends(cluster, need)
    except LookupError as error:
        return [str(error.args[0])]
    return [
        f"{direction} to {server} at {port} is closed"
        for server, port in ends
        for direction, let in through(cluster, need.client, server, port, need.protocol).items()
        if not let
    ]


def _ends(cluster: Cluster, need: Need) -> list[tuple[Pod | str, int]]:
    """Return where a call ends: pods, or an address, each with its port there.

    Raises:
        LookupError: when it ends nowhere.
    """
    if re.fullmatch(r"[\d.]+", need.server):
        return [(need.server, int(need.port))]
    if need.server == "kube-system/dns":
        return [(DNS, int(need.port))]
    service = cluster.service(*need.server.split("/"))
    if service is None:
        raise LookupError(f"there is no service {need.server}")
    port = next((entry for entry in service.ports if need.port in (entry["port"], entry.get("name"))), None)
    if port is None:
        raise LookupError(f"{need.server} has no port {need.port}")
    return _pods(cluster, service, port.get("targetPort", port["port"]))


def _pods(cluster: Cluster, service: Service, target: int | str) -> list[tuple[Pod | str, int]]:
    ends: list[tuple[Pod | str, int]] = []
    for pod in cluster.behind(service):
        number = pod.ports.get(str(target), target)
        if isinstance(number, str) or (pod.ports and number not in pod.ports.values()):
            raise LookupError(f"{pod} does not listen at {target}")
        ends.append((pod, number))
    if not ends:
        raise LookupError(f"nobody is behind {service.namespace}/{service.name}")
    return ends


@dataclass(frozen=True)
class Call:
    """A call that a rule has let through."""

    need: Need
    server: Pod | str
    port: int


def unused(cluster: Cluster, cloud: str) -> list[str]:
    """Name what policies of ours let through and nobody needs: a rule, one of its namespaces, or one of its ports."""
    seen: dict[Rule, list[Call]] = {}
    for need in needs(cluster, cloud):
        for server, port in [] if broken(cluster, need) else _ends(cluster, need):
            for let in through(cluster, need.client, server, port, need.protocol).values():
                for rule in let:
                    seen.setdefault(rule, []).append(Call(need, server, port))
    return [opening for rule, written in rules(cluster) for opening in _unused(rule, written, seen.get(rule, []))]


def _unused(rule: Rule, written: Json, calls: list[Call]) -> Iterator[str]:
    if not calls:
        yield f"{rule}: {json.dumps(written)}"
        return
    peers = [call.need.client if rule.direction == "ingress" else call.server for call in calls]
    spaces = {peer.namespace for peer in peers if isinstance(peer, Pod)}
    called = {(call.need.protocol, call.port) for call in calls}
    named = re.findall(r'metadata\.name": "([\w-]+)"', json.dumps(written))
    listed = [value for text in re.findall(r'"values": (\[.*?\])', json.dumps(written)) for value in json.loads(text)]
    yield from (f"{rule}: the namespace {space}" for space in [*named, *listed] if space not in spaces)
    for port in written.get("ports", []):
        if isinstance(port["port"], int) and (port.get("protocol", "TCP"), port["port"]) not in called:
            yield f"{rule}: the port {port['port']} ({port.get('protocol', 'TCP')})"
