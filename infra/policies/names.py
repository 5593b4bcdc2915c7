"""The clouds' own names: events, principals, conditions, ARNs, roles. Unknown names never match."""

import json
import re
from collections.abc import Iterator
from typing import Any

import yaml

from infra.policies.model import Environment, Json, Problem, Resource, policy, table

# arguments that hold a document of IAM
_DOCUMENTS = ("policy", "assume_role_policy")
_TABLE = "infra/policies/tables/names.yaml"


def documents(environment: Environment) -> Iterator[tuple[Resource, str, Json]]:
    """Yield the resources with statements of IAM, the argument they stand in, and each statement."""
    for resource in environment.resources:
        for argument in _DOCUMENTS:
            text = resource.values.get(argument)
            if isinstance(text, str) and '"Statement"' in text:
                yield from ((resource, argument, statement) for statement in json.loads(text)["Statement"])


def as_list(value: Any) -> list[Any]:
    """Return a list as it is and anything else as a list of one."""
    return value if isinstance(value, list) else [value]


def fill_in(environment: Environment, pattern: str) -> str:
    """Return a pattern of a table with the environment's own names in it."""
    for name, fact in environment.facts.items():
        pattern = pattern.replace(f"{{{name}}}", re.escape(fact) if fact else ".*")
    return pattern


@policy(_TABLE)
def events_are_sent(environment: Environment) -> Iterator[Problem]:
    """A rule of EventBridge waits for what its source sends."""
    sent = table("names")["events"]
    for rule in environment.of_type("aws_cloudwatch_event_rule"):
        pattern = json.loads(rule.values.get("event_pattern") or "{}")
        for source in pattern.get("source", []):
            for detail in pattern.get("detail-type", []):
                if detail not in sent.get(source, []):
                    allowed = f"{source} sends {', '.join(sent.get(source, [])) or 'nothing that is known'}"
                    yield Problem(rule.address, "event_pattern.detail-type", detail, f"{allowed} ({sent['source']})")


@policy("https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-targets.html")
def every_event_rule_has_a_target_that_lets_it_in(environment: Environment) -> Iterator[Problem]:
    """A target is the queue that is read; a rule without one, and a queue whose policy names others, do nothing."""
    queues, targets = environment.of_type("aws_sqs_queue"), environment.of_type("aws_cloudwatch_event_target")
    for target in targets if queues else ():
        owner = environment.owners.get(str(target.values.get("arn")))
        if owner and owner not in queues:
            yield Problem(target.address, "arn", owner.address, f"it is {queues[0].address}")
    aimed = {target.values.get("rule") for target in targets}
    admitted = {
        arn
        for policy in environment.of_type("aws_sqs_queue_policy")
        for statement in json.loads(policy.values.get("policy") or '{"Statement": []}')["Statement"]
        for arn in as_list(statement.get("Condition", {}).get("ArnEquals", {}).get("aws:SourceArn", []))
    }
    for rule in environment.of_type("aws_cloudwatch_event_rule"):
        if aimed and rule.values.get("name") not in aimed:
            yield Problem(
                rule.address, "name", rule.values.get("name"), "an aws_cloudwatch_event_target has to name it"
            )
        if admitted and rule.values.get("arn") and rule.values["arn"] not in admitted:
            yield Problem(rule.address, "arn", rule.values["arn"], "the queue's policy has to name it in aws:SourceArn")


@policy(_TABLE)
def services_are_trusted_as_they_ask(environment: Environment) -> Iterator[Problem]:
    """A statement for a service names one that exists, what it asks for, and whose resources it may act for."""
    known = {name.format(**environment.facts): row for name, row in table("names")["principals"].items()}
    for resource, argument, statement in documents(environment):
        principal = statement.get("Principal", {})
        for name in as_list(principal.get("Service", [])) if isinstance(principal, dict) else ():
            where, row = f"{argument}.Principal.Service", known.get(name)
            if row is None:
                yield Problem(resource.address, where, name, f"a request comes from one of {', '.join(sorted(known))}")
                continue
            missing = {*row["actions"]} - {*as_list(statement.get("Action", []))}
            if missing:
                allowed = f"{name} asks for {', '.join(sorted(missing))} too ({row['source']})"
                yield Problem(resource.address, f"{argument}.Action", statement.get("Action"), allowed)
            keys = {key for keys in statement.get("Condition", {}).values() for key in keys}
            for key in {*row.get("conditions", ())} - keys:
                allowed = f"without {key} anybody's {name} is let in ({row['source']})"
                yield Problem(resource.address, f"{argument}.Condition", sorted(keys), allowed)


