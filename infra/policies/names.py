"""The clouds' own names: events, principals, conditions, ARNs, roles. An unknown name matches nothing."""

import json
import re
from collections.abc import Iterator
from typing import Any

from infra.policies.model import Environment, Json, Problem, Resource, Severity, judge_unknown, one_of, policy, table
from nightshift.runtime import strict_yaml

# arguments that hold a document of IAM
_DOCUMENTS = ("policy", "assume_role_policy")
_TABLE = "infra/policies/tables/names.yaml"


def documents(environment: Environment) -> Iterator[tuple[Resource, str, Json]]:
    """Yield each IAM statement with its resource and argument."""
    for resource in environment.resources:
        for argument in _DOCUMENTS:
            text = resource.values.get(argument)
            if isinstance(text, str) and '"Statement"' in text:
                yield from ((resource, argument, statement) for statement in json.loads(text)["Statement"])


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged, and any other value as a list of one."""
    return value if isinstance(value, list) else [value]


def fill_in(environment: Environment, pattern: str) -> str:
    """Return a pattern of a table with the environment's names in place of placeholders."""
    for name, fact in environment.facts.items():
        pattern = pattern.replace(f"{{{name}}}", re.escape(fact) if fact else ".*")
    return pattern


@policy(_TABLE)
def event_patterns_match_events_of_their_source(environment: Environment) -> Iterator[Problem]:
    """An EventBridge rule for an event that its source does not send never fires."""
    events = table("names")["events"]
    for rule in environment.of_type("aws_cloudwatch_event_rule"):
        pattern = json.loads(rule.values.get("event_pattern") or "{}")
        for source in pattern.get("source", []):
            for detail in pattern.get("detail-type", []):
                if detail not in events.get(source, []):
                    allowed = f"{source} sends {', '.join(events.get(source, [])) or 'no known events'}"
                    yield Problem(rule.address, "event_pattern.detail-type", detail, f"{allowed} ({events['source']})")


@policy("https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-targets.html")
def event_rules_target_a_queue_that_admits_them(environment: Environment) -> Iterator[Problem]:
    """Events are lost where a rule has no target, or a target other than the queue, or the queue refuses the rule."""
    queues, targets = environment.of_type("aws_sqs_queue"), environment.of_type("aws_cloudwatch_event_target")
    for target in targets if queues else ():
        owner = environment.owners.get(str(target.values.get("arn")))
        if owner and owner not in queues:
            yield Problem(target.address, "arn", owner.address, f"must be {queues[0].address}")
    targeted = {target.values.get("rule") for target in targets}
    admitted = {
        arn
        for policy in environment.of_type("aws_sqs_queue_policy")
        for statement in json.loads(policy.values.get("policy") or '{"Statement": []}')["Statement"]
        for arn in as_list(statement.get("Condition", {}).get("ArnEquals", {}).get("aws:SourceArn", []))
    }
    for rule in environment.of_type("aws_cloudwatch_event_rule"):
        if targeted and rule.values.get("name") not in targeted:
            allowed = "no aws_cloudwatch_event_target refers to this rule"
            yield Problem(rule.address, "name", rule.values.get("name"), allowed)
        if admitted and rule.values.get("arn") and rule.values["arn"] not in admitted:
            allowed = "the queue's policy must list it in aws:SourceArn"
            yield Problem(rule.address, "arn", rule.values["arn"], allowed)


@policy(_TABLE, Severity.EXPOSES)
def service_principals_have_their_actions_and_conditions(environment: Environment) -> Iterator[Problem]:
    """A service that lacks an action is refused, and one without a condition may act for any AWS account."""
    known = {name.format(**environment.facts): row for name, row in table("names")["principals"].items()}
    for resource, argument, statement in documents(environment):
        principal = statement.get("Principal", {})
        for name in as_list(principal.get("Service", [])) if isinstance(principal, dict) else ():
            where, row = f"{argument}.Principal.Service", known.get(name)
            if row is None:
                allowed, severity = judge_unknown(name, known)
                yield Problem(resource.address, where, name, allowed, severity=severity)
                continue
            missing = {*row["actions"]} - {*as_list(statement.get("Action", []))}
            if missing:
                allowed = f"{name} also requires {', '.join(sorted(missing))} ({row['source']})"
                yield Problem(resource.address, f"{argument}.Action", statement.get("Action"), allowed)
            keys = {key for keys in statement.get("Condition", {}).values() for key in keys}
            for key in {*row.get("conditions", ())} - keys:
                allowed = f"must include {key}, or {name} may act for any account ({row['source']})"
                yield Problem(resource.address, f"{argument}.Condition", sorted(keys), allowed)


