"""The cluster that `infra/` describes."""

import functools
from pathlib import Path

from infra.terraform import INFRA
from pipelines.environments import SITES
from tests.infra import kustomize
from tests.infra.edges import needs
from tests.infra.edges.model import Cluster, cluster

CLOUDS = ("aws", "gcp")


@functools.cache
def standing(cloud: str, infra: Path = INFRA) -> Cluster:
    """Return what `make cloud-install` brings a cloud's cluster to, with the pods that runs start there."""
    folders = ("cluster/namespaces", f"kubernetes/{cloud}", "monitoring")
    ours = [value for folder in folders for value in kustomize.built(infra / folder)]
    return cluster([*ours, needs.exposed()], cloud, needs.started(SITES[cloud]))
