"""The training step on several nodes, as a Kubeflow Trainer `TrainJob` that starts it under torchrun.

Today's training is a step of one process: rank 0 alone fits and writes the models, and every other process ends at
once (`components/training/__main__.py`). So a job of several processes shows that the cluster can run one, and
gains no time; more than one pays once a candidate is trained with collectives.
"""

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

from components.common.errors import UserError
from pipelines import ir
from pipelines.commands import Commands
from pipelines.environments import GPU, SHARED_MEMORY, Placement

RUNTIME = "torch-distributed"  # comes with Kubeflow Trainer; its job, and the container in it, are called "node"
NODE = "node"


@dataclass(frozen=True)
class Job:
    """A training to run as a `TrainJob`.

    Attributes:
        values: parameters of the pipeline, with `config`, `date` and `device`.
        features: URI of the features manifest.
        model: URI of the folder to write.
        nodes: pods, one a node.
        gpus: GPUs and processes of each.
    """

    values: dict[str, Any]
    features: str
    model: str
    nodes: int
    gpus: int


def manifest(job: Job, pipeline: ir.Pipeline, placement: Placement) -> dict[str, Any]:
    """Return the Kubernetes object.

    Args:
        job: what to train.
        pipeline: the pipeline whose training step it is, compiled for the cluster.
        placement: of the cluster's heavy steps.

    Raises:
        UserError: for a number of nodes or GPUs below 1, an environment without GPUs, or without the Trainer's models.
    """
    try:
        from kubeflow_trainer_api.models import TrainerV1alpha1TrainJob
    except ImportError:
        raise UserError("a TrainJob needs Kubeflow Trainer's models: pip install -e '.[kfp]'") from None
    for name, value in (("nodes", job.nodes), ("gpus", job.gpus)):
        if value < 1:
            raise UserError(f"--{name} is {value}; it takes 1 or more")
    if not placement.gpus:
        raise UserError("a TrainJob runs on GPU nodes, which this environment lacks; give --environment aws or gcp")
    task = next(task for task in pipeline.tasks if task.name == "training")
    wanted = {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": f"nightshift-training-{date.fromisoformat(job.values['date'])}"},
        "spec": {
            "activeDeadlineSeconds": placement.timeout,
            "runtimeRef": {"name": RUNTIME},
            "trainer": _trainer(job, task, placement),
            "runtimePatches": [{"manager": "nightshift/cli", "trainingRuntimeSpec": {"template": _pods(placement)}}],
        },
    }
    made: dict[str, Any] = TrainerV1alpha1TrainJob.from_dict(wanted).to_dict()
    assert made == wanted, "the models leave out what they do not know"
    return made


def command(job: Job, task: ir.Task) -> list[str]:
    """Return the training step's command line, under torchrun, which takes its ranks from the Trainer's variables."""

    def fill(kind: str, name: str) -> str:
        if kind == "parameter":
            return Commands("", job.values).fill(task, kind, name)
        return {"input": job.features, "output": job.model}.get(kind, json.dumps({}))

    python, *words = ir.argv(task, fill)
    assert python == "python", "torchrun stands in for it"
    return ["torchrun", *words]


def _trainer(job: Job, task: ir.Task, placement: Placement) -> dict[str, Any]:
    requests = {"cpu": placement.cpu_request, "memory": placement.memory_request}
    limits = {"cpu": placement.cpu_limit, "memory": placement.memory_limit, GPU: str(job.gpus)}
    return {
        "image": task.image,
        "command": command(job, task),
        "numNodes": job.nodes,
        "numProcPerNode": job.gpus,
        "resourcesPerNode": {"requests": requests, "limits": limits},
        "env": [{"name": name, "value": value} for name, value in task.environment.items()],
    }


def _pods(placement: Placement) -> dict[str, Any]:
    """Return the patch of the runtime that puts the pods onto their nodes."""
    claims = [
        {"name": volume.claim, "persistentVolumeClaim": {"claimName": volume.claim}} for volume in placement.volumes
    ]
    shared = {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": placement.shared_memory}}
    mounts = [{"name": volume.claim, "mountPath": volume.path} for volume in placement.volumes]
    mounts.append({"name": "shared-memory", "mountPath": SHARED_MEMORY})
    pod = {
        "nodeSelector": dict(placement.nodes),
        "tolerations": [
            {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": "NoSchedule"}
            for taint in placement.tolerations
        ],
        "volumes": [*claims, shared],
        "containers": [{"name": NODE, "volumeMounts": mounts}],
    }
    return {"spec": {"replicatedJobs": [{"name": NODE, "template": {"spec": {"template": {"spec": pod}}}}]}}
