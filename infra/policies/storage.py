"""Storage: retention, encryption keys and deletion protection."""

import json
import re
from collections.abc import Iterator
from datetime import datetime

from infra.policies.model import Environment, Problem, policy

# the path of the key in each encrypted resource
_KEYS: dict[str, tuple[str, ...]] = {
    "aws_cloudwatch_log_group": ("kms_key_id",),
    "aws_fsx_lustre_file_system": ("kms_key_id",),
    "aws_ecr_repository": ("encryption_configuration", "kms_key"),
    "aws_eks_cluster": ("encryption_config", "provider", "key_arn"),
    "aws_s3_bucket_server_side_encryption_configuration": (
        "rule",
        "apply_server_side_encryption_by_default",
        "kms_master_key_id",
    ),
    "google_artifact_registry_repository": ("kms_key_name",),
    "google_container_cluster": ("database_encryption", "key_name"),
    "google_container_node_pool": ("node_config", "boot_disk_kms_key"),
    "google_lustre_instance": ("kms_key",),
    "google_storage_bucket": ("encryption", "default_kms_key_name"),
}


@policy("https://docs.aws.amazon.com/AmazonECR/latest/userguide/LifecyclePolicies.html")
def image_lifecycles_keep_images_in_use(environment: Environment) -> Iterator[Problem]:
    """A lifecycle that deletes tagged images by age, or keeps too few, breaks pods that start later."""
    for lifecycle in environment.of_type("aws_ecr_lifecycle_policy"):
        rules = json.loads(lifecycle.values.get("policy") or '{"rules": []}')["rules"]
        last = max((rule["rulePriority"] for rule in rules), default=0)
        for rule in rules:
            selection, field = rule["selection"], f"policy.rules.{rule['rulePriority']}.selection"
            count, kind, where = selection["countNumber"], selection["countType"], lifecycle.address
            if kind == "sinceImagePushed" and selection["tagStatus"] != "untagged":
                allowed = "must be untagged: tagged images in use are older than any limit"
                yield Problem(where, f"{field}.tagStatus", selection["tagStatus"], allowed)
            if kind == "sinceImagePushed" and not 1 <= count <= 30:
                yield Problem(
                    where, f"{field}.countNumber", count, "must lie between 1 and 30 days for untagged images"
                )
            if kind == "imageCountMoreThan" and count < 10:
                yield Problem(where, f"{field}.countNumber", count, "must be at least 10, to include the images in use")
            if selection["tagStatus"] == "any" and rule["rulePriority"] != last:
                allowed = f"a rule for any image must come last, after {last}"
                yield Problem(where, f"{field}.rulePriority", rule["rulePriority"], allowed)


@policy("https://docs.cloud.google.com/storage/docs/lifecycle")
def bucket_lifecycles_only_delete_replaced_versions(environment: Environment) -> Iterator[Problem]:
    """A lifecycle by age alone deletes objects in use; one of versions keeps the way back from a mistake."""
    for bucket in environment.of_type("google_storage_bucket"):
        for rule in bucket.values.get("lifecycle_rule") or ():
            (action,), (condition,) = rule["action"], rule["condition"]
            replaced, age = condition.get("days_since_noncurrent_time"), condition.get("age")
            field = f"lifecycle_rule {action['type']}"
            if action["type"] == "Delete" and not 7 <= (replaced or 0) <= 90:
                conditions = {"age": age, "days_since_noncurrent_time": replaced}
                allowed = "days_since_noncurrent_time must lie between 7 and 90"
                yield Problem(bucket.address, f"{field}.condition", conditions, allowed)
            if action["type"] == "AbortIncompleteMultipartUpload" and not 1 <= (age or 0) <= 14:
                yield Problem(bucket.address, f"{field}.condition.age", age, "must lie between 1 and 14 days")
            if action["type"] not in ("Delete", "AbortIncompleteMultipartUpload"):
                allowed = "must be Delete or AbortIncompleteMultipartUpload: colder classes bill each nightly read"
                yield Problem(bucket.address, f"{field}.action", action["type"], allowed)


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions")
def maintenance_windows_are_long_enough_and_by_day(environment: Environment) -> Iterator[Problem]:
    """GKE refuses windows below 4 hours, or 48 hours in 32 days, and one at night interrupts training."""
    for cluster in environment.of_type("google_container_cluster"):
        window = cluster.block("maintenance_policy", "recurring_window")
        if not window:
            continue
        start, end = (datetime.fromisoformat(window[name]) for name in ("start_time", "end_time"))
        hours = (end - start).total_seconds() / 3600
        days = re.search(r"BYDAY=([A-Z,]+)", window["recurrence"])
        monthly = hours * (32 / 7 * len(days[1].split(",")) if days else 32 if "DAILY" in window["recurrence"] else 0)
        field = "maintenance_policy.recurring_window"
        if hours < 4:
            allowed = f"the window lasts {hours:g} hours: must be at least 4"
            yield Problem(cluster.address, f"{field}.end_time", window["end_time"], allowed)
        elif monthly < 48:
            allowed = f"the windows last {monthly:.0f} hours in 32 days: must be at least 48"
            yield Problem(cluster.address, f"{field}.recurrence", window["recurrence"], allowed)
        if start.hour < 6 or end.hour > 22:
            allowed = "must lie between 6:00 and 22:00 UTC: training runs at night"
            yield Problem(cluster.address, f"{field}.start_time", window["start_time"], allowed)


