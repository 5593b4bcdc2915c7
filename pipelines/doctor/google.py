"""Quotas of Google Cloud: GPUs, CPUs, disks and addresses of a region, and of the project (Compute Engine API)."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from nightshift.runtime.errors import UserError, require_extra
from pipelines.doctor import web
from pipelines.doctor.kubernetes import Json
from pipelines.doctor.quotas import QuotaDemand, QuotaDemands, QuotaKey, QuotaLimit

URL = "https://compute.googleapis.com/compute/v1"
SCOPE = "https://www.googleapis.com/auth/compute.readonly"
POOL, NAT = "google_container_node_pool", "google_compute_router_nat"
# accelerator -> the middle of its metric, where that is not its name
MODELS = {"nvidia-h100-80gb": "H100", "nvidia-h200-141gb": "H200"}
SHARED_CPUS = ("e2", "n1")  # machine families that share the metric CPUS; others have their own
SSDS = ("pd-balanced", "pd-ssd")


class GoogleQuotas:
    """The quotas of a project and one of its regions."""

    def __init__(self, project: str, region: str, fetch: Callable[[str], str], url: str = URL) -> None:
        """Makes no calls.

        Args:
            project: its id.
            region: such as `europe-west4`.
            fetch: returns what a URL answers to the user.
            url: of the Compute Engine API.
        """
        self._region, self._fetch = region, fetch
        self._project = f"{url}/projects/{project}"

    def find(self, key: QuotaKey) -> QuotaLimit | None:
        """See `Quotas`."""
        value = self._limits[key.scope].get(key.name)
        scope = f"in {key.scope}" if key.scope else "of the project"
        fix = f"ask for {{amount}} of {key.name} {scope}: console, IAM & Admin, Quotas & System Limits"
        return None if value is None else QuotaLimit(f"{key.name} {scope}", value, fix)

    def demand(self, resources: Sequence[Json]) -> Mapping[QuotaKey, QuotaDemand]:
        """See `Quotas`: node pools at their largest, with their disks, and an address of each NAT."""
        demands = QuotaDemands()
        for resource in resources:
            if resource["type"] == POOL:
                self._add_pool(demands, resource)
            if resource["type"] == NAT:
                demands.add(QuotaKey(self._region, "IN_USE_ADDRESSES", "addresses"), 1, resource["address"])
        return demands

    @cached_property
    def _limits(self) -> dict[str, dict[str, float]]:
        """Region, or empty for the project -> metric -> limit."""
        documents = {"": self._project, self._region: f"{self._project}/regions/{self._region}"}
        return {
            scope: {entry["metric"]: float(entry["limit"]) for entry in json.loads(self._fetch(url)).get("quotas", [])}
            for scope, url in documents.items()
        }

    def _add_pool(self, demands: QuotaDemands, pool: Json) -> None:
        node, name = pool["values"]["node_config"][0], pool["address"]
        size = pool["values"]["autoscaling"][0]["total_max_node_count"] or 0
        for accelerator in node["guest_accelerator"] or []:
            gpus = size * accelerator["count"]
            demands.add(QuotaKey(self._region, _gpu_metric(accelerator["type"], node), "GPUs"), gpus, name)
            demands.add(QuotaKey("", "GPUS_ALL_REGIONS", "GPUs"), gpus, name)
        family, _, count = node["machine_type"].partition("-")
        if not node["guest_accelerator"] and count.rpartition("-")[2].isdigit():
            metric = "CPUS" if family in SHARED_CPUS else f"{family.upper()}_CPUS"
            demands.add(QuotaKey(self._region, metric, "CPUs"), size * int(count.rpartition("-")[2]), name)
        if node["disk_type"] in SSDS:
            demands.add(QuotaKey(self._region, "SSD_TOTAL_GB", "GB"), size * node["disk_size_gb"], name)


def connect(project: str, region: str) -> GoogleQuotas:
    """Return the quotas of a project's region, with the user's credentials.

    Raises:
        UserError: when there are none.
    """
    with require_extra("doctor --cloud gcp", "gcp"):
        import google.auth
        from google.auth.exceptions import GoogleAuthError
        from google.auth.transport.requests import Request
    try:
        credentials, _ = google.auth.default(scopes=[SCOPE])
        credentials.refresh(Request())
    except GoogleAuthError as error:
        raise UserError(f"Google Cloud: {error}; log in with: gcloud auth application-default login") from None
    return GoogleQuotas(project, region, lambda url: web.fetch(url, f"Bearer {credentials.token}"))


def _gpu_metric(accelerator: str, node: Json) -> str:
    model = MODELS.get(accelerator, accelerator.removeprefix("nvidia-").removeprefix("tesla-").upper())
    prefix = "PREEMPTIBLE_" if node.get("spot") or node.get("flex_start") else ""
    return f"{prefix}NVIDIA_{model.replace('-', '_')}_GPUS"
