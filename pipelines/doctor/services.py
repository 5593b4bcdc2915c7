"""Services in the cluster: names, endpoints, Kubeflow's version, Airflow's health, the GPU metrics; and the clock."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from nightshift.cluster import MissingError
from nightshift.contracts.health import HealthCheck
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.telemetry import GATEWAY
from pipelines.doctor.findings import INSTALL, Checks, failure, judge, skip, success, unavailable
from pipelines.doctor.kubernetes import Kubernetes
from pipelines.environments import KUBEFLOW_INSIDE, Role, Site

HEALTH = "apis/v2beta1/healthz"
AIRFLOW = "http://airflow-api-server.airflow:8080"
GPU_METRICS = "http://dcgm-exporter.nvidia:9400"
# what dashboards and alerts ask for: infra/monitoring/dcgm-counters.csv
DCGM = (
    "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_XID_ERRORS",
)
KUBEFLOW_MAJOR = "2"
MAX_SKEW = timedelta(minutes=5)  # signatures of AWS's and Google's requests are refused beyond
# returns what a URL answers; raises MissingError, another UserError or UnavailableError
Fetch = Callable[[str], str]


def proxy_fetch(cluster: Kubernetes) -> Fetch:
    """Return how this machine asks a service of the cluster: through the Kubernetes API."""

    def fetch(url: str) -> str:
        parts = urlsplit(url)
        name, namespace = str(parts.hostname).split(".")[:2]
        return cluster.read_text(f"/api/v1/namespaces/{namespace}/services/{name}:{parts.port}/proxy{parts.path}")

    return fetch


def check_clock(cluster: Kubernetes, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Checks:
    """Check this machine's clock against the API server's."""
    skew = abs(now() - cluster.read_time())
    problems = [f"{skew.total_seconds():.0f} s from the Kubernetes API's"] if skew > MAX_SKEW else []
    fix = "set the clock: timedatectl set-ntp true"
    yield judge("clock", f"{skew.total_seconds():.0f} s off", problems, f"at most {MAX_SKEW.seconds} s", fix)


def check_endpoints(cluster: Kubernetes, site: Site) -> Checks:
    """Check that every service that steps call has a name, the port, and a ready pod behind it."""
    for url in list_services(site):
        yield _check_endpoint(cluster, url)


def check_names(site: Site, connect: Callable[[str, int], None]) -> Checks:
    """Check, in a pod, that every service that steps call resolves and takes connections.

    Args:
        site: the environment.
        connect: opens a connection to a host and port, and raises OSError.
    """
    for url in list_services(site):
        host, port = str(urlsplit(url).hostname), urlsplit(url).port or 80
        name = f"connection to {host}:{port}"
        try:
            connect(host, port)
        except OSError as error:
            fix = f"kubectl get pods,networkpolicies --namespace {host.split('.')[1]}; then {INSTALL}"
            yield failure(name, str(error), "a connection", fix)
        else:
            yield success(name, "connected")


def check_kubeflow(fetch: Fetch, url: str = KUBEFLOW_INSIDE) -> Checks:
    """Check that Kubeflow's API answers, and its version."""
    name, health = "Kubeflow Pipelines", f"{url.rstrip('/')}/{HEALTH}"
    try:
        version = str(json.loads(fetch(health)).get("tag_name") or "")
    except MissingError:
        yield failure(name, f"{health} does not exist", "an answer", INSTALL)
    except UnavailableError as error:
        yield unavailable(name, str(error), "kubectl get pods --namespace kubeflow")
    except ValueError as error:  # also what the server refuses
        yield failure(name, str(error), "an answer in JSON", "give the API's URL in KFP_ENDPOINT, not a login page's")
    else:
        problems = [f"version {version}"] if version and version.lstrip("v").split(".")[0] != KUBEFLOW_MAJOR else []
        yield judge(name, f"version {version or 'not named'}", problems, "2.x", f"{INSTALL} (pipelines in charts.yaml)")


def check_airflow(fetch: Fetch, url: str = AIRFLOW) -> Checks:
    """Check that Airflow's parts are healthy, where it is installed."""
    name = "Airflow"
    try:
        states = json.loads(fetch(f"{url}/api/v2/monitor/health"))
    except MissingError:
        yield skip(name, f"there is no service {url}: Airflow does not run here")
        return
    except (UnavailableError, UserError) as error:
        yield unavailable(name, str(error), "kubectl get pods --namespace airflow")
        return
    parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
    problems = [f"{part} is {status}" for part in parts if (status := _status(states, part)) != "healthy"]
    fix = f"kubectl logs --namespace airflow --selector component=<part>, such as scheduler; then {INSTALL}"
    yield judge(name, "healthy", problems, "healthy", fix)


def check_gpu_metrics(fetch: Fetch, url: str = GPU_METRICS) -> Checks:
    """Check that the GPU exporter has every metric of dashboards and alerts."""
    name = "GPU metrics"
    try:
        text = fetch(f"{url}/metrics")
    except MissingError:
        yield skip(name, "no service dcgm-exporter in nvidia; GKE runs its own in gke-managed-system")
        return
    except (UnavailableError, UserError) as error:
        yield skip(name, f"no exporter answers, as when no GPU node is up: {error}")
        return
    metrics = set(re.findall(r"^(DCGM_\w+)", text, re.MULTILINE))
    problems = [f"{metric} is missing" for metric in DCGM if metric not in metrics]
    fix = f"infra/monitoring/dcgm-counters.csv as the exporter's --collectors, then {INSTALL}"
    yield judge(name, f"{len(DCGM)} metrics", problems, "all of infra/monitoring/dcgm-counters.csv", fix)


def list_services(site: Site) -> list[str]:
    """Return the URLs inside the cluster that steps call."""
    kubeflow = [KUBEFLOW_INSIDE] if site.has_kubeflow else []
    urls = [site.parameters["state"]["registry"], site.placements[Role.LIGHT].environment.get(GATEWAY, "")]
    return kubeflow + [url for url in urls if url.startswith("http")]


def _check_endpoint(cluster: Kubernetes, url: str) -> HealthCheck:
    parts = urlsplit(url)
    service, namespace = str(parts.hostname).split(".")[:2]
    name, path = f"service {namespace}/{service}", f"/api/v1/namespaces/{namespace}"
    try:
        ports = [port["port"] for port in cluster.get(f"{path}/services/{service}")["spec"].get("ports", [])]
    except MissingError:
        return failure(name, "missing, so its name does not resolve", f"present, with port {parts.port}", INSTALL)
    if parts.port not in ports:
        seen = f"ports {', '.join(map(str, ports)) or 'none'}"
        return failure(name, seen, f"port {parts.port}", f"correct state.registry or the service, then {INSTALL}")
    if not _count_ready(cluster, f"{path}/endpoints/{service}"):
        return unavailable(name, "no ready pod behind it", f"kubectl get pods,events --namespace {namespace}")
    return success(name, f"port {parts.port}, ready")


def _count_ready(cluster: Kubernetes, path: str) -> int:
    try:
        subsets = cluster.get(path).get("subsets") or []
    except MissingError:
        return 0
    return sum(len(subset.get("addresses") or []) for subset in subsets)


def _status(states: dict[str, dict[str, str]], part: str) -> str:
    return str(states.get(part, {}).get("status"))