@policy(_TABLE)
def conditions_match_the_keys_and_values_of_requests(environment: Environment) -> Iterator[Problem]:
    """A condition on a key or value that no request has is never true."""
    rows = {row["key"].format(**environment.facts): row for row in table("names")["conditions"]}
    for resource, argument, statement in documents(environment):
        for operator, keys in statement.get("Condition", {}).items():
            for key, values in keys.items():
                where, row = f"{argument}.Condition.{operator}.{key}", rows.get(key)
                if row is None:
                    allowed, severity = judge_unknown(key, rows)
                    yield Problem(resource.address, where, values, allowed, severity=severity)
                    continue
                if operator not in row["operators"]:
                    allowed = f"the operator must be {' or '.join(row['operators'])} ({row['source']})"
                    yield Problem(resource.address, where, values, allowed)
                pattern = fill_in(environment, row["value"])
                for value in as_list(values):
                    if not re.fullmatch(pattern, str(value)):
                        yield Problem(resource.address, where, value, f"must match {pattern} ({row['source']})")


@policy(_TABLE)
def arns_belong_to_this_account_and_region(environment: Environment) -> Iterator[Problem]:
    """An ARN of another form, region or account matches nothing in this environment."""
    patterns = {name: fill_in(environment, pattern) for name, pattern in table("names")["arns"].items()}
    for resource, argument, statement in documents(environment):
        for arn in as_list(statement.get("Resource", [])):
            service = arn.split(":")[2] if arn.startswith("arn:") else ""
            if service and resource.address.endswith("sources"):
                continue  # another account's, whose number is not known here
            if service and not re.fullmatch(patterns.get(service, ".*"), arn):
                yield Problem(resource.address, f"{argument}.Resource", arn, f"must match {patterns[service]}")


@policy(_TABLE)
def iam_actions_exist(environment: Environment) -> Iterator[Problem]:
    """IAM accepts an action that does not exist; it grants nothing."""
    known = table("names")["actions"]
    for resource, argument, statement in documents(environment):
        for action in as_list(statement["Action"]):
            service, _, name = action.partition(":")
            if name != "*" and name not in known.get(service, []):
                allowed = f"{service} has no such action: {one_of(known.get(service, []))}; add others to {_TABLE}"
                yield Problem(resource.address, f"{argument}.Action", action, allowed)


@policy(
    "https://docs.github.com/en/actions/how-tos/secure-your-work/security-harden-deployments/oidc-in-aws",
    Severity.EXPOSES,
)
def workflows_are_of_one_owner(environment: Environment) -> Iterator[Problem]:
    """A wildcard in the owner's name lets in the workflows of every owner whose name begins in the same way."""
    for resource, argument, statement in documents(environment):
        for operator, keys in statement.get("Condition", {}).items():
            for subject in as_list(keys.get("token.actions.githubusercontent.com:sub", [])):
                if not re.match(r"repo:[\w-]+/", str(subject)):
                    where = f"{argument}.Condition.{operator}"
                    yield Problem(resource.address, where, subject, "must name an owner, as in repo:OWNER/NAME:*")


