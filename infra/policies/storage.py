"""Storage: retention, encryption keys and deletion protection."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from infra.policies.model import Environment, Json, Problem, Resource, Severity, policy, table
from infra.policies.names import documents

# the path of the key in each encrypted resource
_KEYS: dict[str, tuple[str, ...]] = {
    "aws_cloudtrail": ("kms_key_id",),
    "aws_cloudwatch_log_group": ("kms_key_id",),
    "aws_ebs_default_kms_key": ("key_arn",),
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
    "google_logging_project_bucket_config": ("cmek_settings", "kms_key_name"),
    "google_lustre_instance": ("kms_key",),
    "google_storage_bucket": ("encryption", "default_kms_key_name"),
}

_SIGNATURES = "must be tagged alone: a signature is an image without a tag, and goes with its image"
_KEPT = "containers/keep.sh tags so what runs"


@policy("https://docs.aws.amazon.com/AmazonECR/latest/userguide/LifecyclePolicies.html")
def image_lifecycles_keep_what_runs(environment: Environment) -> Iterator[Problem]:
    """The first rule that an image matches decides; one that deletes what runs breaks pods that start later."""
    for lifecycle in environment.of_type("aws_ecr_lifecycle_policy"):
        rules = json.loads(lifecycle.values.get("policy") or '{"rules": []}')["rules"]
        is_kept = False
        for rule in sorted(rules, key=lambda rule: rule["rulePriority"]):
            selection, field = rule["selection"], f"policy.rules.{rule['rulePriority']}.selection"
            if selection["tagStatus"] != "tagged":
                yield Problem(lifecycle.address, f"{field}.tagStatus", selection["tagStatus"], _SIGNATURES)
            elif selection.get("tagPatternList") == ["keep-*"] and selection["countType"] == "imageCountMoreThan":
                is_kept = True
            elif not is_kept:
                yield Problem(lifecycle.address, field, selection, f"a rule for keep-* must come before: {_KEPT}")


@policy("https://docs.cloud.google.com/artifact-registry/docs/repositories/cleanup-policy-overview")
def image_cleanups_keep_what_runs(environment: Environment) -> Iterator[Problem]:
    """A policy that deletes what runs breaks pods that start later; one that keeps it goes before."""
    for repository in environment.of_type("google_artifact_registry_repository"):
        policies = repository.values.get("cleanup_policies") or ()
        kept = [prefix for cleanup in policies if cleanup["action"] == "KEEP" for prefix in _list_prefixes(cleanup)]
        for index, cleanup in enumerate(policies):
            field = f"cleanup_policies[{index}]"
            state = [condition.get("tag_state") for condition in cleanup.get("condition") or ()]
            if cleanup["action"] == "DELETE" and state != ["TAGGED"]:
                yield Problem(repository.address, f"{field}.condition.tag_state", state, _SIGNATURES)
            if cleanup["action"] == "DELETE" and "keep-" not in kept:
                yield Problem(repository.address, field, cleanup["id"], f"a policy must keep the prefix keep-: {_KEPT}")


def _list_prefixes(cleanup: Mapping[str, Any]) -> list[str]:
    return [prefix for condition in cleanup.get("condition") or () for prefix in condition.get("tag_prefixes") or ()]


@policy("https://docs.aws.amazon.com/kms/latest/developerguide/rotate-keys.html")
def keys_that_encrypt_are_rotated(environment: Environment) -> Iterator[Problem]:
    """AWS rotates a key once a year; one that signs it cannot rotate."""
    for key in environment.of_type("aws_kms_key"):
        encrypts = key.values.get("key_usage") in (None, "ENCRYPT_DECRYPT")
        if encrypts and not (is_rotated := key.values.get("enable_key_rotation")):
            yield Problem(key.address, "enable_key_rotation", is_rotated, "must be true: a key is rotated once a year")


_COLD = ("NEARLINE", "COLDLINE", "ARCHIVE", "GLACIER", "DEEP_ARCHIVE", "GLACIER_IR", "STANDARD_IA", "ONEZONE_IA")


@policy("https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html")
def lifecycles_keep_live_objects(environment: Environment) -> Iterator[Problem]:
    """A lifecycle by age deletes or moves models, records and raw data in use, whatever else its rule is for."""
    for where, prefixes, days, action in _lifecycles(environment):
        folders = [folder for folder in _live_folders(environment, where) if _overlaps(prefixes, folder)]
        if folders and days is not None:
            allowed = f"must leave out {', '.join(sorted(folders))}, which is read and written"
            severity = Severity.ADVICE if action in _COLD else None
            yield Problem(where, f"lifecycle ({action})", {"prefixes": prefixes, "days": days}, allowed, "", severity)


def _live_folders(environment: Environment, where: str) -> list[str]:
    """Return what accounts read and write: folders of a bucket on AWS; on Google Cloud the bucket as a whole."""
    uses = table("names")["stores"][environment.cloud].values()
    stores = {store for use in uses for stores in use.values() for store in stores}
    if environment.cloud == "gcp":
        return [store for store in stores if where.endswith(f'["{store}"]')]
    # tasks' logs are all that Airflow keeps
    return sorted(stores - {"airflow"} | {"state"})


def _overlaps(prefixes: list[str], folder: str) -> bool:
    return not prefixes or any(
        f"{folder}/".startswith(prefix) or prefix.startswith(f"{folder}/") for prefix in prefixes
    )


def _lifecycles(environment: Environment) -> Iterator[tuple[str, list[str], object, str]]:
    """Yield address, prefixes, age and action of each rule about current objects; without prefixes it is for all."""
    yield from _lifecycles_of_google(environment)
    for lifecycle in environment.of_type("aws_s3_bucket_lifecycle_configuration"):
        for rule in (rule for rule in lifecycle.values.get("rule") or () if rule.get("status") == "Enabled"):
            chosen = (rule.get("filter") or [{}])[0]
            both = (chosen.get("and") or [{}])[0]
            prefixes = [prefix for prefix in (rule.get("prefix"), chosen.get("prefix"), both.get("prefix")) if prefix]
            for expiration in rule.get("expiration") or ():
                yield lifecycle.address, prefixes, expiration.get("days") or expiration.get("date"), "expiration"
            for transition in rule.get("transition") or ():
                yield lifecycle.address, prefixes, transition.get("days") or 0, str(transition.get("storage_class"))


def _lifecycles_of_google(environment: Environment) -> Iterator[tuple[str, list[str], object, str]]:
    for bucket in environment.of_type("google_storage_bucket"):
        for rule in bucket.values.get("lifecycle_rule") or ():
            action, condition = rule["action"][0], rule["condition"][0]
            if action["type"] != "AbortIncompleteMultipartUpload" and not _is_of_replaced(condition):
                kind, age = str(action.get("storage_class") or action["type"]), condition.get("age")
                prefixes = [prefix for prefix in condition.get("matches_prefix") or () if "log" not in prefix]
                if prefixes or not condition.get("matches_prefix"):
                    yield bucket.address, [], age if age is not None else "any", kind


def _is_of_replaced(condition: Json) -> bool:
    """Say whether a condition is about replaced versions only."""
    fields = ("days_since_noncurrent_time", "num_newer_versions", "noncurrent_time_before")
    return condition.get("with_state") == "ARCHIVED" or any(condition.get(field) for field in fields)


@policy("https://docs.cloud.google.com/storage/docs/lifecycle", Severity.ADVICE)
def replaced_versions_are_kept_for_a_week(environment: Environment) -> Iterator[Problem]:
    """Replaced versions are the way back from a mistake, which is noticed after days."""
    for bucket in environment.of_type("google_storage_bucket"):
        for condition in (rule["condition"][0] for rule in bucket.values.get("lifecycle_rule") or ()):
            days = condition.get("days_since_noncurrent_time")
            if days and days < 7:
                yield Problem(bucket.address, "lifecycle_rule.days_since_noncurrent_time", days, "must be at least 7")


# who encrypts with a key by the resources that name it, and how a policy of the key says so
_ENCRYPTERS = {
    "aws_cloudwatch_log_group": ("kms_key_id", r"logs\.[a-z0-9-]+\.amazonaws\.com"),
    "aws_launch_template": ("block_device_mappings", r"autoscaling\.amazonaws\.com|AWSServiceRoleForAutoScaling"),
    "aws_sqs_queue": ("kms_master_key_id", r"events\.amazonaws\.com"),
    "aws_sns_topic": ("kms_master_key_id", r"(events|budgets|costalerts)\.amazonaws\.com"),
}


@policy("https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html")
def key_policies_admit_who_encrypts(environment: Environment) -> Iterator[Problem]:
    """A service that a key's policy leaves out cannot encrypt: log groups are refused, nodes end at once."""
    for key in environment.of_type("aws_kms_key"):
        statements = [statement for owner, _, statement in documents(environment) if owner is key]
        admitted = [json.dumps(statement) for statement in statements if statement["Effect"] == "Allow"]
        if admitted and not any(":root" in text and '"kms:*"' in text for text in admitted):
            yield Problem(key.address, "policy", "", "must allow kms:* to the account, or nobody can change it again")
        for kind, (field, pattern) in _ENCRYPTERS.items() if admitted else ():
            users = [user.address for user in environment.of_type(kind) if _names_key(user.values.get(field), key)]
            granted = [text for text in admitted if re.search(pattern, text)]
            if users and not granted:
                allowed = f"must have a statement for {pattern}: {users[0]} is encrypted with it"
                yield Problem(key.address, "policy.Principal", "", allowed)
            if users and kind == "aws_launch_template" and not any("CreateGrant" in text for text in granted):
                yield Problem(
                    key.address, "policy.Action", "", "must allow kms:CreateGrant, by which EC2 attaches disks"
                )


