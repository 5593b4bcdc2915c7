"""The cluster that `infra/` describes."""

import functools
import subprocess
from pathlib import Path

import yaml

from infra.terraform import INFRA
from pipelines.environments import SITES
from tests.infra.edges import needs
from tests.infra.edges.model import Cluster, Json, cluster

CLOUDS = ("aws", "gcp")


@functools.cache
def standing(cloud: str, infra: Path = INFRA) -> Cluster:
    """Return what `make cluster-install` brings a cloud's cluster to, with the pods that runs start there."""
    folders = ("cluster/namespaces", f"kubernetes/{cloud}", "monitoring")
    ours = [value for folder in folders for value in rendered(infra / folder)]
    return cluster([*ours, needs.exposed()], cloud, needs.started(SITES[cloud]))


def rendered(folder: Path) -> list[Json]:
    done = subprocess.run(["kubectl", "kustomize", folder], capture_output=True, text=True, check=True)
    return [value for value in yaml.safe_load_all(done.stdout) if value]