@policy("https://docs.aws.amazon.com/aws-managed-policy/latest/reference/policy-list.html")
def managed_policies_exist_and_fit_their_role(environment: Environment) -> Iterator[Problem]:
    """A misspelled managed policy fails the apply, and one on another service's role leaves its own without rights."""
    known = table("names")["managed_policies"]
    trusted = {role.values.get("name"): _services(role) for role in environment.of_type("aws_iam_role")}
    for attachment in environment.of_type("aws_iam_role_policy_attachment"):
        arn, role = str(attachment.values.get("policy_arn", "")), attachment.values.get("role")
        name = arn.partition(":policy/")[2]
        if ":aws:policy/" in arn and name not in known:
            allowed, severity = judge_unknown(name, known)
            yield Problem(attachment.address, "policy_arn", arn, allowed, severity=severity)
        elif name in known and trusted.get(role) and known[name] not in trusted[role]:
            allowed = f"it is for roles of {known[name]}, and {role} trusts {', '.join(trusted[role])}"
            yield Problem(attachment.address, "policy_arn", arn, allowed)
    for association in environment.of_type("aws_eks_access_policy_association"):
        name = str(association.values.get("policy_arn", "")).rpartition("/")[2]
        if name and name not in table("names")["access_policies"]:
            allowed = one_of(table("names")["access_policies"])
            yield Problem(association.address, "policy_arn", name, allowed)


def _services(role: Resource) -> list[str]:
    statements = json.loads(role.values.get("assume_role_policy") or '{"Statement": []}')["Statement"]
    return [name for statement in statements for name in as_list(statement.get("Principal", {}).get("Service", []))]


@policy("https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html")
def log_groups_have_the_name_eks_writes_to(environment: Environment) -> Iterator[Problem]:
    """EKS writes to a log group of a fixed name: another stays empty, and EKS creates its own, unencrypted."""
    names = {group.values.get("name") for group in environment.of_type("aws_cloudwatch_log_group")}
    for cluster in environment.of_type("aws_eks_cluster"):
        expected = f"/aws/eks/{cluster.values['name']}/cluster"
        for group in environment.of_type("aws_cloudwatch_log_group"):
            if expected not in names and "eks" in str(group.values.get("name")):
                yield Problem(
                    group.address, "name", group.values.get("name"), f"must be {expected}, to which EKS writes"
                )


@policy("https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-privatelink-support.html")
def endpoints_name_services_of_this_region(environment: Environment) -> Iterator[Problem]:
    """AWS refuses an endpoint for an unknown service, or for one of another region."""
    known = table("names")["endpoints"]
    for endpoint in environment.of_type("aws_vpc_endpoint"):
        name = str(endpoint.values.get("service_name"))
        start = f"com.amazonaws.{environment.region}."
        if not name.startswith(start) or name.removeprefix(start) not in known:
            yield Problem(
                endpoint.address, "service_name", name, f"must be {start} followed by one of {', '.join(known)}"
            )


@policy("https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-restrict-access-examples.html")
def instance_names_in_conditions_exist(environment: Environment) -> Iterator[Problem]:
    """A permission on instances by name is void if no template launches instances with that name."""
    names = {
        entry["tags"].get("Name")
        for template in environment.of_type("aws_launch_template")
        for entry in template.values.get("tag_specifications") or ()
        if entry["resource_type"] == "instance" and entry.get("tags")
    }
    for resource, argument, statement in documents(environment):
        for keys in statement.get("Condition", {}).values():
            for name in as_list(keys.get("ssm:resourceTag/Name", [])):
                if name not in names:
                    allowed = f"no launch template uses this name: {one_of(filter(None, names))}"
                    yield Problem(resource.address, f"{argument}.Condition.ssm:resourceTag/Name", name, allowed)


@policy("infra/policies/tables/names.yaml, tags")
def service_tags_have_known_keys_and_values(environment: Environment) -> Iterator[Problem]:
    """A service ignores resources whose tag has another key or value than the one it searches for."""
    known = table("names")["tags"]
    for where, field, key, value in _tags(environment):
        pattern = next((row for name, row in known.items() if re.fullmatch(fill_in(environment, name), key)), None)
        if pattern is None:
            yield Problem(where, field, key, f"no service uses this tag: {one_of(known)}")
        elif not re.fullmatch(fill_in(environment, pattern), str(value)):
            yield Problem(where, f"{field}.{key}", value, f"must match {fill_in(environment, pattern)}")