@policy(_TABLE)
def conditions_compare_what_is_sent(environment: Environment) -> Iterator[Problem]:
    """A condition's key is one that requests bear, its operator fits, and its value is one that is sent."""
    rows = {row["key"].format(**environment.facts): row for row in table("names")["conditions"]}
    for resource, argument, statement in documents(environment):
        for operator, keys in statement.get("Condition", {}).items():
            for key, values in keys.items():
                where, row = f"{argument}.Condition.{operator}.{key}", rows.get(key)
                if row is None:
                    allowed = f"no request bears the key {key}; if one does, say so in {_TABLE}"
                    yield Problem(resource.address, where, values, allowed)
                    continue
                if operator not in row["operators"]:
                    allowed = f"its operator is {' or '.join(row['operators'])} ({row['source']})"
                    yield Problem(resource.address, where, values, allowed)
                pattern = fill_in(environment, row["value"])
                for value in as_list(values):
                    if not re.fullmatch(pattern, str(value)):
                        yield Problem(resource.address, where, value, f"what is sent is {pattern} ({row['source']})")


@policy(_TABLE)
def arns_are_of_this_account_and_region(environment: Environment) -> Iterator[Problem]:
    """An ARN of another form, region or account names nothing of this environment."""
    patterns = {name: fill_in(environment, pattern) for name, pattern in table("names")["arns"].items()}
    for resource, argument, statement in documents(environment):
        for arn in as_list(statement.get("Resource", [])):
            service = arn.split(":")[2] if arn.startswith("arn:") else ""
            if service and resource.address.endswith("sources"):
                continue  # another account's, whose number is not known here
            if service and not re.fullmatch(patterns.get(service, ".*"), arn):
                yield Problem(resource.address, f"{argument}.Resource", arn, f"it has to match {patterns[service]}")


@policy(_TABLE)
def actions_are_called_as_the_service_calls_them(environment: Environment) -> Iterator[Problem]:
    """IAM accepts an action that no service has; it grants nothing."""
    known = table("names")["actions"]
    for resource, argument, statement in documents(environment):
        for action in as_list(statement["Action"]):
            service, _, name = action.partition(":")
            if name != "*" and name not in known.get(service, []):
                allowed = f"{service} has {', '.join(known.get(service, [])) or 'none that is known'}"
                yield Problem(
                    resource.address, f"{argument}.Action", action, f"{allowed}; if another, say so in {_TABLE}"
                )


@policy("https://docs.aws.amazon.com/aws-managed-policy/latest/reference/policy-list.html")
def managed_policies_are_there_and_fit_their_role(environment: Environment) -> Iterator[Problem]:
    """A policy of AWS's is attached by its whole name, to a role that what needs it takes."""
    known = table("names")["managed_policies"]
    trusted = {role.values.get("name"): _services(role) for role in environment.of_type("aws_iam_role")}
    for attached in environment.of_type("aws_iam_role_policy_attachment"):
        arn, role = str(attached.values.get("policy_arn", "")), attached.values.get("role")
        name = arn.partition(":policy/")[2]
        if ":aws:policy/" in arn and name not in known:
            yield Problem(attached.address, "policy_arn", arn, f"AWS's policies are {', '.join(sorted(known))}")
        elif name in known and trusted.get(role) and known[name] not in trusted[role]:
            allowed = f"it is for roles that {known[name]} takes, and {role} is one of {', '.join(trusted[role])}"
            yield Problem(attached.address, "policy_arn", arn, allowed)
    for association in environment.of_type("aws_eks_access_policy_association"):
        name = str(association.values.get("policy_arn", "")).rpartition("/")[2]
        if name and name not in table("names")["access_policies"]:
            allowed = f"EKS has {', '.join(table('names')['access_policies'])}"
            yield Problem(association.address, "policy_arn", name, allowed)


def _services(role: Resource) -> list[str]:
    statements = json.loads(role.values.get("assume_role_policy") or '{"Statement": []}')["Statement"]
    return [name for statement in statements for name in as_list(statement.get("Principal", {}).get("Service", []))]


@policy("https://docs.aws.amazon.com/eks/latest/userguide/control-plane-logs.html")
def services_write_to_groups_of_these_names(environment: Environment) -> Iterator[Problem]:
    """EKS writes its logs to a group of a fixed name; one of another name stays empty and the real one unencrypted."""
    names = {group.values.get("name") for group in environment.of_type("aws_cloudwatch_log_group")}
    for cluster in environment.of_type("aws_eks_cluster"):
        wanted = f"/aws/eks/{cluster.values['name']}/cluster"
        for group in environment.of_type("aws_cloudwatch_log_group"):
            if wanted not in names and "eks" in str(group.values.get("name")):
                yield Problem(group.address, "name", group.values.get("name"), f"EKS writes to {wanted}")


