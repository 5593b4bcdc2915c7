"""The object store and the mounted folders: an object is written, read and removed."""

import secrets

from nightshift import storage
from nightshift.cluster import MissingError
from nightshift.contracts.health import HealthCheck
from nightshift.contracts.state import ROOTS
from nightshift.runtime.errors import UserError
from pipelines.doctor.access import RUNS
from pipelines.doctor.findings import INSTALL, Checks, failure, success
from pipelines.doctor.kubernetes import Kubernetes
from pipelines.environments import Site

LAUNCHER = f"/api/v1/namespaces/{RUNS}/configmaps/kfp-launcher"
SCHEMES = ("s3://", "gs://")


def check_pipeline_root(cluster: Kubernetes) -> Checks:
    """Check where Kubeflow puts artifacts, with the credentials of this process."""
    name, fix = "pipeline root", f"{INSTALL}, which writes kfp-launcher"
    try:
        root = cluster.get(LAUNCHER).get("data", {}).get("defaultPipelineRoot", "")
    except MissingError:
        yield failure(name, "config map kubeflow/kfp-launcher is missing", "s3://... or gs://...", fix)
        return
    if not root.startswith(SCHEMES):
        yield failure(name, f"defaultPipelineRoot is {root!r}", "s3://... or gs://..., which steps can read", fix)
        return
    yield probe(
        name, root, "terraform apply; for your own login aws sso login, or gcloud auth application-default login"
    )


def check_state(site: Site) -> Checks:
    """Check, in a pod, the folders and buckets of an environment's state."""
    state = site.parameters["state"]
    for root in [root for root in ROOTS if not state[root].startswith("http")]:
        yield probe(f"state.{root}", state[root], f"{INSTALL}: its Job gives the file system to the steps' user")


def probe(name: str, root: str, fix: str) -> HealthCheck:
    """Check that a file can be written, read and removed below a folder or URI.

    Raises:
        UnavailableError: when an object store fails in every try.
    """
    folder = storage.join(root, f".doctor-{secrets.token_hex(8)}")
    uri, content = storage.join(folder, "probe"), secrets.token_bytes(16)
    try:
        storage.write_bytes(uri, content)
        read = storage.read_bytes(uri)
        storage.remove_folder(folder)
    except UserError as error:
        return failure(name, str(error), "to write, read and remove", fix)
    if read != content:
        return failure(name, f"{uri} holds other bytes than were written", "the bytes that were written", fix)
    return success(name, f"{root}: written, read, removed")
