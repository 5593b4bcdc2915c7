"""Storage: retention, encryption keys and deletion protection."""

import json
import re
from collections.abc import Iterator
from datetime import datetime

from infra.policies.model import Environment, Problem, policy

# where what is encrypted names its key
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
def images_are_kept_for_as_long_as_they_run(environment: Environment) -> Iterator[Problem]:
    """Untagged images go within days, the newest tagged ones stay, and the rule for any image comes last."""
    for policy_of_images in environment.of_type("aws_ecr_lifecycle_policy"):
        rules = json.loads(policy_of_images.values.get("policy") or '{"rules": []}')["rules"]
        last = max((rule["rulePriority"] for rule in rules), default=0)
        for rule in rules:
            chosen, field = rule["selection"], f"policy.rules.{rule['rulePriority']}.selection"
            count, kind, where = chosen["countNumber"], chosen["countType"], policy_of_images.address
            if kind == "sinceImagePushed" and chosen["tagStatus"] != "untagged":
                yield Problem(where, f"{field}.tagStatus", chosen["tagStatus"], "by age only untagged images go")
            if kind == "sinceImagePushed" and not 1 <= count <= 30:
                yield Problem(where, f"{field}.countNumber", count, "untagged images are kept for 1 to 30 days")
            if kind == "imageCountMoreThan" and count < 10:
                yield Problem(where, f"{field}.countNumber", count, "10 or more: what runs is among them")
            if chosen["tagStatus"] == "any" and rule["rulePriority"] != last:
                allowed = f"a rule for any image comes last, after {last}"
                yield Problem(where, f"{field}.rulePriority", rule["rulePriority"], allowed)


@policy("https://docs.cloud.google.com/storage/docs/lifecycle")
def lifecycles_delete_old_versions_and_nothing_else(environment: Environment) -> Iterator[Problem]:
    """What is deleted is a version that was replaced weeks ago; an age alone deletes what is in use."""
    for bucket in environment.of_type("google_storage_bucket"):
        for rule in bucket.values.get("lifecycle_rule") or ():
            (action,), (condition,) = rule["action"], rule["condition"]
            replaced, age = condition.get("days_since_noncurrent_time"), condition.get("age")
            field = f"lifecycle_rule {action['type']}"
            if action["type"] == "Delete" and not 7 <= (replaced or 0) <= 90:
                allowed = "it deletes what was replaced 7 to 90 days ago (days_since_noncurrent_time)"
                yield Problem(
                    bucket.address, f"{field}.condition", {"age": age, "days_since_noncurrent_time": replaced}, allowed
                )
            if action["type"] == "AbortIncompleteMultipartUpload" and not 1 <= (age or 0) <= 14:
                yield Problem(bucket.address, f"{field}.condition.age", age, "an upload is given up after 1 to 14 days")
            if action["type"] not in ("Delete", "AbortIncompleteMultipartUpload"):
                allowed = "colder classes bill 30 days or more of what is read every night"
                yield Problem(bucket.address, f"{field}.action", action["type"], allowed)


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions")
def maintenance_windows_are_long_enough_and_by_day(environment: Environment) -> Iterator[Problem]:
    """A window lasts four hours or more, 48 in 32 days, and leaves the nights to trainings."""
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
            yield Problem(
                cluster.address, f"{field}.end_time", window["end_time"], f"it lasts {hours:g} hours: 4 at least"
            )
        elif monthly < 48:
            allowed = f"{monthly:.0f} hours in 32 days: 48 at least"
            yield Problem(cluster.address, f"{field}.recurrence", window["recurrence"], allowed)
        if start.hour < 6 or end.hour > 22:
            yield Problem(
                cluster.address, f"{field}.start_time", window["start_time"], "trainings run at night, in UTC"
            )


@policy("infra/aws/README.md and infra/gcp/README.md")
def what_is_protected_is_protected_as_a_whole(environment: Environment) -> Iterator[Problem]:
    """A cluster that cannot be deleted beside buckets that can is an accident in waiting, and the other way round."""
    for cluster in environment.of_type("aws_eks_cluster", "google_container_cluster"):
        protected = bool(cluster.values.get("deletion_protection"))
        disposables = {
            "aws_s3_bucket": "force_destroy",
            "aws_ecr_repository": "force_delete",
            "google_storage_bucket": "force_destroy",
        }
        for kind, field in disposables.items():
            for kept in environment.of_type(kind):
                if bool(kept.values.get(field)) == protected:
                    allowed = f"the cluster's deletion_protection is {protected}, so it is {not protected}"
                    yield Problem(kept.address, field, kept.values.get(field), allowed)