def _tags(environment: Environment) -> Iterator[tuple[str, str, str, str]]:
    for resource in environment.resources:
        for key, value in (resource.values.get("tags") or {}).items():
            if "/" in key:
                yield resource.address, "tags", key, value
        if resource.type == "aws_autoscaling_group_tag":
            yield resource.address, "tag", resource.block("tag")["key"], resource.block("tag")["value"]


@policy("https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md")
def autoscaler_tags_match_the_nodes_of_their_group(environment: Environment) -> Iterator[Problem]:
    """The autoscaler knows an empty group's labels and GPUs by tags: with others it never scales the group up."""
    for group in environment.of_type("aws_eks_node_group"):
        module = group.address.rpartition(".aws_eks_node_group")[0]
        tags = {
            tag.block("tag")["key"].partition("node-template/")[2]: tag.block("tag")["value"]
            for tag in environment.of_type("aws_autoscaling_group_tag")
            if tag.address.startswith(f"{module}.")
        }
        labels = {f"label/{key}": value for key, value in (group.values.get("labels") or {}).items()}
        taints = {f"taint/{taint['key']}": f"{taint['value']}:NoSchedule" for taint in group.values.get("taint") or ()}
        gpus = (group.values.get("labels") or {}).get("nightshift/gpus", "shared")
        expected = labels | taints | ({} if gpus == "shared" else {"resources/nvidia.com/gpu": gpus})
        ignored = {"resources/vpc.amazonaws.com/efa"} | ({"resources/nvidia.com/gpu"} if gpus == "shared" else {*()})
        for key in sorted({*expected, *tags} - ignored):
            if tags and tags.get(key) != expected.get(key):
                field = f"k8s.io/cluster-autoscaler/node-template/{key}"
                yield Problem(
                    group.address, field, tags.get(key), f"must be {expected.get(key, 'absent')}, as on its nodes"
                )


@policy("https://karpenter.sh/docs/concepts/disruption/#interruption")
def karpenter_receives_every_interruption_event(environment: Environment) -> Iterator[Problem]:
    """Karpenter does not drain a node before an interruption whose event has no rule."""
    rules = environment.of_type("aws_cloudwatch_event_rule")
    details = {detail for rule in rules for detail in json.loads(rule.values["event_pattern"]).get("detail-type", [])}
    for detail in {*table("names")["of_karpenter"]} - details if rules else ():
        yield Problem(
            "aws_cloudwatch_event_rule", "event_pattern.detail-type", sorted(details), f"no rule for {detail}"
        )


@policy("https://docs.aws.amazon.com/AmazonS3/latest/userguide/security-best-practices.html", Severity.EXPOSES)
def public_statements_deny_or_require_this_account(environment: Environment) -> Iterator[Problem]:
    """A statement that allows every principal, or allows unencrypted requests, opens the resource to the public."""
    for resource, argument, statement in documents(environment):
        keys = {key for keys in statement.get("Condition", {}).values() for key in keys}
        effect = "Deny" if "aws:SecureTransport" in keys else "Allow"
        if statement["Effect"] != effect:
            allowed = f"must be {effect}: only unencrypted requests are denied"
            yield Problem(resource.address, f"{argument}.Effect", statement["Effect"], allowed)
        is_public = statement.get("Principal") in ("*", {"AWS": "*"})
        if is_public and statement["Effect"] == "Allow" and not {"kms:CallerAccount", "aws:PrincipalAccount"} & keys:
            allowed = "this allows every AWS account: add a condition on the caller's account"
            yield Problem(resource.address, f"{argument}.Principal", statement["Principal"], allowed)


@policy("https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-restrict-access-examples.html")
def iam_policies_name_existing_ssm_documents(environment: Environment) -> Iterator[Problem]:
    """Sessions are refused where a policy allows a document that does not exist."""
    names = {document.values.get("name") for document in environment.of_type("aws_ssm_document")}
    for resource, argument, statement in documents(environment):
        for arn in as_list(statement.get("Resource", [])):
            name = arn.partition(":document/")[2]
            if name and name not in names:
                allowed = f"no SSM document has this name: {one_of(names)}"
                yield Problem(resource.address, f"{argument}.Resource", arn, allowed)


