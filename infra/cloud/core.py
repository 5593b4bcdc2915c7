"""The shell commands that bring an environment up and take it down; they are idempotent."""

import re
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from importlib.metadata import version

from infra.cloud import gpu
from infra.cloud.admission import GITHUB
from infra.cloud.answers import AdmissionController, Capacity, Cloud, EnvironmentAnswers, Provisioning
from infra.cloud.rendering import (
    ADMISSION,
    COMPUTE_CLASS,
    DISKS,
    IMAGES,
    OUTPUTS,
    RENDERED,
    VARIABLES,
    Infrastructure,
    find_signer,
    make,
    references,
)
from infra.cluster import core as cluster
from infra.terraform import INFRA
from nightshift import DISTRIBUTION
from pipelines import configs
from pipelines.doctor.spending import BUDGET_TAGS
from pipelines.images import PUSHED_IMAGES

READY_SECONDS = 60  # for the API server to respond through a new connection
KUBEFLOW_PORT = 8888
# in both clouds, the modules with the data and its encryption key; then the resources in them that are not data
KEPT_MODULES = ("encryption", "storage")
LOCKED_MODULE = "access_logs"  # holds what nobody can delete, and its own key
REPOSITORIES = {
    Cloud.AWS: "module.storage.aws_ecr_repository.this",
    Cloud.GCP: "module.storage.google_artifact_registry_repository.images",
}


class Data(StrEnum):
    """Whether a teardown keeps the buckets and their encryption key."""

    KEEP = "keep"
    DELETE = "delete"


def bucket(answers: EnvironmentAnswers) -> str:
    """Return the name of the state bucket, one per account; on AWS one per account and region."""
    region = f"-{answers.region}" if answers.cloud is Cloud.AWS else ""
    return f"nightshift-states-{answers.account.id}{region}"


def state(answers: EnvironmentAnswers) -> list[str]:
    """Return the commands that create the bucket for Terraform's state."""
    name, region = bucket(answers), answers.region
    if answers.cloud is Cloud.GCP:
        uri, project = f"gs://{name}", f"--project {answers.account.id}"
        describe = f"gcloud storage buckets describe {uri} {project} >/dev/null 2>&1"
        options = f"--location {region} --uniform-bucket-level-access --public-access-prevention"
        return [
            # the services that enable others
            f"gcloud services enable serviceusage.googleapis.com cloudresourcemanager.googleapis.com {project}",
            f"{describe} || gcloud storage buckets create {uri} {project} {options}",
            f"gcloud storage buckets update {uri} {project} --versioning",
        ]
    # S3 rejects us-east-1 as a location constraint
    location = "" if region == "us-east-1" else f" --create-bucket-configuration LocationConstraint={region}"
    blocked = ",".join(
        f"{rule}=true" for rule in ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    )
    api = f"aws s3api {{}} --bucket {name} --region {region}"
    return [
        *_check_login(answers),
        f"{api.format('head-bucket')} >/dev/null 2>&1 || {api.format('create-bucket')}{location}",
        f"{api.format('put-bucket-versioning')} --versioning-configuration Status=Enabled",
        f"{api.format('put-public-access-block')} --public-access-block-configuration {blocked}",
    ]


def up(answers: EnvironmentAnswers) -> list[str]:
    """Return the commands that check policies and quotas, then create the infrastructure."""
    run, plan = _terraform(answers), _locate(answers, "plan.json")
    return [
        *_check_login(answers),
        _render(answers),
        f"python -m infra.policies {answers.cloud} {answers.environment}",
        *_initialize(answers),
        f"{run} plan -input=false {_variables(answers)} -out={_within(answers, 'plan')}",
        f"{run} show -json {_within(answers, 'plan')} >{plan}",
        f"nightshift doctor --cloud {answers.cloud} --plan {plan}",
        f"{run} apply -input=false {_within(answers, 'plan')}",
        f"{run} output -json >{_locate(answers, OUTPUTS)}",
        _render(answers),
        *_activate_tags(answers),
        *_allow_spot(answers),
    ]


