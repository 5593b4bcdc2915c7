"""Monthly costs of a Terraform plan: what it holds, times what that costs, idle and working."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from nightshift.costs.prices import read_machines

HOURS = 730.0
DAYS = HOURS / 24
POOL = "nightshift/pool"
EKS_POOL, GKE_POOL = "aws_eks_node_group", "google_container_node_pool"
LOCAL_SSD = 375.0


@dataclass(frozen=True)
class Use:
    """How a month is spent. The amounts are assumptions: put your own here.

    Attributes:
        nights: nights of trainings in the month, on one GPU node and one more general node each.
        hours: hours that a night holds them. In `nights` of docs/figures.json three use cases train within 16 minutes
            on two CPU cores; a node takes up to 10 to start, and goes when it was idle for 10.
        stored: GB in buckets.
        images: GB in container registries.
        scans: images pushed, each of which Google Cloud scans for vulnerabilities.
        moved: GB through NAT.
        logged: GB of logs taken in.
        samples: millions of samples that Google's managed Prometheus takes in: 1,200 series, one a minute.
        messages: millions of requests to Karpenter's queue, which it polls every 20 seconds.
    """

    nights: float = 0
    hours: float = 1
    stored: float = 100
    images: float = 50
    scans: float = 5
    moved: float = 10
    logged: float = 5
    samples: float = 53
    messages: float = 0.13


PROFILES = {
    "idle": Use(),
    "working": Use(nights=DAYS, stored=500, moved=100, logged=20),
}


@dataclass(frozen=True)
class Price:
    """What one unit of something costs.

    Attributes:
        usd: US dollars.
        per: the unit: hour, month, GB-month (a GB held for a month), GB (moved once), image, or million (of samples).
        date: day of the source, or the day it was looked up when the source has none.
        source: page that names the price.
    """

    usd: float
    per: str
    date: str = ""
    source: str = ""


@dataclass(frozen=True)
class Charge:
    """An amount of something that has a price.

    Attributes:
        group: line of the table it belongs to.
        price: its key in the price table.
        amount: units in a month.
        per: the unit.
    """

    group: str
    price: str
    amount: float
    per: str


@dataclass(frozen=True)
class MeteredResource:
    """What is charged by use, once for all resources of a type.

    Attributes:
        type: of the resources, as Terraform names it.
        group: line of the table it belongs to.
        price: its key in the price table.
        by: the attribute of `Use` that says how much.
        per: the unit.
    """

    type: str
    group: str
    price: str
    by: str
    per: str

    def charge(self, use: Use) -> Charge:
        """Return the charge of a month of a use."""
        return Charge(self.group, self.price, getattr(use, self.by), self.per)


@dataclass(frozen=True)
class MonthlyCost:
    """What a group costs a month: at least `usd`, and more by what the prices in `unknown` add."""

    usd: float
    unknown: frozenset[str]

    def __add__(self, other: "MonthlyCost") -> "MonthlyCost":
        return MonthlyCost(self.usd + other.usd, self.unknown | other.unknown)


NOTHING = MonthlyCost(0.0, frozenset())


@dataclass(frozen=True)
class PlannedResource:
    """A resource as it will be after the plan.

    Attributes:
        type: of the resource, as Terraform names it.
        address: of the resource in the plan.
        values: its arguments; those known only after apply are missing.
        zones: zones the plan spans.
    """

    type: str
    address: str
    values: Mapping[str, Any]
    zones: int

    @property
    def module(self) -> str:
        """Return the address of the module it is in."""
        return self.address.rpartition(f"{self.type}.")[0]

    def first(self, block: str) -> Mapping[str, Any]:
        """Return the first of a nested block, or an empty one."""
        blocks = self.values.get(block) or [{}]
        return blocks[0] or {}


@dataclass(frozen=True)
class Pool:
    """Nodes of one kind.

    Attributes:
        gpu: they carry GPUs.
        price: key of a node's price by the hour.
        minimum: nodes that always run.
        maximum: nodes that may run.
        spot: they may be taken away.
        disk: GB of a node's own disk.
        scratch: GB of a node's local disks, where they are charged beside the machine.
        addresses: public addresses of a node.
    """

    gpu: bool
    price: str
    minimum: int
    maximum: int
    spot: bool
    disk: float
    scratch: float = 0.0
    addresses: int = 0


def resources(plan: Mapping[str, Any]) -> list[PlannedResource]:
    """Return what a plan (`terraform show -json`) leaves standing, without data sources, in order of addresses."""
    zones = len(plan.get("variables", {}).get("zones", {}).get("value") or [None])
    # Terraform lists modules of one name in any order, and a training takes the first pool
    return sorted(_walk(plan["planned_values"].get("root_module", {}), zones), key=lambda resource: resource.address)


def changes(plan: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """Return how many resources of each type a plan would create, update or delete; a replacement counts as both."""
    counts: dict[str, Counter[str]] = {}
    for change in plan.get("resource_changes", []):
        actions = [action for action in change["change"]["actions"] if action in ("create", "update", "delete")]
        if actions:
            counts.setdefault(change["type"], Counter()).update(actions)
    return dict(sorted(counts.items()))


def charges(plan: Mapping[str, Any], use: Use) -> list[Charge]:
    """Return what a plan is charged for in a month of a use."""
    standing = resources(plan)
    charges = [charge for resource in standing if resource.type in RULES for charge in RULES[resource.type](resource)]
    types = {resource.type for resource in standing}
    charges += [metered.charge(use) for metered in METERED if metered.type in types]
    return charges + _nodes(pools(standing), use) + _claims(types)


def pools(standing: Sequence[PlannedResource]) -> list[Pool]:
    """Return the node pools among resources."""
    templates = {resource.module: resource for resource in standing if resource.type == "aws_launch_template"}
    public = any(resource.values.get("map_public_ip_on_launch") for resource in standing)
    eks = [_eks_pool(resource, templates.get(resource.module)) for resource in standing if resource.type == EKS_POOL]
    gke = [_gke_pool(resource) for resource in standing if resource.type == GKE_POOL]
    return [replace(pool, addresses=int(public)) for pool in eks] + gke


def with_machines(prices: Mapping[str, Any], cloud: str) -> dict[str, Any]:
    """Return a cloud's prices with those of its machines, which stand in the table of what steps run on."""
    machine_prices = {
        name: {"usd": usd, "per": "hour", "date": machine.date, "source": machine.source}
        for machine in read_machines().values()
        if machine.cloud == cloud
        for name, usd in machine.markets
        if usd is not None
    }
    return {**prices, **machine_prices}


