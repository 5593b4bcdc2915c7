"""The answers file of an environment, with the settings that only its owner knows.

It is `infra/answers/<cloud>-<environment>.yaml`, or in the folder of the variable NIGHTSHIFT_ANSWERS.
"""

import ipaddress
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError, nearest
from nightshift.runtime.image import ImageName


def choose_folder(infra: Path) -> Path:
    """Return the folder of the files of answers: of a project of one's own, if the variable names it, or of `infra`."""
    return Path(os.environ.get("NIGHTSHIFT_ANSWERS") or infra / "answers")


FOLDER = choose_folder(Path(__file__).parents[1])
Account = Annotated[str, Field(pattern=r"^[0-9]{12}$")]

_SESSION = re.compile(r"arn:(aws[a-z-]*):sts::([0-9]{12}):assumed-role/([\w+=,.@-]+)/[\w+=,.@-]+")


def _name_role(arn: Any) -> Any:
    """Return the role's ARN for that of a session of it, as `aws sts get-caller-identity` prints it."""
    session = _SESSION.fullmatch(arn) if isinstance(arn, str) else None
    if session is None:
        return arn
    partition, account, name = session.groups()
    if name.startswith("AWSReservedSSO_"):
        # IAM Identity Center's roles have a path, which a session's ARN does not name
        command = f"aws iam get-role --role-name {name} --query Role.Arn --output text"
        raise ValueError(f"{arn} is a session of role {name}; give the ARN of the role, which this prints: {command}")
    return f"arn:{partition}:iam::{account}:role/{name}"


Role = Annotated[str, BeforeValidator(_name_role), Field(pattern=r"^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$")]


def _check_range(text: str) -> str:
    try:
        ipaddress.IPv4Network(text)
    except ValueError as error:
        raise ValueError(f"egress: {error}; write IPv4 ranges such as 10.0.0.0/16") from None
    return text


Range = Annotated[str, AfterValidator(_check_range)]
Email = Annotated[str, Field(pattern=r"^[^@\s]+@[^@\s]+$")]
# patterns of values that end up in shell commands
GeographicName = Annotated[str, Field(pattern=r"^[a-z]+(-[a-z0-9]+)+$")]
Registry = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)*$")]
Signer = Annotated[str, Field(pattern=r"^[\w./][\w.:/@-]*$")]
SourceName = Annotated[str, Field(pattern=r"^[\w./][\w.:/=+@%-]*$")]


class Cloud(StrEnum):
    """A cloud that `infra/` has Terraform for."""

    AWS = "aws"
    GCP = "gcp"


class Size(StrEnum):
    """The size of an environment: `infra/<cloud>/<size>.tfvars`."""

    TRY = "try"
    DEV = "dev"
    PROD = "prod"


class Provisioning(StrEnum):
    """The component that provisions GPU nodes."""

    AUTOSCALER = "autoscaler"
    KARPENTER = "karpenter"
    COMPUTE_CLASS = "compute-class"


class Capacity(StrEnum):
    """A capacity type of GPU nodes."""

    RESERVATION = "reservation"
    SPOT = "spot"
    FLEX_START = "flex-start"
    ON_DEMAND = "on-demand"


class Sharing(StrEnum):
    """How small models share one GPU."""

    NONE = "none"
    TIME_SLICING = "time-slicing"
    MIG = "mig"


class AdmissionController(StrEnum):
    """Who verifies the signatures of images when a pod is created."""

    NONE = "none"
    KYVERNO = "kyverno"


class Fabric(StrEnum):
    """The high-bandwidth network between GPU nodes."""

    NONE = "none"
    EFA = "efa"
    GIB = "gib"


# choices that only one cloud offers
OF_ONE_CLOUD = {
    Provisioning.KARPENTER: Cloud.AWS,
    Provisioning.COMPUTE_CLASS: Cloud.GCP,
    Capacity.FLEX_START: Cloud.GCP,
    Sharing.MIG: Cloud.GCP,
    Fabric.EFA: Cloud.AWS,
    Fabric.GIB: Cloud.GCP,
}