def images(answers: EnvironmentAnswers, infrastructure: Infrastructure) -> list[str]:
    """Return the commands that build, sign and push images, and record their digests."""
    names, digests = " ".join(answers.images), _locate(answers, IMAGES)
    if answers.registry is None:
        built = [f'make images sbom PLATFORM=linux/amd64 IMAGES="{names}"']
        script = f"SIGNING_KEY={shlex.quote(infrastructure.signing_key)} containers/push.sh"
    else:
        built, script = [], "containers/digests.sh"
    return [
        *_log_in(answers, infrastructure),
        *built,
        f"{script} {infrastructure.registry} {version(DISTRIBUTION)} {names} >{digests}.new",
        f"containers/keep.sh {infrastructure.registry} <{digests}.new",
        f"mv {digests}.new {digests}",
        _render(answers),
    ]


def install(
    charts: Sequence[cluster.Chart],
    answers: EnvironmentAnswers,
    infrastructure: Infrastructure,
    digests: Mapping[str, str],
) -> list[str]:
    """Return the commands that install the cluster's software."""
    apply = 'kubectl apply --server-side --filename "$OVERLAYS/{}"'
    pools = {
        Provisioning.AUTOSCALER: [],
        Provisioning.KARPENTER: ['kubectl apply -k "$OVERLAYS/karpenter"'],
        Provisioning.COMPUTE_CLASS: [apply.format(COMPUTE_CLASS)],
    }
    choices = gpu.name_choices(answers.gpu)
    return [
        *_log_in(answers, infrastructure),
        *_verify(answers, infrastructure, digests),
        *_set(settings(answers, infrastructure, digests)),
        *connect(answers),
        *([f'kubectl apply -k "$OVERLAYS/{DISKS}"'] if infrastructure.disk_key else []),
        *cluster.install(charts, answers.cloud, answers.cluster, choices, smallest=bool(infrastructure.state)),
        *pools[answers.gpu.provisioning],
        *([apply.format(ADMISSION)] if answers.admission is AdmissionController.KYVERNO else []),
    ]


def schedule(answers: EnvironmentAnswers, infrastructure: Infrastructure, digests: Mapping[str, str]) -> list[str]:
    """Return the commands that check the environment and schedule nightly runs; without Kubeflow, in Airflow."""
    if infrastructure.state:
        return [*connect(answers), *_unpause(configs.load(answers.schedule.config)["name"])]
    # a listener there, such as the forwarded port of another environment, would get these schedules
    is_free = f"! (: </dev/tcp/localhost/{KUBEFLOW_PORT}) 2>/dev/null"
    message = f"cloud: something listens on port {KUBEFLOW_PORT} already; end it, then run the same command again"
    chosen = f"--config {shlex.quote(answers.schedule.config)} --data {shlex.quote(answers.schedule.data)}"
    return [
        f'export {PUSHED_IMAGES}="{references(infrastructure, digests)}" KFP_ENDPOINT=http://localhost:{KUBEFLOW_PORT}',
        *connect(answers),
        f'{is_free} || {{ echo "{message}" >&2; exit 2; }}',
        f"kubectl port-forward --namespace kubeflow service/ml-pipeline {KUBEFLOW_PORT} >/dev/null &",
        f"nightshift doctor --environment {answers.cloud}",
        f"nightshift schedule --environment {answers.cloud} {chosen} --replace",
    ]


def _unpause(use_case: str) -> list[str]:
    """Return the commands that start a use case's DAGs, which are there if the image of Airflow has their file."""
    prefix = use_case.replace("-", "_")  # their ids' start
    training = f"{prefix}_training"
    airflow = "kubectl exec --namespace airflow deployment/airflow-api-server --container api-server -- airflow dags"
    fix = "write its file (dags/README.md), and run cloud-images, cloud-install and this command again"
    missing = f"cloud: Airflow has no DAG {training}; {fix}"
    return [
        # without one, unpause succeeds too
        f'{airflow} details {training} >/dev/null || {{ echo "{missing}" >&2; exit 2; }}',
        f"{airflow} unpause --yes --treat-dag-id-as-regex '^{prefix}_'",
    ]


def down(charts: Sequence[cluster.Chart], answers: EnvironmentAnswers, data: Data) -> list[str]:
    """Return the commands that remove every billed resource, from the inside out, and list any left.

    Args:
        charts: the rows of `charts.yaml`, in order.
        answers: answers of an unprotected environment.
        data: whether to keep the buckets.
    """
    targets = _targets(answers, data)
    return [
        *_check_login(answers),
        _render(answers),
        _find_cluster(answers),
        # a repeated teardown has no cluster
        'if [ -n "$cluster" ]; then',
        *connect(answers),
        *cluster.uninstall(charts, answers.cloud),
        "fi",
        *_initialize(answers),
        " ".join([_terraform(answers), "destroy -auto-approve -input=false", _variables(answers), *targets]),
        *_list_left(answers),
    ]


