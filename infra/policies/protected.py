"""Protected data, of persons: keys of your own, no way in or out, and a log of who read what that nobody can delete."""

import functools
from collections.abc import Iterator

from infra.policies.model import Environment, Json, Problem, Resource, Rule, Severity, label, policy

SIX_YEARS = 2192  # days
# the path of the key in what may hold such data; what every environment encrypts is in storage.py
_KEYS: dict[str, tuple[str, ...]] = {
    "aws_secretsmanager_secret": ("kms_key_id",),
    "google_compute_disk": ("disk_encryption_key", "kms_key_self_link"),
    "google_filestore_instance": ("kms_key_name",),
    "google_secret_manager_secret": (
        "replication",
        "user_managed",
        "replicas",
        "customer_managed_encryption",
        "kms_key_name",
    ),
}
# what would give an address at which somebody outside could call, or send a call outside; and what it must be
_DOORS: dict[str, dict[tuple[str, ...], bool]] = {
    "aws_subnet": {("map_public_ip_on_launch",): False},
    "aws_eks_cluster": {("vpc_config", "endpoint_public_access"): False},
    "aws_launch_template": {("network_interfaces", "associate_public_ip_address"): False},
    "google_container_cluster": {
        ("private_cluster_config", "enable_private_nodes"): True,
        ("private_cluster_config", "enable_private_endpoint"): True,
        ("control_plane_endpoints_config", "dns_endpoint_config", "allow_external_traffic"): False,
    },
    "google_compute_subnetwork": {("private_ip_google_access",): True},
}
# https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html, and those of disks, files, keys and sessions
_SERVICES = {"ec2", "ecr.api", "ecr.dkr", "eks", "eks-auth", "fsx", "kms", "logs", "s3", "ssm", "ssmmessages", "sts"}
# namespaces whose pods hold the data; the pages there have to ask your login's provider who somebody is
_HOLDING, _PAGES = ("kubeflow", "nightshift"), "nightshift-ui"
_EVERYBODY = ("0.0.0.0/0", "::/0")


def _of_protected_data(rule: Rule) -> Rule:
    """Return a rule that judges environments with protected data only."""

    @functools.wraps(rule)
    def judge(environment: Environment) -> Iterator[Problem]:
        if environment.protected:
            yield from rule(environment)

    return judge


def _get(resource: Resource, path: tuple[str, ...]) -> object:
    return resource.block(*path[:-1]).get(path[-1]) if path[1:] else resource.values.get(path[0])


@policy("https://docs.aws.amazon.com/ebs/latest/userguide/encryption-by-default.html", Severity.EXPOSES)
@_of_protected_data
def protected_data_is_encrypted_with_your_key(environment: Environment) -> Iterator[Problem]:
    """Who reads data under the cloud's own key is not yours to say."""
    for kind, path in _KEYS.items():
        for resource in environment.of_type(kind):
            if not _get(resource, path):
                yield Problem(resource.address, ".".join(path), None, "must be a key of yours: it holds protected data")
    encrypted = {
        bucket.values.get("bucket")
        for bucket in environment.of_type("aws_s3_bucket_server_side_encryption_configuration")
    }
    for bucket in environment.of_type("aws_s3_bucket"):
        if not {bucket.values.get("id"), bucket.values.get("bucket")} & encrypted:
            allowed = "must have an aws_s3_bucket_server_side_encryption_configuration with a key of yours"
            yield Problem(bucket.address, "bucket", bucket.values.get("bucket"), allowed)
    yield from _disks_without_key(environment)


def _disks_without_key(environment: Environment) -> Iterator[Problem]:
    """Yield what encrypts disks with the cloud's key: AWS has a default for an account, Google one for a class."""
    if environment.cloud == "aws":
        for kind in ("aws_ebs_default_kms_key", "aws_ebs_encryption_by_default"):
            if not environment.of_type(kind):
                yield Problem(kind, "count", 0, "must exist: disks that name no key are encrypted with AWS's")
        return
    classes = environment.of_kind("StorageClass")
    if environment.outputs and not classes:
        yield Problem("StorageClass", "count", 0, "must exist: claims have disks that Google's key encrypts")
    for storage in classes:
        if not (storage.get("parameters") or {}).get("disk-encryption-kms-key"):
            yield Problem(label(storage), "parameters.disk-encryption-kms-key", None, "must be a key of yours")


@policy("https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html", Severity.EXPOSES)
@_of_protected_data
def protected_data_has_no_public_address(environment: Environment) -> Iterator[Problem]:
    """An address on the Internet, or a call that goes over it, is one mistake away from the data."""
    for kind, doors in _DOORS.items():
        for resource, (path, expected) in ((one, door) for one in environment.of_type(kind) for door in doors.items()):
            value = _get(resource, path)
            if (value in (True, "true")) is not expected:
                yield Problem(resource.address, ".".join(path), value, f"must be {str(expected).lower()}")
    endpoints = environment.of_type("aws_vpc_endpoint")
    called = {
        str(endpoint.values.get("service_name")).removeprefix(f"com.amazonaws.{environment.region}.")
        for endpoint in endpoints
    }
    if environment.cloud == "aws" and (missing := _SERVICES - called):
        yield Problem("aws_vpc_endpoint", "service_name", sorted(called), f"must include {', '.join(sorted(missing))}")


