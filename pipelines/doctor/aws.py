"""Quotas of AWS: vCPUs by family and market, disks, addresses (Service Quotas)."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from nightshift.runtime.errors import UnavailableError, UserError, require_extra
from pipelines.doctor.kubernetes import Json
from pipelines.doctor.quotas import QuotaDemand, QuotaDemands, QuotaKey, QuotaLimit

SPOT, ON_DEMAND = "SPOT", "ON_DEMAND"
# market and family -> code; the names are in docs/runbooks/gpu-quota.md. P5 has a quota of its own on spot only.
CODES = {
    (ON_DEMAND, "standard"): "L-1216C47A",
    (ON_DEMAND, "g"): "L-DB2E81BA",
    (ON_DEMAND, "p"): "L-417A185B",
    (ON_DEMAND, "p5"): "L-417A185B",
    (SPOT, "standard"): "L-34B43A08",
    (SPOT, "g"): "L-3819A6DF",
    (SPOT, "p"): "L-7212CCBC",
    (SPOT, "p5"): "L-C4BD4855",
}
ADDRESSES = QuotaKey("ec2", "L-0263D0A3", "Elastic IPs")
DISKS = QuotaKey("ebs", "L-7A658B76", "TiB of gp3")
RIGHTS = "servicequotas:Get* and ec2:Describe*"
TEMPLATE, GROUP, ADDRESS = "aws_launch_template", "aws_eks_node_group", "aws_eip"


class AwsQuotas:
    """The quotas of one region."""

    def __init__(self, quotas: Any, machines: Any) -> None:
        """Makes no calls.

        Args:
            quotas: boto3's client of `service-quotas`.
            machines: that of `ec2`.
        """
        self._quotas, self._machines = quotas, machines

    def find(self, key: QuotaKey) -> QuotaLimit | None:
        """See `Quotas`; an account that never asked for another value has the default."""
        wanted = {"ServiceCode": key.scope, "QuotaCode": key.name}
        for read in (self._quotas.get_service_quota, self._quotas.get_aws_default_service_quota):
            if answer := call(partial(read, **wanted), RIGHTS):
                quota = answer["Quota"]
                request = f"aws service-quotas request-service-quota-increase --service-code {key.scope}"
                fix = f"{request} --quota-code {key.name} --desired-value {{amount}}"
                return QuotaLimit(str(quota["QuotaName"]), float(quota["Value"]), fix)
        return None

    def demand(self, resources: Sequence[Json]) -> Mapping[QuotaKey, QuotaDemand]:
        """See `Quotas`: node groups at their largest, with their disks, and addresses."""
        demands = QuotaDemands()
        groups = [resource for resource in resources if resource["type"] == GROUP]
        cpus = self._count_cpus({name for group in groups for name in group["values"]["instance_types"] or []})
        for group in groups:
            _add_group(demands, group, cpus)
        for template in [resource for resource in resources if resource["type"] == TEMPLATE]:
            _add_disks(demands, template, groups)
        for address in [resource for resource in resources if resource["type"] == ADDRESS]:
            demands.add(ADDRESSES, 1, address["address"])
        return demands

    def _count_cpus(self, names: Iterable[str]) -> dict[str, int]:
        """Return instance type -> vCPUs."""
        describe = self._machines.describe_instance_types
        answer = call(lambda: describe(InstanceTypes=sorted(names)), RIGHTS) if names else {}
        return {entry["InstanceType"]: entry["VCpuInfo"]["DefaultVCpus"] for entry in answer.get("InstanceTypes", [])}


def connect(region: str) -> AwsQuotas:
    """Return the quotas of a region, with the user's credentials."""
    with require_extra("doctor --cloud aws", "aws"):
        import boto3
    return AwsQuotas(boto3.client("service-quotas", region_name=region), boto3.client("ec2", region_name=region))


class AwsRefusalError(UserError):
    """AWS refuses a request.

    Attributes:
        reason: its own words.
    """

    def __init__(self, error: Any, rights: str) -> None:
        """Store the reason of a ClientError, with the rights that the request needs as the next step."""
        super().__init__(f"AWS refuses: {error}; your role needs {rights}")
        self.reason = str(error)


def call(request: Callable[[], Any], rights: str) -> Json:
    """Return an answer; empty when there is no such thing.

    Args:
        request: makes a call of boto3.
        rights: IAM actions that it needs.

    Raises:
        AwsRefusalError: when AWS refuses.
        UserError: without a login.
        UnavailableError: when AWS does not answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    try:
        return dict(request())
    except ClientError as error:
        code, status = error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]
        if code == "NoSuchResourceException":
            return {}
        if status >= 500 or "Throttl" in code or code == "TooManyRequestsException":
            raise UnavailableError(f"AWS answers {code}; run it again") from None
        raise AwsRefusalError(error, rights) from None
    except NoCredentialsError as error:
        raise UserError(f"AWS: {error}; log in with: aws sso login") from None
    except BotoCoreError as error:
        raise UnavailableError(f"AWS does not answer: {error}") from None


def _add_group(demands: QuotaDemands, group: Json, cpus: Mapping[str, int]) -> None:
    """Count a node group's vCPUs: of each family of its types, that of the largest type."""
    values = group["values"]
    largest = dict[str, int]()
    for name in values["instance_types"] or []:
        family = CODES[values["capacity_type"] or ON_DEMAND, _family(name)]
        largest[family] = max(largest.get(family, 0), cpus.get(name, 0))
    for code, count in largest.items():
        demands.add(QuotaKey("ec2", code, "vCPUs"), count * _size(group), _pool(group))


def _add_disks(demands: QuotaDemands, template: Json, groups: Sequence[Json]) -> None:
    size = sum(_size(group) for group in groups if _pool(group) == _pool(template))
    for device in template["values"]["block_device_mappings"]:
        for disk in [disk for disk in device["ebs"] if disk["volume_type"] == "gp3"]:
            demands.add(DISKS, size * disk["volume_size"] / 1024, _pool(template))


def _family(name: str) -> str:
    if name.startswith("p5"):
        return "p5"
    letters = re.match("[a-z]+", name)
    return letters[0] if letters and letters[0] in ("g", "p") else "standard"


def _size(group: Json) -> int:
    return int(group["values"]["scaling_config"][0]["max_size"])


def _pool(resource: Json) -> str:
    """Return the address of a resource's module, which a node group shares with its template."""
    return str(resource["address"]).rpartition(".aws_")[0].removeprefix("module.")
