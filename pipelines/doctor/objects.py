"""Objects that steps name: namespaces, accounts, claims, secrets, priorities, the runtime of TrainJobs."""

import base64
import re
from collections.abc import Iterator

from nightshift.cluster import MissingError
from nightshift.contracts.health import HealthCheck
from pipelines.doctor.access import ACCOUNTS, MODELS, RUNS
from pipelines.doctor.findings import INSTALL, Checks, failure, judge, skip
from pipelines.doctor.kubernetes import Json, Kubernetes, list_objects
from pipelines.environments import Role, Secret, Site, Volume

# by which an account acts as another; Terraform gives the rights to the accounts themselves
IDENTITIES = ("iam.gke.io/gcp-service-account", "eks.amazonaws.com/role-arn")
EXAMPLE_VOLUME = re.compile(r"fs-0{17}$|^project/|example-nightshift")
LUSTRE = ("fsx.csi.aws.com", "lustre.csi.storage.gke.io")  # Filestore has locks without an option
PRIORITIES = {"nightshift-serving": 1000, "nightshift-platform": 500, "nightshift-training": 0}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
GROUP = "trainer.kubeflow.org"


def check_namespaces(cluster: Kubernetes) -> Checks:
    """Check the namespaces of runs and of served models."""
    for namespace in (RUNS, MODELS):
        name = f"namespace {namespace}"
        try:
            phase = cluster.get(f"/api/v1/namespaces/{namespace}").get("status", {}).get("phase", "Active")
        except MissingError:
            yield failure(name, "missing", "present", INSTALL)
            continue
        problems = [] if phase == "Active" else [f"is {phase}"]
        yield judge(name, phase, problems, "Active", f"wait until it is gone, then {INSTALL}")


def check_accounts(cluster: Kubernetes) -> Checks:
    """Check the accounts of steps and their identities in the cloud."""
    for name in [account.name for account in ACCOUNTS if account.namespace == RUNS]:
        try:
            account = cluster.get(f"/api/v1/namespaces/{RUNS}/serviceaccounts/{name}")
        except MissingError:
            yield failure(f"account {RUNS}/{name}", "missing", "present", INSTALL)
            continue
        annotations = account["metadata"].get("annotations", {})
        problems = [f"annotation {key} is {annotations[key]!r}" for key in IDENTITIES if key in annotations]
        fix = f"kubectl annotate --namespace {RUNS} serviceaccount {name} {' '.join(f'{key}-' for key in IDENTITIES)}"
        yield judge(f"account {RUNS}/{name}", "present", problems, "rights of its own, by no other identity", fix)


def check_claims(cluster: Kubernetes, site: Site) -> Checks:
    """Check the volumes that steps mount."""
    volumes = {volume.claim: volume for placement in site.placements.values() for volume in placement.volumes}
    for volume in volumes.values():
        yield _check_claim(cluster, volume)


def check_secrets(cluster: Kubernetes, site: Site) -> Checks:
    """Check the keys that steps get as environment variables; no value is read but for its length."""
    secrets = {secret.name: secret for placement in site.placements.values() for secret in placement.secrets}
    for secret in (secret for secret in secrets.values() if not secret.is_optional):
        yield _check_secret(cluster, secret)


def check_priorities(cluster: Kubernetes) -> Checks:
    """Check the order in which pods wait for nodes."""
    classes = {item["metadata"]["name"]: item for item in list_objects(cluster, CLASSES)}
    for name, value in PRIORITIES.items():
        current = classes.get(name, {}).get("value")
        problems = [] if current == value else ["missing" if current is None else f"value is {current}"]
        fix = f"{INSTALL} (infra/cluster/namespaces/priorities.yaml)"
        if problems and current is not None:  # a value cannot be changed
            fix = f"kubectl delete priorityclass {name}, then {fix}"
        yield judge(f"priority class {name}", f"value {current}", problems, f"value {value}", fix)


def check_runtime(cluster: Kubernetes, site: Site) -> Checks:
    """Check the runtime from which TrainJobs are made."""
    name, image = "TrainingRuntime nightshift", site.placements[Role.GPU].image
    if GROUP not in [group["name"] for group in cluster.get("/apis")["groups"]]:
        yield skip(name, "Kubeflow Trainer is not installed; only training on several machines needs it")
        return
    try:
        runtime = cluster.get(f"/apis/{GROUP}/v1alpha1/namespaces/{RUNS}/trainingruntimes/nightshift")
    except MissingError:
        yield failure(name, "missing", "present", INSTALL)
        return
    images = set(_find_images(runtime["spec"]))
    problems = [f"runs {other}" for other in sorted(images - {image})]
    yield judge(name, f"runs {image}", problems, image, f"{INSTALL}, which puts the image of this version there")


def _check_claim(cluster: Kubernetes, volume: Volume) -> HealthCheck:
    name = f"claim {RUNS}/{volume.claim}"
    try:
        claim = cluster.get(f"/api/v1/namespaces/{RUNS}/persistentvolumeclaims/{volume.claim}")
    except MissingError:
        return failure(name, "missing", "bound", INSTALL)
    phase = claim.get("status", {}).get("phase", "Pending")
    if phase != "Bound":
        fix = f"{INSTALL}, which names the file system of Terraform; kubectl describe pvc says more"
        return failure(name, phase, "Bound", fix)
    problems = [] if "ReadWriteMany" in claim["spec"]["accessModes"] else ["is not ReadWriteMany"]
    problems += _list_volume_problems(cluster.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}"))
    fix = f"delete claim and volume, then {INSTALL}"
    return judge(name, "Bound", problems, "ReadWriteMany, on your file system, Lustre mounted with flock", fix)


def _list_volume_problems(volume: Json) -> Iterator[str]:
    source = volume["spec"].get("csi", {})
    if EXAMPLE_VOLUME.search(source.get("volumeHandle", "")):
        yield f"volumeHandle is the example's, {source['volumeHandle']}"
    if source.get("driver") in LUSTRE and "flock" not in volume["spec"].get("mountOptions", []):
        yield "mountOptions has no flock"


def _check_secret(cluster: Kubernetes, secret: Secret) -> HealthCheck:
    name = f"secret {RUNS}/{secret.name}"
    try:
        content = cluster.get(f"/api/v1/namespaces/{RUNS}/secrets/{secret.name}").get("data", {})
    except MissingError:
        return failure(name, "missing", f"the keys {', '.join(secret.keys)}", _describe_copy(secret))
    problems = [f"key {key} is missing" for key in secret.keys if key not in content]
    problems += [f"key {key} is empty" for key in secret.keys if key in content and not base64.b64decode(content[key])]
    allowed = f"a value for {', '.join(secret.keys)}"
    return judge(name, f"keys {', '.join(secret.keys)}", problems, allowed, _describe_copy(secret))


def _describe_copy(secret: Secret) -> str:
    """Return how a secret is made again: servers have the same one in their namespace."""
    read = f"kubectl get secret --namespace {MODELS} {secret.name} --output yaml"
    edit = f"'/^  uid:/d; /^  resourceVersion:/d; s/namespace: {MODELS}$/namespace: {RUNS}/'"
    return f"{read} | sed {edit} | kubectl apply -f -; in a new cluster {INSTALL}"


def _find_images(value: object) -> Iterator[str]:
    """Yield the images of containers, at any depth."""
    if isinstance(value, list):
        for item in value:
            yield from _find_images(item)
    elif isinstance(value, dict):
        if isinstance(value.get("image"), str):
            yield value["image"]
        for item in value.values():
            yield from _find_images(item)