def _names_key(value: object, key: Resource) -> bool:
    return any(str(key.values[name]) in str(value) for name in ("arn", "id") if key.values.get(name))


_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/concepts/maintenance-windows-and-exclusions")
def maintenance_windows_are_long_enough(environment: Environment) -> Iterator[Problem]:
    """GKE refuses windows below 4 hours, or 48 hours in 32 days."""
    for cluster, start, end, recurrence in _windows(environment):
        hours = (end - start).total_seconds() / 3600
        days = re.search(r"BYDAY=([A-Z,]+)", recurrence)
        monthly = hours * (32 / 7 * len(days[1].split(",")) if days else 32 if "DAILY" in recurrence else 0)
        field = "maintenance_policy.recurring_window"
        if hours < 4:
            yield Problem(cluster.address, f"{field}.end_time", f"{hours:g} hours", "must be at least 4 hours")
        elif monthly < 48 or "MONTHLY" in recurrence:
            allowed = f"the windows last {monthly:.0f} hours in 32 days: must be at least 48"
            yield Problem(cluster.address, f"{field}.recurrence", recurrence, allowed)


@policy("https://docs.aws.amazon.com/fsx/latest/LustreGuide/maintenance-windows.html", Severity.ADVICE)
def maintenance_is_outside_of_nights_and_business_hours(environment: Environment) -> Iterator[Problem]:
    """Maintenance ends nodes and stops file systems: training runs at night, and people work on weekdays."""
    for cluster, start, end, recurrence in _windows(environment):
        named = re.search(r"BYDAY=([A-Z,]+)", recurrence)
        weekdays = {*(named[1].split(",") if named else _DAYS)} - {"SA", "SU"}
        if start.hour < 6 or end.hour > 22 or end.date() > start.date():
            allowed = "must lie between 6:00 and 22:00 UTC: training runs at night"
            yield Problem(cluster.address, "maintenance_policy.recurring_window.start_time", str(start), allowed)
        elif weekdays and start.hour < 18 and end.hour > 7:
            yield Problem(cluster.address, "maintenance_policy.recurring_window", recurrence, "must be SA, SU")
    for resource in environment.resources:
        for field in ("weekly_maintenance_start_time", "preferred_maintenance_window"):
            text = str(resource.values.get(field) or "")
            # 1:05:00 is a Monday, and so is mon:05:00-mon:06:00
            if (match := re.match(r"(\d|[a-z]{3}):(\d\d):", text, re.IGNORECASE)) and _disturbs(
                match[1], int(match[2])
            ):
                yield Problem(resource.address, field, text, "must be a weekend's day: nights train, weekdays work")


def _disturbs(day: str, hour: int) -> bool:
    return not 6 <= hour < 22 or (day.lower() not in ("6", "7", "sat", "sun") and 7 <= hour < 18)


def _windows(environment: Environment) -> Iterator[tuple[Resource, datetime, datetime, str]]:
    for cluster in environment.of_type("google_container_cluster"):
        if window := cluster.block("maintenance_policy", "recurring_window"):
            start, end = (datetime.fromisoformat(window[name]) for name in ("start_time", "end_time"))
            yield cluster, start, end, window["recurrence"]


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
                is_locked = resource.values.get("object_lock_enabled")  # nothing deletes what such a bucket holds
                if not is_locked and bool(resource.values.get(field)) == protected:
                    allowed = f"must be {not protected}, as the cluster's deletion_protection is {protected}"
                    yield Problem(resource.address, field, resource.values.get(field), allowed)


@policy("https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html", Severity.EXPOSES)
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


@policy("https://docs.aws.amazon.com/cost-management/latest/userguide/getting-started-ad.html", Severity.ADVICE)
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


@policy(
    "https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Notification.html", Severity.ADVICE
)
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