def costs(charged: Sequence[Charge], prices: Mapping[str, Price]) -> dict[str, MonthlyCost]:
    """Return the cost of each group, largest first, in US dollars a month: the sum of amount times price.

    Raises:
        ValueError: when a price is by another unit than the amount.
    """
    totals: dict[str, MonthlyCost] = {}
    for charge in charged:
        totals[charge.group] = totals.get(charge.group, NOTHING) + _cost(charge, prices)
    return dict(sorted(totals.items(), key=lambda item: -item[1].usd))


def find_unpriced(plan: Mapping[str, Any], named: Mapping[str, str]) -> list[str]:
    """Return the types of a plan that no rule covers and nobody has named as free."""
    charged = {*RULES, *(metered.type for metered in METERED), EKS_POOL, GKE_POOL}
    return sorted({resource.type for resource in resources(plan)} - charged - set(named))


def _walk(module: Mapping[str, Any], zones: int) -> Iterator[PlannedResource]:
    for entry in module.get("resources", []):
        if entry["mode"] == "managed":
            yield PlannedResource(entry["type"], entry["address"], entry.get("values", {}), zones)
    for child in module.get("child_modules", []):
        yield from _walk(child, zones)


def _cost(charge: Charge, prices: Mapping[str, Price]) -> MonthlyCost:
    price = prices.get(charge.price)
    if price is None:
        return MonthlyCost(0.0, frozenset({charge.price} if charge.amount else ()))
    if price.per != charge.per:
        raise ValueError(f"{charge.price}: priced by the {price.per}, charged by the {charge.per}")
    return MonthlyCost(charge.amount * price.usd, frozenset())