@policy("https://kubernetes.io/docs/concepts/services-networking/network-policies/", Severity.EXPOSES)
@_of_protected_data
def protected_data_is_sent_nowhere_else(environment: Environment) -> Iterator[Problem]:
    """A step that may call any address may send the data there."""
    for value in environment.of_kind("NetworkPolicy"):
        meta = value["metadata"]
        if meta.get("namespace") in _HOLDING and meta["name"] != _PAGES:
            for rule in value["spec"].get("egress") or ():
                if _is_open(rule):
                    allowed = "must be ranges: list them under egress in the answers"
                    yield Problem(label(value), "egress.to", rule.get("to"), allowed)


def _is_open(rule: Json) -> bool:
    return not rule.get("to") or any(peer.get("ipBlock", {}).get("cidr") in _EVERYBODY for peer in rule["to"])


@policy("https://docs.aws.amazon.com/AmazonS3/latest/userguide/cloudtrail-logging-s3-info.html", Severity.EXPOSES)
@_of_protected_data
def reads_of_protected_data_are_logged(environment: Environment) -> Iterator[Problem]:
    """Without a log of reads nobody can say who has seen a person's data."""
    if environment.cloud == "gcp":
        yield from _unlogged_by_google(environment)
        return
    trails = environment.of_type("aws_cloudtrail")
    watched = {prefix for trail in trails for prefix in _list_watched(trail)}
    for bucket in environment.of_type("aws_s3_bucket"):
        is_unknown = bool(trails) and not bucket.values.get("arn")
        if (
            not bucket.values.get("object_lock_enabled")
            and not is_unknown
            and f"{bucket.values.get('arn')}/" not in watched
        ):
            allowed = (
                f"a trail must log the data events of its objects, not only of {', '.join(sorted(watched)) or 'none'}"
            )
            yield Problem(bucket.address, "arn", bucket.values.get("arn"), allowed)
    for trail in trails:
        is_on = {"enable_logging": trail.values.get("enable_logging") is not False}
        is_on["enable_log_file_validation"] = bool(trail.values.get("enable_log_file_validation"))
        for field in (name for name, on in is_on.items() if not on):
            yield Problem(trail.address, field, trail.values.get(field), "must be true")


def _list_watched(trail: Resource) -> Iterator[str]:
    """Yield the beginnings of the ARNs of objects whose data events a trail logs."""
    for selector in trail.values.get("advanced_event_selector") or ():
        fields = {one["field"]: one for one in selector.get("field_selector") or ()}
        if fields.get("eventCategory", {}).get("equals") == ["Data"] and "readOnly" not in fields:
            yield from fields.get("resources.ARN", {}).get("starts_with") or ()


def _unlogged_by_google(environment: Environment) -> Iterator[Problem]:
    audits = [one for one in environment.of_type("google_project_iam_audit_config") if _is_of_storage(one)]
    configs = [config for audit in audits for config in audit.values.get("audit_log_config") or ()]
    kinds = {config["log_type"] for config in configs}
    if not kinds >= {"DATA_READ", "DATA_WRITE"}:
        where = audits[0].address if audits else "google_project_iam_audit_config"
        yield Problem(where, "audit_log_config", sorted(kinds), "must include DATA_READ and DATA_WRITE of storage")
    for members in (config.get("exempted_members") for config in configs):
        if members:
            yield Problem(audits[0].address, "exempted_members", members, "must be empty: everybody's reads are logged")


def _is_of_storage(audit: Resource) -> bool:
    return audit.values.get("service") in ("storage.googleapis.com", "allServices")


@policy("https://www.ecfr.gov/current/title-45/section-164.316", Severity.EXPOSES)
@_of_protected_data
def access_logs_are_locked_for_six_years(environment: Environment) -> Iterator[Problem]:
    """HIPAA keeps documents for six years; for logs that is a choice, and another one is allowed by its reason."""
    kept = [*_locks_of_aws(environment), *_locks_of_google(environment)]
    if not kept:
        yield Problem("access logs", "lock", None, "must be in a bucket that nobody can shorten or empty")
    for where, days in kept:
        if days < SIX_YEARS:
            yield Problem(where, "retention in days", days, f"must be at least {SIX_YEARS}, six years")


def _locks_of_aws(environment: Environment) -> Iterator[tuple[str, int]]:
    """Yield each locked bucket's configuration with its days, 0 where administrators may shorten them."""
    for lock in environment.of_type("aws_s3_bucket_object_lock_configuration"):
        retention = lock.block("rule", "default_retention")
        days = (retention.get("days") or 0) + 365 * (retention.get("years") or 0)
        yield lock.address, days if retention.get("mode") == "COMPLIANCE" else 0


def _locks_of_google(environment: Environment) -> Iterator[tuple[str, int]]:
    """Yield each log bucket that a sink fills with reads, with its days, 0 where it is not locked."""
    sinks = environment.of_type("google_logging_project_sink")
    filled = [str(sink.values.get("destination")) for sink in sinks if _takes_reads(sink)]
    for bucket in environment.of_type("google_logging_project_bucket_config"):
        if any(destination.endswith(f"/{bucket.values.get('id')}") for destination in filled):
            yield bucket.address, bucket.values.get("retention_days") or 0 if bucket.values.get("locked") else 0


def _takes_reads(sink: Resource) -> bool:
    """Say whether a sink is the one of reads: its filter asks for them, and not for all else."""
    text = str(sink.values.get("filter"))
    return "data_access" in text and not text.startswith("NOT")