@policy("https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-privatelink-support.html")
def endpoints_are_of_services_that_have_one(environment: Environment) -> Iterator[Problem]:
    """The name of an endpoint's service ends with one that AWS offers, in this region."""
    known = table("names")["endpoints"]
    for endpoint in environment.of_type("aws_vpc_endpoint"):
        name = str(endpoint.values.get("service_name"))
        start = f"com.amazonaws.{environment.region}."
        if not name.startswith(start) or name.removeprefix(start) not in known:
            yield Problem(endpoint.address, "service_name", name, f"it is {start} and one of {', '.join(known)}")


@policy("https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-restrict-access-examples.html")
def tags_that_rights_ask_for_are_borne(environment: Environment) -> Iterator[Problem]:
    """A permission on instances by name is void if no template launches instances with that name."""
    borne = {
        entry["tags"].get("Name")
        for template in environment.of_type("aws_launch_template")
        for entry in template.values.get("tag_specifications") or ()
        if entry["resource_type"] == "instance" and entry.get("tags")
    }
    for resource, argument, statement in documents(environment):
        for keys in statement.get("Condition", {}).values():
            for name in as_list(keys.get("ssm:resourceTag/Name", [])):
                if name not in borne:
                    allowed = f"launch templates name instances {', '.join(sorted(filter(None, borne)))}"
                    yield Problem(resource.address, f"{argument}.Condition.ssm:resourceTag/Name", name, allowed)


@policy("infra/policies/tables/names.yaml, tags")
def tags_are_those_that_are_looked_for(environment: Environment) -> Iterator[Problem]:
    """A tag with a service's prefix is one that the service looks for, with the value that it looks for."""
    known = table("names")["tags"]
    for where, field, key, value in _tags(environment):
        pattern = next((row for name, row in known.items() if re.fullmatch(fill_in(environment, name), key)), None)
        if pattern is None:
            yield Problem(where, field, key, f"nobody looks for it; there are {', '.join(known)}")
        elif not re.fullmatch(fill_in(environment, pattern), str(value)):
            yield Problem(where, f"{field}.{key}", value, f"it is {fill_in(environment, pattern)}")


def _tags(environment: Environment) -> Iterator[tuple[str, str, str, str]]:
    for resource in environment.resources:
        for key, value in (resource.values.get("tags") or {}).items():
            if "/" in key:
                yield resource.address, "tags", key, value
        if resource.type == "aws_autoscaling_group_tag":
            yield resource.address, "tag", resource.block("tag")["key"], resource.block("tag")["value"]


@policy("https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/cloudprovider/aws/README.md")
def an_empty_group_is_described_as_its_nodes_are(environment: Environment) -> Iterator[Problem]:
    """What the autoscaler is told of a group by tags is what its nodes have: labels, taints, GPUs."""
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
        wanted = labels | taints | ({} if gpus == "shared" else {"resources/nvidia.com/gpu": gpus})
        ignored = {"resources/vpc.amazonaws.com/efa"} | ({"resources/nvidia.com/gpu"} if gpus == "shared" else {*()})
        for key in sorted({*wanted, *tags} - ignored):
            if tags and tags.get(key) != wanted.get(key):
                field = f"k8s.io/cluster-autoscaler/node-template/{key}"
                yield Problem(group.address, field, tags.get(key), f"its nodes have {wanted.get(key)}")


@policy("https://karpenter.sh/docs/concepts/disruption/#interruption")
def karpenter_hears_of_every_interruption(environment: Environment) -> Iterator[Problem]:
    """Each of the four events has its rule."""
    rules = environment.of_type("aws_cloudwatch_event_rule")
    heard = {detail for rule in rules for detail in json.loads(rule.values["event_pattern"]).get("detail-type", [])}
    for detail in {*table("names")["of_karpenter"]} - heard if rules else ():
        yield Problem("aws_cloudwatch_event_rule", "event_pattern.detail-type", sorted(heard), f"{detail} has no rule")


@policy("https://docs.aws.amazon.com/AmazonS3/latest/userguide/security-best-practices.html")
def everybody_is_refused_and_not_let_in(environment: Environment) -> Iterator[Problem]:
    """A statement for everybody denies what is not encrypted, or is about callers of this account."""
    for resource, argument, statement in documents(environment):
        keys = {key for keys in statement.get("Condition", {}).values() for key in keys}
        wanted = "Deny" if "aws:SecureTransport" in keys else "Allow"
        if statement["Effect"] != wanted:
            allowed = f"it is {wanted}: what is not encrypted is refused, and nothing else"
            yield Problem(resource.address, f"{argument}.Effect", statement["Effect"], allowed)
        anybody = statement.get("Principal") in ("*", {"AWS": "*"})
        if anybody and statement["Effect"] == "Allow" and not {"kms:CallerAccount", "aws:PrincipalAccount"} & keys:
            allowed = "everybody is let in: a condition names the caller's account"
            yield Problem(resource.address, f"{argument}.Principal", statement["Principal"], allowed)