def _nodes(pools: Sequence[Pool], use: Use) -> list[Charge]:
    at_night = {id(_choose_pool(pools, gpu)) for gpu in (True, False)}
    return [charge for pool in pools for charge in _charge_nodes(pool, use if id(pool) in at_night else Use())]


def _choose_pool(pools: Sequence[Pool], gpu: bool) -> Pool | None:
    """Return the pool that a night takes a node of: the first spot one that can grow, else the first that can."""
    growing = [pool for pool in pools if pool.gpu == gpu and pool.maximum > pool.minimum]
    return next((pool for pool in growing if pool.spot), growing[0] if growing else None)


def _charge_nodes(pool: Pool, use: Use) -> list[Charge]:
    """Charge node hours, and disks and addresses for as long as the nodes run."""
    hours = pool.minimum * HOURS + use.nights * use.hours
    group = "GPU nodes" if pool.gpu else "general nodes"
    months = hours / HOURS
    return [
        Charge(group, pool.price, hours, "hour"),
        Charge(group, "disk", pool.disk * months, "GB-month"),
        Charge(group, "local SSD", pool.scratch * months, "GB-month"),
        Charge(group, "public IPv4", pool.addresses * hours, "hour"),
    ]


def _claims(types: Set[str]) -> list[Charge]:
    """Charge the disks that pods of a cluster claim."""
    if not types & CLUSTERS:
        return []
    names = CLAIMS if types & FILE_SYSTEMS else SMALLEST
    return [Charge("claimed disks", "disk", CLAIMS[name], "GB-month") for name in names]


def _eks_pool(pool: PlannedResource, template: PlannedResource | None) -> Pool:
    scaling, market = pool.first("scaling_config"), str(pool.values.get("capacity_type", "ON_DEMAND"))
    launched: Mapping[str, Any] = template.values if template else {}
    disks = [disk["ebs"][0]["volume_size"] for disk in launched.get("block_device_mappings", []) if disk.get("ebs")]
    # the first of several types is the wanted one, the others stand in for it; a capacity block's is in the template
    machine = [*(pool.values.get("instance_types") or []), launched.get("instance_type")][0]
    return Pool(
        gpu=(pool.values.get("labels") or {}).get(POOL) == "gpu",
        price=f"{machine} {market.lower().replace('_', '-')}",
        minimum=int(scaling.get("min_size", 0)),
        maximum=int(scaling.get("max_size", 0)),
        spot=market == "SPOT",
        disk=float(sum(disks)),
    )


def _gke_pool(pool: PlannedResource) -> Pool:
    scaling, node = pool.first("autoscaling"), pool.first("node_config")
    market = "spot" if node.get("spot") else "flex-start" if node.get("flex_start") else "on-demand"
    scratch = (node.get("ephemeral_storage_local_ssd_config") or [{}])[0].get("local_ssd_count") or 0
    return Pool(
        gpu=(node.get("labels") or {}).get(POOL) == "gpu",
        price=f"{node.get('machine_type')} {market}",
        minimum=int(scaling.get("total_min_node_count") or 0),
        maximum=int(scaling.get("total_max_node_count") or 0),
        spot=market == "spot",
        disk=float(node.get("disk_size_gb") or 0),
        scratch=scratch * LOCAL_SSD,
    )


def _hourly(group: str) -> Callable[[PlannedResource], list[Charge]]:
    """Charge a resource for every hour, by its type's price."""
    return lambda resource: [Charge(group, resource.type, HOURS, "hour")]


