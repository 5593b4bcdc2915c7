"""Renders Terraform's variables from the answers, and kustomize overlays from its outputs."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from infra.cloud import gpu, lustre
from infra.cloud.admission import make_policy
from infra.cloud.answers import AdmissionController, AwsAccount, Cloud, EnvironmentAnswers, Fabric, Provisioning
from infra.terraform import INFRA
from nightshift.runtime.errors import UserError, check_names
from pipelines.images import EXAMPLE_REGISTRY

RENDERED = INFRA.parent / "runs" / "cloud"
VARIABLES, OUTPUTS, IMAGES = "terraform.tfvars.json", "outputs.json", "images.txt"
COMPUTE_CLASS, ADMISSION, DISKS = "compute-class.yaml", "admission.yaml", "disks"
HEADER = "# rendered by infra/cloud from infra/answers and Terraform's outputs: do not edit\n"
# nodeadm's, as in infra/aws/modules/node_pool: Karpenter's nodes have an instance store too
FAST_PULLS = yaml.safe_dump(
    {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {"featureGates": {"FastImagePull": True}}}
)
FILESTORE = "filestore.csi.storage.gke.io"
ANOMALY = 0.05  # share of a month's budget from which on AWS reports an unusual cost
GROUPS = ("operators", "readers")
# a machine of a TrainJob, in the runtime of infra/kubernetes/base/training.yaml
MACHINE = "/spec/template/spec/replicatedJobs/0/template/spec/template/spec"
Json = dict[str, Any]
Patch = list[Json]
# kind -> name of what a cluster without a shared file system lacks: that, and what is Kubeflow Trainer's
ABSENT = {
    "PersistentVolume|PersistentVolumeClaim|Job": "nightshift-lustre.*",
    "TrainingRuntime": "nightshift",
    "Role|RoleBinding": "nightshift-training",
}
# what notifies reads the state, which is in a bucket there
UNMOUNTED = [
    {"op": "remove", "path": f"/spec/jobTemplate/spec/template/spec/{field}"}
    for field in ("containers/0/volumeMounts", "volumes")
]
DELETED = {"$patch": "delete", "apiVersion": "v1", "kind": "any", "metadata": {"name": "any"}}


@dataclass(frozen=True)
class Infrastructure:
    """The outputs of Terraform that the cluster needs.

    Attributes:
        registry: container registry, with its folder.
        signing_key: key that signs the images, as cosign takes it.
        store: bucket of the pipelines' artifacts, s3:// or gs://.
        models: folder of MLflow's artifacts.
        state: folder of the state; empty with a shared file system.
        volume: patches of the persistent volume; none without a shared file system.
        node_role: AWS: name of the nodes' role.
        efa_interfaces: AWS: EFA interfaces of a node for multi-node trainings; 0 without EFA.
        gpu_pools: Google Cloud: capacity types of the GPU pools by name.
        disk_key: Google Cloud: key of the disks of claims; empty where Google's own encrypts them.
    """

    registry: str
    signing_key: str
    store: str
    models: str
    state: str
    volume: Patch
    node_role: str = ""
    efa_interfaces: int = 0
    gpu_pools: Mapping[str, str] = field(default_factory=dict)
    disk_key: str = ""


def variables(answers: EnvironmentAnswers) -> Json:
    """Return an environment's own Terraform variables, which override those of its size.

    Raises:
        UserError: when `terraform` names a variable that there is not, or one that another answer sets.
    """
    own = {
        "environment": answers.environment,
        "region": answers.region,
        "zones": answers.zones,
        "deletion_protection": answers.deletion_protection,
        "protected_data": answers.protected_data,
        **gpu.set_variables(answers),
        **lustre.set_variables(answers),
        **_owner_variables(answers),
    }
    known = re.findall(r'^variable "(\w+)"', (INFRA / answers.cloud / "variables.tf").read_text(), re.MULTILINE)
    check_names("terraform", answers.terraform, set(known) - own.keys())
    return own | answers.terraform


def _owner_variables(answers: EnvironmentAnswers) -> Json:
    account, budget = answers.account, answers.budget
    if isinstance(account, AwsAccount):
        anomaly = budget.monthly * ANOMALY if budget.anomalies else None
        limits = {"monthly_usd": budget.monthly, "anomaly_usd": anomaly, "emails": budget.emails}
        people = {"operators": account.operators, "readers": account.readers}
        return {"administrators": account.administrators, "people": people, "budget": limits}
    return {
        "project_id": account.id,
        "billing_account": account.billing_account,
        "people_domain": account.domain,
        "budget": {"amount": budget.monthly, "emails": budget.emails},
    }


def read_outputs(answers: EnvironmentAnswers, content: str) -> Infrastructure:
    """Parse the output of `terraform output -json`.

    Raises:
        UserError: when it does not say it.
    """
    try:
        values = {name: output["value"] for name, output in json.loads(content).items()}
        own = _read_aws(values) if answers.cloud is Cloud.AWS else _read_gcp(values)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{OUTPUTS} of {answers.name} lacks {error}; run: {make('cloud-up', answers)}") from None
    return own if answers.registry is None else Infrastructure(**{**vars(own), "registry": answers.registry})


def _read_aws(values: Json) -> Infrastructure:
    # Terraform prints no output that is null: the smallest size has no file system
    repository, lustre = values["repositories"]["base"], values.get("lustre")
    store = f"s3://{values['bucket']}"
    return Infrastructure(
        registry=repository.rpartition("/")[0],
        signing_key=values["signing_key"],
        store=store,
        models=f"{store}/mlflow",
        state="" if lustre else f"{store}/state",
        volume=_fsx(lustre) if lustre else [],
        node_role=values["karpenter"]["node_role"],
        efa_interfaces=values["efa_interfaces"],
    )


def _read_gcp(values: Json) -> Infrastructure:
    buckets, volume = values["buckets"], values.get("volume")
    return Infrastructure(
        registry=values["repository"],
        signing_key=values["signing_key"],
        store=f"gs://{buckets['pipelines']}",
        models=f"gs://{buckets['models']}/mlflow",
        state="" if volume else f"gs://{buckets['lake']}/state",
        volume=_google_files(volume) if volume else [],
        gpu_pools=values["gpu_pools"],
        disk_key=values.get("disk_key") or "",
    )


def _fsx(volume: Json) -> Patch:
    return [
        _replace("/spec/capacity/storage", volume["capacity"]),
        _replace("/spec/csi/volumeHandle", volume["id"]),
        _replace("/spec/csi/volumeAttributes/dnsname", volume["dns_name"]),
        _replace("/spec/csi/volumeAttributes/mountname", volume["mount"]),
    ]


def _google_files(volume: Json) -> Patch:
    """Filestore, or Managed Lustre, which has no share."""
    common = [
        _replace("/spec/capacity/storage", f"{volume['capacity_gib']}Gi"),
        _replace("/spec/csi/volumeHandle", volume["handle"]),
    ]
    if "share" not in volume:
        attributes = {"ip": volume["ip"], "filesystem": volume["filesystem"]}
        return [*common, _replace("/spec/csi/volumeAttributes", attributes)]
    return [
        *common,
        _replace("/spec/mountOptions", []),
        _replace("/spec/csi/driver", FILESTORE),
        _replace("/spec/csi/volumeAttributes", {"ip": volume["ip"], "volume": volume["share"]}),
    ]


def read_digests(content: str) -> dict[str, str]:
    """Return image -> digest of a file of `containers/push.sh`."""
    return {name: digest for name, _, digest in (line.split() for line in content.splitlines() if line.strip())}


def references(infrastructure: Infrastructure, digests: Mapping[str, str]) -> str:
    """Return the pushed images, separated by spaces: the value of `NIGHTSHIFT_IMAGES`."""
    return " ".join(f"{infrastructure.registry}/{name}@{digest}" for name, digest in sorted(digests.items()))


def find_signer(answers: EnvironmentAnswers, infrastructure: Infrastructure) -> str:
    """Return who signs the images that an environment runs: a key as cosign takes it, or a workflow's https://."""
    return answers.signer or infrastructure.signing_key