@policy("infra/aws/README.md and infra/gcp/README.md")
def cluster_and_storage_share_their_deletion_protection(environment: Environment) -> Iterator[Problem]:
    """Data is lost with a bucket that can be deleted beside a protected cluster; the reverse blocks a teardown."""
    for cluster in environment.of_type("aws_eks_cluster", "google_container_cluster"):
        protected = bool(cluster.values.get("deletion_protection"))
        disposables = {
            "aws_s3_bucket": "force_destroy",
            "aws_ecr_repository": "force_delete",
            "google_storage_bucket": "force_destroy",
        }
        for kind, field in disposables.items():
            for resource in environment.of_type(kind):
                if bool(resource.values.get(field)) == protected:
                    allowed = f"must be {not protected}, as the cluster's deletion_protection is {protected}"
                    yield Problem(resource.address, field, resource.values.get(field), allowed)


@policy("https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html")
def resources_are_encrypted_with_the_environment_key(environment: Environment) -> Iterator[Problem]:
    """The policy of the environment's key does not control who reads data under another key."""
    keys = environment.of_type("aws_kms_key", "google_kms_crypto_key")
    if not any(key.values.get("id") for key in keys):
        return
    for kind, path in _KEYS.items():
        for resource in environment.of_type(kind):
            key = resource.block(*path[:-1]).get(path[-1])
            if environment.owners.get(str(key)) not in keys:
                yield Problem(resource.address, ".".join(path), key, f"must be {keys[0].address}")


@policy("https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html")
def lustre_is_linked_to_the_folder_of_steps(environment: Environment) -> Iterator[Problem]:
    """Steps may not read files that Lustre exports to another bucket or prefix."""
    buckets = {bucket.values.get("bucket") for bucket in environment.of_type("aws_s3_bucket")}
    for link in environment.of_type("aws_fsx_data_repository_association"):
        path = str(link.values.get("data_repository_path"))
        bucket, _, folder = path.removeprefix("s3://").partition("/")
        if bucket not in buckets or folder.strip("/") != "lustre":
            allowed = f"must be s3://{', '.join(map(str, buckets))}/lustre, which steps may read"
            yield Problem(link.address, "data_repository_path", path, allowed)


@policy("https://docs.cloud.google.com/managed-lustre/docs/transfer-data")
def lustre_transfers_files_to_and_from_the_lake(environment: Environment) -> Iterator[Problem]:
    """Transfers fail where the service agent cannot read and write the bucket of raw data."""
    for grant in environment.of_type("google_storage_bucket_iam_member"):
        if ".transfer" in grant.address:
            bucket, role = str(grant.values["bucket"]), grant.values["role"]
            if not bucket.endswith("-lake"):
                yield Problem(grant.address, "bucket (lustre)", bucket, "must be the lake, which steps may read")
            if role != "roles/storage.objectUser":
                yield Problem(
                    grant.address, "role (lustre)", role, "must be roles/storage.objectUser: an export writes"
                )


@policy("https://docs.aws.amazon.com/cost-management/latest/userguide/getting-started-ad.html")
def anomaly_limits_fit_the_budget(environment: Environment) -> Iterator[Problem]:
    """An anomaly limit far below the monthly budget is noise, and one near it warns too late; both are in USD."""
    limits = [float(budget.values["limit_amount"]) for budget in environment.of_type("aws_budgets_budget")]
    for subscription in environment.of_type("aws_ce_anomaly_subscription"):
        for value in subscription.block("threshold_expression", "dimension").get("values") or ():
            if limits and not limits[0] / 100 <= float(value) <= limits[0] / 2:
                field = "threshold_expression.dimension.values (anomaly)"
                yield Problem(
                    subscription.address,
                    field,
                    value,
                    f"must lie between 1% and 50% of the monthly budget, {limits[0]:g} USD",
                )


@policy("https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Notification.html")
def budgets_warn_before_they_are_spent(environment: Environment) -> Iterator[Problem]:
    """Without a notification below 100% and one of the forecast, the first one comes when the budget is spent."""
    for budget in environment.of_type("aws_budgets_budget"):
        alerts = [(alert["notification_type"], alert["threshold"]) for alert in budget.values.get("notification") or ()]
        actual = [threshold for kind, threshold in alerts if kind == "ACTUAL"]
        if not any(threshold < 100 for threshold in actual) or 100 not in actual:
            yield Problem(
                budget.address, "notification.threshold", actual, "ACTUAL must have a threshold below 100, and 100"
            )
        if not any(kind == "FORECASTED" for kind, _ in alerts):
            yield Problem(budget.address, "notification.notification_type", alerts, "one must be FORECASTED")
    for budget in environment.of_type("google_billing_budget"):
        rules = budget.values.get("threshold_rules") or []
        spent = [rule["threshold_percent"] for rule in rules if rule.get("spend_basis") != "FORECASTED_SPEND"]
        if not any(share < 1 for share in spent) or len(spent) == len(rules):
            allowed = "one must be below 1.0, and one of FORECASTED_SPEND"
            yield Problem(budget.address, "threshold_rules", rules, allowed)