@policy("https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html")
def everything_is_encrypted_with_the_environments_key(environment: Environment) -> Iterator[Problem]:
    """What takes a key has ours, by which the key's policy says who reads it."""
    keys = environment.of_type("aws_kms_key", "google_kms_crypto_key")
    if not any(key.values.get("id") for key in keys):
        return
    for kind, path in _KEYS.items():
        for resource in environment.of_type(kind):
            named = resource.block(*path[:-1]).get(path[-1])
            if environment.owners.get(str(named)) not in keys:
                yield Problem(resource.address, ".".join(path), named, f"it is {keys[0].address}")


@policy("https://docs.aws.amazon.com/fsx/latest/LustreGuide/create-dra-linked-data-repo.html")
def lustre_is_linked_with_the_folder_that_steps_read(environment: Environment) -> Iterator[Problem]:
    """The repository is this environment's bucket, below the prefix that accounts may read."""
    buckets = {bucket.values.get("bucket") for bucket in environment.of_type("aws_s3_bucket")}
    for link in environment.of_type("aws_fsx_data_repository_association"):
        path = str(link.values.get("data_repository_path"))
        bucket, _, folder = path.removeprefix("s3://").partition("/")
        if bucket not in buckets or folder.strip("/") != "lustre":
            allowed = f"it is s3://{', '.join(map(str, buckets))}/lustre, which steps may read"
            yield Problem(link.address, "data_repository_path", path, allowed)


@policy("https://docs.cloud.google.com/managed-lustre/docs/transfer-data")
def lustre_moves_files_to_and_from_the_lake(environment: Environment) -> Iterator[Problem]:
    """The service agent reads and writes the bucket that steps read raw data from."""
    for grant in environment.of_type("google_storage_bucket_iam_member"):
        if ".transfer" in grant.address:
            bucket, role = str(grant.values["bucket"]), grant.values["role"]
            if not bucket.endswith("-lake"):
                yield Problem(grant.address, "bucket (lustre)", bucket, "it is the lake, which steps may read")
            if role != "roles/storage.objectUser":
                yield Problem(grant.address, "role (lustre)", role, "an export writes: roles/storage.objectUser")


@policy("https://docs.aws.amazon.com/cost-management/latest/userguide/getting-started-ad.html")
def an_anomaly_is_a_part_of_the_budget(environment: Environment) -> Iterator[Problem]:
    """Both are in USD: from a hundredth to a half of a month's limit is neither noise nor news too late."""
    limits = [float(budget.values["limit_amount"]) for budget in environment.of_type("aws_budgets_budget")]
    for subscription in environment.of_type("aws_ce_anomaly_subscription"):
        for value in subscription.block("threshold_expression", "dimension").get("values") or ():
            if limits and not limits[0] / 100 <= float(value) <= limits[0] / 2:
                field = "threshold_expression.dimension.values (anomaly)"
                yield Problem(subscription.address, field, value, f"a month's limit is {limits[0]:g} USD")


@policy("https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Notification.html")
def a_budget_warns_before_it_is_spent(environment: Environment) -> Iterator[Problem]:
    """One threshold below the whole, one at it and one for the forecast, each of its own kind."""
    for budget in environment.of_type("aws_budgets_budget"):
        alerts = [(alert["notification_type"], alert["threshold"]) for alert in budget.values.get("notification") or ()]
        actual = [threshold for kind, threshold in alerts if kind == "ACTUAL"]
        if not any(threshold < 100 for threshold in actual) or 100 not in actual:
            yield Problem(budget.address, "notification.threshold", actual, "ACTUAL is notified below 100 and at it")
        if not any(kind == "FORECASTED" for kind, _ in alerts):
            yield Problem(budget.address, "notification.notification_type", alerts, "one is FORECASTED")
    for budget in environment.of_type("google_billing_budget"):
        rules = budget.values.get("threshold_rules") or []
        spent = [rule["threshold_percent"] for rule in rules if rule.get("spend_basis") != "FORECASTED_SPEND"]
        if not any(share < 1 for share in spent) or len(spent) == len(rules):
            allowed = "one is below 1.0 and one of FORECASTED_SPEND"
            yield Problem(budget.address, "threshold_rules", rules, allowed)