@policy("infra/cluster/charts.yaml")
def chart_values_name_existing_resources(environment: Environment) -> Iterator[Problem]:
    """A chart whose cluster, queue or folder does not exist installs, and its pods then fail."""
    queues = {queue.values.get("name") for queue in environment.of_type("aws_sqs_queue")}
    cluster, stores = environment.facts["cluster"], table("names")["stores"][environment.cloud]
    folders = {folder for uses in stores.values() for folder in uses["writes"]} | {"airflow"}
    for chart in strict_yaml.load_document((environment.infra / "cluster" / "charts.yaml").read_text()):
        where = f"infra/cluster/charts.yaml {chart['name']}"
        for key, text in chart.get("set", {}).items():
            value = str(text).replace("{cluster}", cluster)
            if environment.cloud in chart["clouds"] and key.endswith("lusterName") and value != cluster:
                yield Problem(where, key, text, f"must be the cluster, {cluster}")
            if key.endswith("interruptionQueue") and queues and value not in queues:
                yield Problem(where, key, text, f"no queue has this name: {one_of(queues)}")
            folder = value.partition("$STORE/")[2]
            if folder and folder not in folders:
                yield Problem(where, key, text, f"pods write to no such folder: {one_of(folders)}")


@policy("https://docs.aws.amazon.com/cost-management/latest/userguide/getting-started-ad.html", Severity.ADVICE)
def anomaly_monitors_use_a_tag_of_the_budget(environment: Environment) -> Iterator[Problem]:
    """A monitor of another tag than the budget's misses this environment's costs."""
    budgeted = {
        (tag["key"], value)
        for budget in environment.of_type("aws_budgets_budget")
        for part in budget.block("filter_expression").get("and") or ()
        for tag in part["tags"]
        for value in tag["values"]
    }
    for monitor in environment.of_type("aws_ce_anomaly_monitor"):
        tags = json.loads(monitor.values.get("monitor_specification") or "{}").get("Tags") or {}
        if budgeted and any((tags.get("Key"), value) not in budgeted for value in tags.get("Values", [None])):
            allowed = f"must be a tag of the budget: {one_of(f'{key}={value}' for key, value in budgeted)}"
            yield Problem(monitor.address, "monitor_specification.Tags", tags, allowed)


@policy("https://docs.cloud.google.com/iam/docs/roles-overview")
def roles_fit_the_resource_they_are_granted_on(environment: Environment) -> Iterator[Problem]:
    """A role for another type of resource grants nothing, and a broad role grants too much."""
    for kind, patterns in table("names")["roles"].items():
        for grant in environment.of_type(kind):
            role = str(grant.values.get("role", ""))
            if role and not any(re.fullmatch(pattern, role) for pattern in patterns):
                yield Problem(grant.address, "role", role, f"must match {' or '.join(patterns)}")


@policy("https://docs.cloud.google.com/iam/docs/service-agents")
def key_grants_name_the_service_agents_that_encrypt(environment: Environment) -> Iterator[Problem]:
    """A service whose agent lacks the grant cannot encrypt, and a grant to a misspelled agent grants nothing."""
    patterns = table("names")["agents"]
    grants = environment.of_type("google_kms_crypto_key_iam_member")
    members = {str(grant.values.get("member", "")): grant.address for grant in grants}
    for kind, pattern in patterns.items():
        if environment.of_type(kind) and all(members) and not any(re.fullmatch(pattern, member) for member in members):
            yield Problem(
                "google_kms_crypto_key_iam_member", "member", sorted(members), f"{kind} requires a grant to {pattern}"
            )
    for member, address in members.items():
        is_agent = "@" in member and ".iam." in member and "service-" in member
        if is_agent and not any(re.fullmatch(pattern, member) for pattern in patterns.values()):
            yield Problem(address, "member", member, one_of(patterns.values()))