@policy("https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-restrict-access-examples.html")
def documents_that_rights_name_are_there(environment: Environment) -> Iterator[Problem]:
    """A right to a session's document is to one that is made here."""
    names = {document.values.get("name") for document in environment.of_type("aws_ssm_document")}
    for resource, argument, statement in documents(environment):
        for arn in as_list(statement.get("Resource", [])):
            name = arn.partition(":document/")[2]
            if name and name not in names:
                yield Problem(resource.address, f"{argument}.Resource", arn, f"there is {', '.join(map(str, names))}")


@policy("infra/cluster/charts.yaml")
def charts_are_told_what_terraform_makes(environment: Environment) -> Iterator[Problem]:
    """The cluster, queue and folders that the command line gives charts are those that are there."""
    queues = {queue.values.get("name") for queue in environment.of_type("aws_sqs_queue")}
    cluster, stores = environment.facts["cluster"], table("names")["stores"][environment.cloud]
    written = {folder for uses in stores.values() for folder in uses["writes"]} | {"airflow"}
    for chart in yaml.safe_load((environment.infra / "cluster" / "charts.yaml").read_text()):
        where = f"infra/cluster/charts.yaml {chart['name']}"
        for key, text in chart.get("set", {}).items():
            value = str(text).replace("{cluster}", cluster)
            if environment.cloud in chart["clouds"] and key.endswith("lusterName") and value != cluster:
                yield Problem(where, key, text, f"the cluster is {cluster}")
            if key.endswith("interruptionQueue") and queues and value not in queues:
                yield Problem(where, key, text, f"the queue is {', '.join(map(str, queues))}")
            folder = value.partition("$STORE/")[2]
            if folder and folder not in written:
                yield Problem(where, key, text, f"folders that pods write are {', '.join(sorted(written))}")


@policy("https://docs.aws.amazon.com/cost-management/latest/userguide/getting-started-ad.html")
def anomalies_are_looked_for_where_the_budget_looks(environment: Environment) -> Iterator[Problem]:
    """The monitor's tag is one of the budget's, with its value."""
    watched = {
        (tag["key"], value)
        for budget in environment.of_type("aws_budgets_budget")
        for part in budget.block("filter_expression").get("and") or ()
        for tag in part["tags"]
        for value in tag["values"]
    }
    for monitor in environment.of_type("aws_ce_anomaly_monitor"):
        tags = json.loads(monitor.values.get("monitor_specification") or "{}").get("Tags") or {}
        if watched and any((tags.get("Key"), value) not in watched for value in tags.get("Values", [None])):
            yield Problem(monitor.address, "monitor_specification.Tags", tags, f"the budget watches {sorted(watched)}")


@policy("https://docs.cloud.google.com/iam/docs/roles-overview")
def roles_fit_what_they_are_granted_on(environment: Environment) -> Iterator[Problem]:
    """A role of Google Cloud holds permissions on what it is granted on, and on little else."""
    for kind, patterns in table("names")["roles"].items():
        for grant in environment.of_type(kind):
            role = str(grant.values.get("role", ""))
            if role and not any(re.fullmatch(pattern, role) for pattern in patterns):
                yield Problem(grant.address, "role", role, f"what fits is {' or '.join(patterns)}")


@policy("https://docs.cloud.google.com/iam/docs/service-agents")
def service_agents_are_called_so(environment: Environment) -> Iterator[Problem]:
    """What encrypts with a key has a service agent that may, and a grant to another name is one to nobody."""
    patterns = table("names")["agents"]
    grants = environment.of_type("google_kms_crypto_key_iam_member")
    members = {str(grant.values.get("member", "")): grant.address for grant in grants}
    for kind, pattern in patterns.items():
        if environment.of_type(kind) and any(members) and not any(re.fullmatch(pattern, member) for member in members):
            yield Problem("google_kms_crypto_key_iam_member", "member", sorted(members), f"{kind} needs {pattern}")
    for member, address in members.items():
        written = "@" in member and ".iam." in member and "service-" in member
        if written and not any(re.fullmatch(pattern, member) for pattern in patterns.values()):
            yield Problem(address, "member", member, f"it is one of {', '.join(patterns.values())}")
