"""Protected data: what is public, unencrypted or unlogged is named, each by its rule, and nobody else is bothered."""

import dataclasses
from typing import Any

import pytest

from infra.cloud import answers as questions
from infra.cloud import core, rendering
from infra.policies.findings import find
from infra.policies.model import Environment, Resource
from infra.terraform import INFRA
from tests.infra import rendered
from tests.infra.charts import CHARTS

BUCKET = "arn:aws:s3:::lake"
KEY = "projects/p/locations/r/keyRings/k/cryptoKeys/c"


def aws(kind: str, **values: Any) -> Resource:
    return Resource(f"{kind}.one", kind, values)


def watch(*prefixes: str, **more: Any) -> Resource:
    """A trail of what happens to objects."""
    selectors = [
        {"field": "eventCategory", "equals": ["Data"]},
        {"field": "resources.ARN", "starts_with": [*prefixes]},
        *more.pop("selectors", []),
    ]
    values = {"enable_log_file_validation": True, "advanced_event_selector": [{"field_selector": selectors}]}
    return aws("aws_cloudtrail", **values | more)


def lock(mode: str = "COMPLIANCE", **retention: int) -> Resource:
    rule = [{"default_retention": [{"mode": mode, **retention}]}]
    return aws("aws_s3_bucket_object_lock_configuration", rule=rule)


def audit(*kinds: str, exempted: list[str] | None = None) -> Resource:
    configs = [{"log_type": kind, "exempted_members": exempted} for kind in kinds]
    return aws("google_project_iam_audit_config", service="storage.googleapis.com", audit_log_config=configs)


def log_bucket(days: int, locked: bool = True) -> tuple[Resource, Resource]:
    """A log bucket, and the sink that fills it with reads."""
    sink = {"destination": "logging.googleapis.com/logs", "filter": 'LOG_ID("cloudaudit.googleapis.com/data_access")'}
    bucket = aws("google_logging_project_bucket_config", id="logs", retention_days=days, locked=locked)
    return bucket, aws("google_logging_project_sink", **sink)


def storage_class(**parameters: str) -> dict[str, Any]:
    return {"kind": "StorageClass", "metadata": {"name": "disks"}, "parameters": parameters}


def policy(*egress: dict[str, Any], name: str = "nightshift-steps") -> dict[str, Any]:
    meta = {"name": name, "namespace": "kubeflow"}
    return {"kind": "NetworkPolicy", "metadata": meta, "spec": {"podSelector": {}, "egress": [*egress]}}


def cluster(nodes: bool = True, api: bool = True, dns: bool = False) -> Resource:
    private = [{"enable_private_nodes": nodes, "enable_private_endpoint": api}]
    endpoints = [{"dns_endpoint_config": [{"allow_external_traffic": dns}]}]
    return aws("google_container_cluster", private_cluster_config=private, control_plane_endpoints_config=endpoints)


def broken(rule: str, cloud: str, *content: Resource | dict[str, Any], protected: bool = True) -> list[str]:
    """What a rule says of an environment of some resources and objects."""
    resources = tuple(value for value in content if isinstance(value, Resource))
    objects = tuple(value for value in content if not isinstance(value, Resource))
    outputs = {"bucket": {"value": "lake"}}
    mine = Environment(cloud, "mine", resources, objects, {}, INFRA, "us-east-1", "0", outputs=outputs)
    found = find(dataclasses.replace(mine, protected=protected))
    return [finding.text for finding in found if finding.rule == rule]