def render(
    answers: EnvironmentAnswers, infrastructure: Infrastructure, digests: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """Return the overlays of an environment by their path below its folder."""
    overlays = {"": _runs(answers, infrastructure, digests), "namespaces": _namespaces(answers)}
    files = {}
    if answers.gpu.provisioning is Provisioning.KARPENTER:
        overlays["karpenter"] = _karpenter(answers, infrastructure)
    if infrastructure.disk_key:
        overlays[DISKS] = _disks(infrastructure.disk_key)
    if answers.gpu.provisioning is Provisioning.COMPUTE_CLASS:
        files[COMPUTE_CLASS] = HEADER + yaml.safe_dump(gpu.make_compute_class(answers.gpu, infrastructure.gpu_pools))
    if answers.admission is AdmissionController.KYVERNO:
        policy = make_policy(answers, infrastructure.registry, find_signer(answers, infrastructure))
        files[ADMISSION] = HEADER + yaml.safe_dump(policy)
    return files | {
        str(Path(name, "kustomization.yaml")): HEADER + _dump(overlay, folder / name)
        for name, overlay in overlays.items()
    }


def _dump(overlay: Json, folder: Path) -> str:
    head: Json = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    folders: Json = {
        key: [os.path.relpath(INFRA / name, folder) for name in overlay[key]]
        for key in ("resources", "components")
        if key in overlay
    }
    text: str = yaml.safe_dump({**head, **overlay, **folders}, sort_keys=False)
    return text


def _runs(answers: EnvironmentAnswers, infrastructure: Infrastructure, digests: Mapping[str, str]) -> Json:
    images = [
        {"name": f"{EXAMPLE_REGISTRY}/{name}", "newName": f"{infrastructure.registry}/{name}", "digest": digest}
        for name, digest in sorted(digests.items())
    ]
    if infrastructure.state:
        absent = [_patch(kind, name, DELETED) for kind, name in ABSENT.items()]
        patches = [
            *absent,
            _patch("CronJob", "nightshift-notify", UNMOUNTED),
            *_limit_egress(answers, "nightshift-steps", 3),
        ]
        return {"resources": [f"kubernetes/{answers.cloud}"], "images": images, "patches": patches}
    preloading = ["cluster/images"] if answers.gpu.preload_images else []
    fabric = [] if answers.gpu.fabric is Fabric.NONE else [f"kubernetes/{answers.gpu.fabric}"]
    return {
        "resources": [f"kubernetes/{answers.cloud}", "monitoring", *preloading],
        "components": fabric,
        "images": images,
        "patches": [
            _patch("PersistentVolume", "nightshift-lustre", infrastructure.volume),
            *_interfaces(answers, infrastructure),
            *_limit_egress(answers, "nightshift-steps", 3),
        ],
    }


def _interfaces(answers: EnvironmentAnswers, infrastructure: Infrastructure) -> list[Json]:
    """Give each machine of a TrainJob all EFA interfaces of its node."""
    if answers.gpu.fabric is not Fabric.EFA or not infrastructure.efa_interfaces:
        return []
    limit = f"{MACHINE}/containers/0/resources/limits/vpc.amazonaws.com~1efa"
    return [_patch("TrainingRuntime", "nightshift", [_replace(limit, str(infrastructure.efa_interfaces))])]


def _namespaces(answers: EnvironmentAnswers) -> Json:
    """On EKS the groups of people are known by their names, on GKE by their addresses."""
    people = [
        _patch("RoleBinding", name, [_group(answers, group)])
        for group in GROUPS
        for name in (group, f"nightshift-{group}")
    ]
    # with Kueue, steps wait for GPUs, where the quota would reject their pods; Kueue does not count claims
    quota = [_patch("ResourceQuota", "runs", [_replace("/spec/hard", {"persistentvolumeclaims": "10"})])]
    # models see the data too
    served = _limit_egress(answers, "registry-and-serving", 0) if answers.protected_data else []
    return {
        "resources": ["cluster/namespaces"],
        "patches": [*people, *(quota if answers.gpu.kueue else []), *_limit_egress(answers, "pipelines", 0), *served],
    }


def _limit_egress(answers: EnvironmentAnswers, policy: str, rule: int) -> list[Json]:
    """Limit a rule of a network policy, which allows HTTPS to everywhere, to the ranges of the answers."""
    ranges = [{"ipBlock": {"cidr": cidr}} for cidr in answers.egress]
    path = f"/spec/egress/{rule}/to"
    return [_patch("NetworkPolicy", policy, [{"op": "add", "path": path, "value": ranges}])] if ranges else []


def _group(answers: EnvironmentAnswers, group: str) -> Json:
    domain = None if isinstance(answers.account, AwsAccount) else answers.account.domain
    path = "/subjects/1"
    return _replace(f"{path}/name", f"nightshift-{group}@{domain}") if domain else {"op": "remove", "path": path}


def _karpenter(answers: EnvironmentAnswers, infrastructure: Infrastructure) -> Json:
    names = {
        "role": infrastructure.node_role,
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": answers.cluster}}],
        "securityGroupSelectorTerms": [{"tags": {f"kubernetes.io/cluster/{answers.cluster}": "owned"}}],
        "tags/environment": answers.environment,
    }
    if answers.gpu.preload_images:
        names["userData"] = FAST_PULLS
    changes = [{"op": "add", "path": f"/spec/{key}", "value": value} for key, value in names.items()]
    pools = [_weigh(pool, weight) for pool, weight in gpu.weigh_pools(answers.gpu).items()]
    return {"resources": ["cluster/karpenter"], "patches": [_patch("EC2NodeClass", "gpu", changes), *pools]}


def _disks(key: str) -> Json:
    change = _replace("/parameters/disk-encryption-kms-key", key)
    return {"resources": ["cluster/protected-disks"], "patches": [_patch("StorageClass", "nightshift-disks", [change])]}


def _weigh(pool: str, weight: int | None) -> Json:
    target = {"kind": "NodePool", "name": pool}
    if weight is not None:
        return _patch(**target, changes=[_replace("/spec/weight", weight)])
    head = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool}}
    return {"target": target, "patch": yaml.safe_dump({"$patch": "delete", **head})}


def _replace(path: str, value: Any) -> Json:
    return {"op": "replace", "path": path, "value": value}


def _patch(kind: str, name: str, changes: Patch | Json) -> Json:
    return {"target": {"kind": kind, "name": name}, "patch": yaml.safe_dump(changes, sort_keys=False)}


def make(target: str, answers: EnvironmentAnswers) -> str:
    """Return the command line of a target."""
    return f"make {target} CLOUD={answers.cloud} ENV={answers.environment}"


def write(answers: EnvironmentAnswers, folder: Path) -> Iterator[Path]:
    """Write Terraform's variables and, once its outputs exist, the overlays; yield the files."""
    outputs, images = folder / OUTPUTS, folder / IMAGES
    files = {VARIABLES: json.dumps(variables(answers), indent=2) + "\n"}
    if outputs.exists():
        digests = read_digests(images.read_text()) if images.exists() else {}
        files |= render(answers, read_outputs(answers, outputs.read_text()), digests, folder)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        yield path