def connect(answers: EnvironmentAnswers) -> list[str]:
    """Return the commands that connect to the private API server, with a separate kubeconfig for this cluster."""
    begin = [f"export KUBECONFIG=$PWD/{_locate(answers, 'kubeconfig')}"]
    # end the port forwards with the shell, with the processes that the AWS CLI started for them
    end = [
        "trap 'for job in $(jobs -p); do pkill -P $job || true; kill $job || true; done 2>/dev/null' EXIT",
        f"timeout {READY_SECONDS} bash -c 'until kubectl get --raw /readyz >/dev/null 2>&1; do sleep 1; done'",
    ]
    if answers.cloud is Cloud.AWS:
        return [*begin, f"AWS_REGION={answers.region} infra/aws/connect.sh {answers.cluster} &", *end]
    # as in infra/gcp/modules/cluster: with one zone the control plane is zonal
    region_or_zone = answers.region if len(answers.zones) > 1 else answers.zones[0]
    location = f"--project {answers.account.id} --location {region_or_zone}"
    return [*begin, f"gcloud container clusters get-credentials {answers.cluster} {location} --dns-endpoint", *end]


def script(commands: Sequence[str]) -> list[str]:
    """Return the commands of a script that says so when one of them fails."""
    return [cluster.STOPPED, *commands]


def settings(answers: EnvironmentAnswers, infrastructure: Infrastructure, digests: Mapping[str, str]) -> dict[str, str]:
    """Return what the commands of `infra/cluster` name as variables of the shell."""
    return {
        "AIRFLOW_DIGEST": digests.get("airflow", ""),
        "ARTIFACTS": infrastructure.models,
        "AWS_REGION": answers.region,
        "DATA": answers.schedule.data,
        "IMAGES": references(infrastructure, digests),
        "OVERLAYS": _locate(answers),
        "REGISTRY": infrastructure.registry,
        "STATE": infrastructure.state,
        "STORE": infrastructure.store,
    }


def _set(settings: Mapping[str, str]) -> list[str]:
    return [f"{name}={shlex.quote(value)}" for name, value in settings.items()]


def _check_login(answers: EnvironmentAnswers) -> list[str]:
    """Google's commands name their project, those of AWS ask whichever account one is logged in to."""
    if answers.cloud is Cloud.GCP:
        return []
    account = f"aws sts get-caller-identity --region {answers.region} --query Account --output text"
    login = f'test "$({account})" = {answers.account.id}'
    file = f"infra/answers/{answers.name}.yaml"
    wrong = f"cloud: you are logged in to another account than account.id in {file}; choose it with AWS_PROFILE"
    return [f'{login} || {{ echo "{wrong}" >&2; exit 2; }}']


def _render(answers: EnvironmentAnswers) -> str:
    return f"python -m infra.cloud render {answers.cloud} {answers.environment}"


def _terraform(answers: EnvironmentAnswers) -> str:
    return f"terraform -chdir=infra/{answers.cloud}"


def _locate(answers: EnvironmentAnswers, name: str = "") -> str:
    """The path of a rendered file, or of the folder, from the repository's root, where a shell runs."""
    return f"{RENDERED.relative_to(INFRA.parent)}/{answers.name}/{name}".removesuffix("/")


def _within(answers: EnvironmentAnswers, name: str) -> str:
    """The path of a rendered file for Terraform, which runs in the folder of the cloud."""
    return f"../../{_locate(answers, name)}"


def _variables(answers: EnvironmentAnswers) -> str:
    return f"-var-file={answers.size}.tfvars -var-file={_within(answers, VARIABLES)}"


def _initialize(answers: EnvironmentAnswers) -> list[str]:
    """Each environment has its own folder of what Terraform downloads, so that two do not take each other's state."""
    if answers.cloud is Cloud.AWS:
        where = {
            "bucket": bucket(answers),
            "key": f"nightshift/{answers.environment}.tfstate",
            "region": answers.region,
        }
    else:
        where = {"bucket": bucket(answers), "prefix": f"nightshift/{answers.environment}"}
    options = " ".join(f"-backend-config={key}={value}" for key, value in where.items())
    return [
        f"export TF_DATA_DIR=$PWD/{_locate(answers, '.terraform')}",
        f"{_terraform(answers)} init -input=false -reconfigure {options}",
    ]


