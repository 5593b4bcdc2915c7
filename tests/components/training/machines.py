"""A cluster on which trainings are TrainJobs, with what `infra/kubernetes` gives them and the account of the step."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from kubernetes import config

from components.training.trainjob import TrainJob, TrainJobWork
from nightshift_testkit.cluster import security
from nightshift_testkit.cluster.cluster import CRDS, SimulatedCluster, running
from nightshift_testkit.cluster.kinds import Json
from nightshift_testkit.cluster.runtimes import ProcessRuntime
from nightshift_testkit.cluster.trainer import TrainJobController
from pipelines.environments import AWS, Role

INFRA = Path(__file__).parents[3] / "infra" / "kubernetes"
NAMESPACE = "kubeflow"
WORK = TrainJobWork(("--config", "{}"), 2, {"NIGHTSHIFT_MACHINE": "g6.2xlarge spot"})


class Site:
    """A cluster with our runtime and two nodes with a GPU each, on which `python` is a script."""

    def __init__(self, cluster: SimulatedCluster, folder: Path) -> None:
        self.cluster, self.folder, self.trainer = cluster, folder, TrainJobController(cluster)
        self.meanwhile: Callable[[], Any] = lambda: None  # done in every pause
        token = cluster.api.token(NAMESPACE, AWS.with_trainjobs().placements[Role.TRAINING].account)
        self.connection = config.new_client_from_config(str(cluster.config(folder / "config", token)))

    def script(self, text: str) -> None:
        """Say what the pods do instead of training."""
        path = self.folder / "bin" / "python"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def job(self, work: TrainJobWork = WORK, connection: Any = None) -> TrainJob:
        return TrainJob(work, connection or self.connection, NAMESPACE, self.pause)

    def pause(self, _: float) -> None:
        """Let the TrainJobController act, and wait until something has changed."""
        store = self.cluster.api.store
        seen = store.version
        self.trainer.sync()
        self.meanwhile()
        with store.changed:
            store.changed.wait_for(lambda: store.version != seen, 1)

    def left(self) -> list[str]:
        """What is there of trainings, but for what is being deleted and gone soon."""
        for _ in range(60):
            objects = self._objects()
            if not any("deletionTimestamp" in value["metadata"] for value in objects):
                break
            self.pause(0)
        return [value["kind"] for value in objects]

    def _objects(self) -> list[Json]:
        kinds = [kind for kind in self.cluster.api.kinds if kind.name in ("TrainJob", "JobSet", "Job", "Pod")]
        return [value for kind in kinds for value in self.cluster.api.store.copies(kind, NAMESPACE)]

    def add_node(self, name: str) -> None:
        gpu = AWS.placements[Role.GPU]
        taints = [{"key": taint.key, "value": taint.value, "effect": "NoSchedule"} for taint in gpu.tolerations]
        self.cluster.add_node(name, dict(gpu.nodes), taints, gpus=1)

    def run_at_once(self) -> bool:
        """Whether both pods run."""
        return [pod["status"]["phase"] for pod in self.cluster.pods(NAMESPACE)] == ["Running", "Running"]


@contextmanager
def standing(folder: Path) -> Iterator[Site]:
    """Run a cluster whose state is below a folder."""
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    with running(ProcessRuntime(environment=environment), folder, CRDS) as cluster:
        labels = {security.LABEL: "restricted"}
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
        cluster.apply(*manifests("aws/lustre.yaml", "base/lustre.yaml", "base/training.yaml"))
        cluster.apply(placed({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nightshift"}}))
        site = Site(cluster, folder)
        for name in ("gpu-1", "gpu-2"):
            site.add_node(name)
        yield site


def manifests(*names: str) -> list[Json]:
    values = [value for name in names for value in yaml.safe_load_all((INFRA / name).read_text())]
    return [placed(value) for value in values if value["kind"] != "Job"]


def placed(value: Json) -> Json:
    if value["kind"] != "PersistentVolume":
        value["metadata"]["namespace"] = NAMESPACE
    return value


def with_nodes(words: list[str], **trainer: int) -> list[str]:
    at = words.index("--config") + 1
    wanted = json.loads(words[at])
    wanted["task"]["trainer"] = trainer
    return [*words[:at], json.dumps(wanted), *words[at + 1 :]]