class AnswerSection(BaseModel):
    """A section of the answers: immutable; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class AwsAccount(AnswerSection):
    """The AWS account and its users."""

    id: Account = Field(description="account id, 12 digits")
    administrators: list[Role] = Field(description="ARNs of the roles that administer the cluster", min_length=1)
    operators: list[Role] = Field([], description="ARNs of the roles that operate the workloads")
    readers: list[Role] = Field([], description="ARNs of the roles with read access")


class GoogleProject(AnswerSection):
    """The Google Cloud project and its users."""

    id: str = Field(
        description="id of an existing project with billing enabled", pattern=r"^[a-z][a-z0-9-]{4,28}[a-z0-9]$"
    )
    billing_account: str = Field(
        description="id of the project's billing account: gcloud billing accounts list",
        pattern=r"^[0-9A-F]{6}-[0-9A-F]{6}-[0-9A-F]{6}$",
    )
    domain: Annotated[str, Field(pattern=r"^[a-z0-9.-]+$")] | None = Field(
        None, description="domain of the groups nightshift-operators and nightshift-readers; null: administrators only"
    )


class Budget(AnswerSection):
    """The monthly budget and the recipients of its alerts."""

    monthly: int = Field(description="budget per month in USD; on Google Cloud in the billing account's currency", ge=1)
    emails: list[Email] = Field(description="email addresses to alert when the budget is nearly spent", min_length=1)
    anomalies: bool = Field(
        True,
        description="report unusual costs (AWS); false in a member account, where only the management account can",
    )


class GpuChoices(AnswerSection):
    """Provisioning and sharing of GPU nodes; everything is off by default."""

    kueue: bool = Field(
        False, description="queue GPU work by quota with Kueue; a training gets all of its nodes or none"
    )
    provisioning: Provisioning = Field(
        Provisioning.AUTOSCALER,
        description="what provisions GPU nodes: autoscaler, karpenter (AWS) or compute-class (Google Cloud)",
    )
    fallback: list[Capacity] = Field(
        [Capacity.SPOT, Capacity.ON_DEMAND],
        description="capacity types in the order to try: reservation, spot, flex-start (Google Cloud), on-demand",
        min_length=1,
    )
    node_repair: bool = Field(False, description="replace nodes whose GPU reports faults")
    sharing: Sharing = Field(
        Sharing.NONE, description="how small models share a GPU: none, time-slicing or mig (Google Cloud)"
    )
    fabric: Fabric = Field(
        Fabric.NONE, description="high-bandwidth network between GPU nodes: none, efa (AWS) or gib (Google Cloud)"
    )
    preload_images: bool = Field(False, description="pull the GPU image before the first step needs it")

    @model_validator(mode="after")
    def _check_fallback(self) -> Self:
        if len(set(self.fallback)) < len(self.fallback):
            raise ValueError("gpu.fallback names a capacity type twice; name each once")
        return self


class NightlySchedule(AnswerSection):
    """The use case that runs every night, and its data."""

    config: SourceName = Field("fraud", description="use case: a name in pipelines/configs/ or a YAML file")
    data: SourceName = Field(
        "simulator", description="folder of the raw events (s3://, gs:// or /lustre), or simulator"
    )


class LustreNeed(AnswerSection):
    """What loaders read of Lustre, as it was measured."""

    rows_per_second: float = Field(description="rows that all loaders read together, as a run or a plan says", gt=0)
    bytes_per_row: int = Field(description="bytes of a row of what networks see of a day", ge=1)
    gib: int = Field(description="GiB of data that the file system holds", ge=1)


class Waiver(AnswerSection):
    """A finding of `infra/policies` that is allowed for a while."""

    rule: str = Field(description="name of the rule, as the finding prints it", min_length=1)
    resource: str = Field(description="what the finding is about, as it prints it", min_length=1)
    reason: str = Field(description="why it is right here", min_length=10)
    until: date = Field(description="last day on which it is allowed, as 2027-01-31")


class Policies(AnswerSection):
    """What the checks of `make infra-check` allow."""

    allow: list[Waiver] = Field([], description="allowed findings: each prints the line to add here")


class EnvironmentAnswers(AnswerSection):
    """The answers about an environment."""

    cloud: Cloud = Field(description="cloud provider, aws or gcp")
    environment: str = Field(
        description="name of the environment, 2 to 8 lowercase letters and digits", pattern=r"^[a-z][a-z0-9]{1,7}$"
    )
    size: Size = Field(
        Size.DEV, description="size of the environment: try, dev or prod, as in infra/<cloud>/<size>.tfvars"
    )
    region: GeographicName = Field(description="region of all resources")
    zones: list[GeographicName] = Field(
        description="zones in the region; the shared file system is in the first", min_length=1
    )
    deletion_protection: bool = Field(False, description="refuse to delete the cluster and the data; set it for prod")
    account: AwsAccount | GoogleProject = Field(
        description="cloud account or project, and its users", union_mode="smart"
    )
    budget: Budget = Field(description="monthly budget and the recipients of its alerts")
    registry: Registry | None = Field(
        None, description="registry of another environment whose tested images to run; null: its own registry"
    )
    signer: Signer | None = Field(
        None,
        description="who signed them: cosign's key (awskms://, gcpkms://, a file) or the https:// of a workflow",
    )
    admission: AdmissionController = Field(
        AdmissionController.NONE,
        description="who refuses pods with unsigned images of ours: none, or a Kyverno of your own",
    )
    images: list[ImageName] = Field(
        [ImageName.BASE, ImageName.SERVING, ImageName.AIRFLOW, ImageName.RAPIDS],
        description="images to build, by target in containers/Dockerfile",
        min_length=1,
    )
    schedule: NightlySchedule = Field(NightlySchedule(), description="use case to run every night")
    egress: list[Range] = Field(
        [], description="IPv4 ranges that steps, and all else in namespace kubeflow, may call over HTTPS; empty: any"
    )
    gpu: GpuChoices = Field(GpuChoices(), description="provisioning and sharing of GPU nodes")
    protected_data: bool = Field(
        False,
        description="data of persons: own keys, no public address, reads logged for years; wants an account of its own",
    )
    lustre: LustreNeed | None = Field(
        None, description="rows_per_second, bytes_per_row and gib that Lustre is sized for; null: the size's Lustre"
    )
    policies: Policies = Field(Policies(), description="findings of make infra-check that are right here")
    terraform: dict[str, Any] = Field(
        {}, description="variables of infra/<cloud>/variables.tf that override the size's values"
    )

    @property
    def name(self) -> str:
        """The name of the file and of the rendered folder: `aws-dev`."""
        return f"{self.cloud}-{self.environment}"

    @property
    def cluster(self) -> str:
        """The name of the cluster in Terraform."""
        return f"nightshift-{self.environment}"

    @model_validator(mode="after")
    def _check_cloud(self) -> Self:
        wanted = AwsAccount if self.cloud is Cloud.AWS else GoogleProject
        if not isinstance(self.account, wanted):
            fields = ", ".join(wanted.model_fields)
            raise ValueError(f"account does not match cloud {self.cloud}, whose fields are: {fields}")
        for choice in (self.gpu.provisioning, *self.gpu.fallback, self.gpu.sharing, self.gpu.fabric):
            if OF_ONE_CLOUD.get(choice, self.cloud) is not self.cloud:
                raise ValueError(
                    f"gpu: {choice.value} is available on {OF_ONE_CLOUD[choice]} only; this is {self.cloud}"
                )
        return self

    @model_validator(mode="after")
    def _check_signer(self) -> Self:
        if (self.registry is None) != (self.signer is None):
            raise ValueError("registry and signer: set both, to run another environment's images, or neither")
        if self.admission is AdmissionController.KYVERNO and "://" not in (self.signer or "://"):
            raise ValueError(f"signer is {self.signer!r}; with admission kyverno give awskms://, gcpkms:// or https://")
        return self

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        if self.size is Size.TRY and self.gpu != GpuChoices():
            raise ValueError("gpu: size try has none of these choices; leave the section out, or choose size dev")
        if self.size is Size.TRY and self.lustre:
            raise ValueError("lustre: size try keeps its state in a bucket; leave the section out, or choose size dev")
        return self

    @model_validator(mode="after")
    def _check_zones(self) -> Self:
        for zone in self.zones:
            # europe-west10-a is none of europe-west1
            if not re.match(rf"{self.region}-?[a-z]", zone):
                raise ValueError(f"zones: {zone} is none of region {self.region}; name zones of it")
        if len(set(self.zones)) < len(self.zones):
            raise ValueError("zones names one twice; name each once")
        return self


def parse(content: bytes, name: str) -> EnvironmentAnswers:
    """Check the content of a file of answers.

    Raises:
        UserError: naming the file and every wrong field, its value and what is allowed.
    """
    value = strict_yaml.load(content, name)
    if not isinstance(value, dict):
        raise UserError(f"{name} holds no keys; write it with: nightshift cloud init")
    return check(lambda: EnvironmentAnswers.model_validate_json(json.dumps(value), strict=True), value, name)


def check(validate: Callable[[], EnvironmentAnswers], value: Mapping[str, Any], name: str) -> EnvironmentAnswers:
    """Validate answers.

    Args:
        validate: does it.
        value: the answers.
        name: of what they are from, for messages.

    Raises:
        UserError: naming every wrong field, its value and what is allowed.
    """
    try:
        return validate()
    except ValidationError as error:
        # only this cloud's kind of account is explained
        other = {"aws": GoogleProject.__name__, "gcp": AwsAccount.__name__}.get(str(value.get("cloud")), "")
        lines = [_explain(dict(item)) for item in error.errors() if other not in item["loc"]]
        raise UserError(f"{name} is not valid:\n  " + "\n  ".join(lines)) from None


def read(cloud: str, environment: str, folder: Path = FOLDER) -> EnvironmentAnswers:
    """Read the file of an environment.

    Raises:
        UserError: when the file is missing, invalid or about another environment.
    """
    file = folder / f"{cloud}-{environment}.yaml"
    if not file.exists():
        known = sorted(path.stem for path in folder.glob("*.yaml"))
        raise UserError(
            f"{file} does not exist; choose one of {', '.join(known)}{nearest(file.stem, known)}; write one with:"
            f" nightshift cloud init --cloud {cloud} --environment {environment}"
        )
    answers = parse(file.read_bytes(), str(file))
    if answers.name != file.stem:
        raise UserError(f"{file} is about {answers.name}; rename it to {answers.name}.yaml")
    return answers


def render(answers: EnvironmentAnswers) -> str:
    """Return the answers as a file, with a comment on every key."""
    return "\n".join(_render(answers, "")) + "\n"


def _render(section: AnswerSection, indent: str) -> Iterator[str]:
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        yield f"{indent}# {field.description}"
        if isinstance(value, AnswerSection):
            yield f"{indent}{name}:"
            yield from _render(value, indent + "  ")
        elif isinstance(value, dict) and value:
            yield f"{indent}{name}:"
            yield textwrap.indent(strict_yaml.dump(value), indent + "  ")
        else:
            yield f"{indent}{name}: {_flow(section.model_dump(mode='json')[name])}"


def _flow(value: Any) -> str:
    """Return a value on one line, quoted if plain YAML would parse differently."""
    style = "'" if isinstance(value, str) and not strict_yaml.is_plain(value) else None
    text: str = yaml.safe_dump(value, default_style=style, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _explain(item: dict[str, Any]) -> str:
    path = [str(part) for part in item["loc"] if part not in ("AwsAccount", "GoogleProject")]
    message = str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "value_error":
        return message
    field = ".".join(path) or "(top level)"
    if item["type"] == "missing":
        return f"{field}: missing, and it has no default; add it"
    if item["type"] == "extra_forbidden":
        return f"{field}: unknown key; remove it, or use one that python -m infra.cloud schema prints"
    return f"{field}: {message}, got {item['input']!r}"