LAKE = aws("aws_s3_bucket", id="lake", arn=BUCKET)
ENCRYPTED = aws("aws_s3_bucket_server_side_encryption_configuration", bucket="lake")
DISKS = (aws("aws_ebs_default_kms_key"), aws("aws_ebs_encryption_by_default"))
SERVICES = tuple(
    aws("aws_vpc_endpoint", service_name=f"com.amazonaws.us-east-1.{name}")
    for name in [
        "ec2",
        "ecr.api",
        "ecr.dkr",
        "eks",
        "eks-auth",
        "fsx",
        "kms",
        "logs",
        "s3",
        "ssm",
        "ssmmessages",
        "sts",
    ]
)
WITH_KEY = storage_class(**{"disk-encryption-kms-key": KEY})
ENCRYPTION, ADDRESSES = "protected_data_is_encrypted_with_your_key", "protected_data_has_no_public_address"
EGRESS, READS = "protected_data_is_sent_nowhere_else", "reads_of_protected_data_are_logged"
KEPT = "access_logs_are_locked_for_six_years"
CASES = [
    (ENCRYPTION, "aws", (LAKE, *DISKS), (LAKE, ENCRYPTED, *DISKS), "aws_s3_bucket.one: bucket"),
    (ENCRYPTION, "aws", DISKS[:1], DISKS, "aws_ebs_encryption_by_default: count is 0"),
    (ENCRYPTION, "aws", DISKS[1:], DISKS, "aws_ebs_default_kms_key: count is 0"),
    (
        ENCRYPTION,
        "aws",
        (*DISKS, aws("aws_secretsmanager_secret")),
        (*DISKS, aws("aws_secretsmanager_secret", kms_key_id="key")),
        "aws_secretsmanager_secret.one: kms_key_id is None",
    ),
    (ENCRYPTION, "gcp", (storage_class(),), (WITH_KEY,), "StorageClass/disks: parameters.disk-encryption-kms-key"),
    (ENCRYPTION, "gcp", (), (WITH_KEY,), "StorageClass: count is 0"),
    (
        ENCRYPTION,
        "gcp",
        (WITH_KEY, aws("google_filestore_instance")),
        (WITH_KEY, aws("google_filestore_instance", kms_key_name=KEY)),
        "google_filestore_instance.one: kms_key_name is None",
    ),
    (
        ADDRESSES,
        "aws",
        (*SERVICES, aws("aws_subnet", map_public_ip_on_launch=True)),
        (*SERVICES, aws("aws_subnet", map_public_ip_on_launch=False)),
        "map_public_ip_on_launch is True",
    ),
    (
        ADDRESSES,
        "aws",
        (*SERVICES, aws("aws_eks_cluster", vpc_config=[{"endpoint_public_access": True}])),
        (*SERVICES, aws("aws_eks_cluster", vpc_config=[{"endpoint_public_access": False}])),
        "vpc_config.endpoint_public_access is True",
    ),
    (
        ADDRESSES,
        "aws",
        (*SERVICES, aws("aws_launch_template", network_interfaces=[{"associate_public_ip_address": "true"}])),
        (*SERVICES, aws("aws_launch_template", network_interfaces=[{"associate_public_ip_address": "false"}])),
        "associate_public_ip_address is 'true'",
    ),
    (ADDRESSES, "aws", SERVICES[:-1], SERVICES, "must include sts"),
    (ADDRESSES, "gcp", (cluster(nodes=False),), (cluster(),), "enable_private_nodes is False"),
    (ADDRESSES, "gcp", (cluster(api=False),), (cluster(),), "enable_private_endpoint is False"),
    (ADDRESSES, "gcp", (cluster(dns=True),), (cluster(),), "allow_external_traffic is True"),
    (
        ADDRESSES,
        "gcp",
        (aws("google_compute_subnetwork"),),
        (aws("google_compute_subnetwork", private_ip_google_access=True),),
        "private_ip_google_access is None",
    ),
    (EGRESS, "aws", (policy({"ports": []}),), (policy({"to": [{"podSelector": {}}]}),), "egress.to is None"),
    (
        EGRESS,
        "gcp",
        (policy({"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}),),
        (policy({"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}), policy({"ports": []}, name="nightshift-ui")),
        "list them under egress in the answers",
    ),
    (READS, "aws", (LAKE,), (LAKE, watch(f"{BUCKET}/")), "not only of none"),
    (READS, "aws", (LAKE, watch("arn:aws:s3:::raw/")), (LAKE, watch(f"{BUCKET}/")), "not only of arn:aws:s3:::raw/"),
    (
        READS,
        "aws",
        (LAKE, watch(f"{BUCKET}/", selectors=[{"field": "readOnly", "equals": ["false"]}])),
        (LAKE, watch(f"{BUCKET}/")),
        "must log the data events",
    ),
    (
        READS,
        "aws",
        (LAKE, watch(f"{BUCKET}/", enable_log_file_validation=None)),
        (LAKE, watch(f"{BUCKET}/")),
        "enable_log_file_validation is None",
    ),
    (
        READS,
        "aws",
        (LAKE, watch(f"{BUCKET}/", enable_logging=False)),
        (LAKE, watch(f"{BUCKET}/", enable_logging=None)),
        "enable_logging is False",
    ),
    (READS, "gcp", (audit("DATA_WRITE"),), (audit("DATA_READ", "DATA_WRITE"),), "must include DATA_READ"),
    (READS, "gcp", (), (audit("DATA_READ", "DATA_WRITE"),), "google_project_iam_audit_config: audit_log_config is []"),
    (
        READS,
        "gcp",
        (audit("DATA_READ", "DATA_WRITE", exempted=["user:one@example.com"]),),
        (audit("DATA_READ", "DATA_WRITE"),),
        "everybody's reads are logged",
    ),
    (KEPT, "aws", (), (lock(days=2192),), "access logs: lock is None"),
    (KEPT, "aws", (lock(days=365),), (lock(years=7),), "retention in days is 365"),
    (KEPT, "aws", (lock("GOVERNANCE", days=2192),), (lock(days=2192),), "retention in days is 0"),
    (KEPT, "gcp", log_bucket(2191), log_bucket(2192), "retention in days is 2191"),
    (KEPT, "gcp", log_bucket(2192, locked=False), log_bucket(2192), "retention in days is 0"),
    (KEPT, "gcp", log_bucket(2192)[:1], log_bucket(2192), "access logs: lock is None"),
]


@pytest.mark.parametrize(("rule", "cloud", "wrong", "right", "says"), CASES)
def test_protected_data_that_is_public_unencrypted_or_unlogged_is_refused_by_name(
    rule: str, cloud: str, wrong: Any, right: Any, says: str
) -> None:
    (text,) = broken(rule, cloud, *wrong)

    assert says in text
    assert broken(rule, cloud, *right) == broken(rule, cloud, *wrong, protected=False) == []


@pytest.mark.parametrize("name", rendered.NAMES)
def test_data_are_protected_where_somebody_says_so(name: str) -> None:
    answers = rendered.read(name)

    assert rendering.variables(answers)["protected_data"] is False
    assert rendering.variables(answers.model_copy(update={"protected_data": True}))["protected_data"] is True


def test_on_google_cloud_claims_have_a_class_with_the_environments_key() -> None:
    answers = rendered.read("gcp-prod")
    environment = dataclasses.replace(rendered.infrastructure(answers), disk_key=KEY)
    commands = core.install(CHARTS, answers, environment, rendered.DIGESTS)
    plain = core.install(CHARTS, answers, rendered.infrastructure(answers), rendered.DIGESTS)

    apply = 'kubectl apply -k "$OVERLAYS/disks"'
    assert apply not in plain and commands.index(apply) < next(
        at for at, command in enumerate(commands) if command.startswith("helm ")
    )
    overlay = rendering.render(answers, environment, rendered.DIGESTS, rendered.overlays("gcp-prod"))
    assert (
        KEY in overlay["disks/kustomization.yaml"] and "cluster/protected-disks" in overlay["disks/kustomization.yaml"]
    )


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_a_teardown_keeps_the_access_logs_and_their_key(cloud: str) -> None:
    answers = questions.read(cloud, "dev").model_copy(update={"protected_data": True})
    destroy = next(line for line in core.down(CHARTS, answers, core.Data.DELETE) if " destroy " in line)
    unprotected = next(
        line for line in core.down(CHARTS, rendered.read(f"{cloud}-dev"), core.Data.DELETE) if " destroy " in line
    )

    assert "-target=module.storage" in destroy and "access_logs" not in destroy
    assert "-target" not in unprotected