def _key(resource: PlannedResource) -> list[Charge]:
    return [Charge("keys", resource.type, 1.0, "month")]


def _endpoint(endpoint: PlannedResource) -> list[Charge]:
    """Charge an interface endpoint in every zone; gateway endpoints are free."""
    if endpoint.values.get("vpc_endpoint_type") != "Interface":
        return []
    return [Charge("network", endpoint.type, HOURS * endpoint.zones, "hour")]


def _fsx(system: PlannedResource) -> list[Charge]:
    kind, speed = system.values.get("deployment_type"), system.values.get("per_unit_storage_throughput")
    return [Charge("Lustre", f"FSx {kind} {speed}", float(system.values["storage_capacity"]), "GB-month")]


def _managed_lustre(system: PlannedResource) -> list[Charge]:
    speed = system.values.get("per_unit_storage_throughput")
    return [Charge("Lustre", f"Managed Lustre {speed}", float(system.values["capacity_gib"]), "GB-month")]


def _filestore(instance: PlannedResource) -> list[Charge]:
    return [
        Charge(
            "files",
            f"Filestore {instance.values['tier']}",
            float(instance.first("file_shares")["capacity_gb"]),
            "GB-month",
        )
    ]


# GB that manifests and charts claim, by whose disks they are: infra/cluster, and Kubeflow's own manifests
CLAIMS = {
    "Airflow's database": 20.0,
    "MLflow's database": 20.0,
    "Prometheus": 50.0,
    "Kubeflow's MySQL": 20.0,
    "Kubeflow's SeaweedFS": 20.0,
}
# without a shared file system the others are not installed: infra/cluster
SMALLEST = ("Airflow's database", "MLflow's database")
CLUSTERS = {"aws_eks_cluster", "google_container_cluster"}
FILE_SYSTEMS = {"aws_fsx_lustre_file_system", "google_filestore_instance", "google_lustre_instance"}
RULES: dict[str, Callable[[PlannedResource], list[Charge]]] = {
    "aws_eks_cluster": _hourly("cluster"),
    "aws_nat_gateway": _hourly("network"),
    "aws_eip": lambda _: [Charge("network", "public IPv4", HOURS, "hour")],
    "aws_vpc_endpoint": _endpoint,
    "aws_fsx_lustre_file_system": _fsx,
    "aws_kms_key": _key,
    "google_container_cluster": _hourly("cluster"),
    "google_compute_router_nat": _hourly("network"),
    "google_filestore_instance": _filestore,
    "google_lustre_instance": _managed_lustre,
    "google_kms_crypto_key": _key,
}
METERED = (
    MeteredResource("aws_nat_gateway", "network", "aws_nat_gateway data", "moved", "GB"),
    MeteredResource("aws_s3_bucket", "storage", "aws_s3_bucket", "stored", "GB-month"),
    MeteredResource("aws_ecr_repository", "storage", "aws_ecr_repository", "images", "GB-month"),
    MeteredResource("aws_cloudwatch_log_group", "logs", "aws_cloudwatch_log_group", "logged", "GB"),
    MeteredResource("aws_sqs_queue", "network", "aws_sqs_queue", "messages", "million"),
    MeteredResource("google_compute_router_nat", "network", "google_compute_router_nat data", "moved", "GB"),
    MeteredResource("google_storage_bucket", "storage", "google_storage_bucket", "stored", "GB-month"),
    MeteredResource(
        "google_artifact_registry_repository", "storage", "google_artifact_registry_repository", "images", "GB-month"
    ),
    MeteredResource("google_artifact_registry_repository", "storage", "image scan", "scans", "image"),
    MeteredResource("google_container_cluster", "logs", "Cloud Logging", "logged", "GB"),
    MeteredResource("google_container_cluster", "logs", "Managed Prometheus", "samples", "million"),
)