def _activate_tags(answers: EnvironmentAnswers) -> list[str]:
    """A budget sees tags that are active, which AWS lists a day after their first use."""
    if answers.cloud is Cloud.GCP:
        return []
    tags = " ".join(f"TagKey={key},Status=Active" for key in BUDGET_TAGS)
    update = f"aws ce update-cost-allocation-tags-status --region us-east-1 --cost-allocation-tags-status {tags}"
    blind = f"cloud-up: the budget sees no costs before the tags {' and '.join(BUDGET_TAGS)} are active"
    member = "this is a member account: ask the management account to activate them under Cost allocation tags"
    later = f"AWS lists a tag a day after its first use, so tomorrow: {make('cloud-up', answers)}; it answers:"
    return [
        # an answer without errors is empty, or None
        f"refused=$({update} --query 'Errors[].Message' --output text 2>&1) || true",
        'case "$refused" in',
        "  '' | None) ;;",
        f'  *[Ll]"inked account"*) echo "{blind}; {member}" >&2 ;;',
        f'  *) echo "{blind}; {later} $refused" >&2 ;;',
        "esac",
    ]


def _allow_spot(answers: EnvironmentAnswers) -> list[str]:
    """Karpenter may not create the role that spot instances need, and Terraform would fail where there is one."""
    if answers.gpu.provisioning is not Provisioning.KARPENTER or Capacity.SPOT not in answers.gpu.fallback:
        return []
    create = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
    roles = "aws iam list-roles --path-prefix /aws-service-role/spot.amazonaws.com/ --query 'Roles[].RoleName'"
    return [f'test -n "$({roles} --output text)" || {create} >/dev/null']


def _log_in(answers: EnvironmentAnswers, infrastructure: Infrastructure) -> list[str]:
    host = infrastructure.registry.partition("/")[0]
    if answers.cloud is Cloud.GCP:
        return [f"gcloud auth configure-docker {host} --quiet"]
    return [
        f"aws ecr get-login-password --region {answers.region} | docker login --username AWS --password-stdin {host}"
    ]


def _verify(answers: EnvironmentAnswers, infrastructure: Infrastructure, digests: Mapping[str, str]) -> list[str]:
    """Return the commands that verify the images' signatures."""
    signer = find_signer(answers, infrastructure)
    by_workflow = f"--certificate-oidc-issuer {GITHUB} --certificate-identity {shlex.quote(signer)}"
    options = by_workflow if signer.startswith("https://") else f"--key {shlex.quote(signer)}"
    images = map(shlex.quote, references(infrastructure, digests).split())
    return [f"cosign verify {options} {image} >/dev/null" for image in images]


def _find_cluster(answers: EnvironmentAnswers) -> str:
    if answers.cloud is Cloud.GCP:
        query = f"--project {answers.account.id} --filter name={answers.cluster} --format 'value(name)'"
        return f"cluster=$(gcloud container clusters list {query})"
    query = f"--region {answers.region} --query \"clusters[?@=='{answers.cluster}']\" --output text"
    return f"cluster=$(aws eks list-clusters {query})"


def _targets(answers: EnvironmentAnswers, data: Data) -> list[str]:
    """All modules but those with data to keep: a destroy takes what it is pointed at, and whatever needs that."""
    if data is Data.DELETE and not answers.protected_data:
        return []
    kept = {LOCKED_MODULE, *(KEPT_MODULES if data is Data.KEEP else ())}
    main = (INFRA / answers.cloud / "main.tf").read_text()
    modules = [name for name in re.findall(r'^module "(\w+)"', main, re.MULTILINE) if name not in kept]
    return [f"-target={target}" for target in (*(f"module.{name}" for name in modules), REPOSITORIES[answers.cloud])]


def _list_left(answers: EnvironmentAnswers) -> list[str]:
    """What is left of an environment, by its tags, and disks of claims that nobody uses."""
    if answers.cloud is Cloud.GCP:
        project = f"--project {answers.account.id}"
        return [
            f'gcloud compute disks list {project} --filter="-users:*"',
            f"gcloud compute forwarding-rules list {project}",
        ]
    tags = f"Key=project,Values=nightshift Key=environment,Values={answers.environment}"
    return [
        f"aws resourcegroupstaggingapi get-resources --region {answers.region} --tag-filters {tags}"
        " --query 'ResourceTagMappingList[].ResourceARN'",
        f"aws ec2 describe-volumes --region {answers.region} --filters Name=status,Values=available"
        " --query 'Volumes[].VolumeId'",
    ]
