"""The training step as a Kubeflow Trainer manifest."""

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import yaml
from kubeflow_trainer_api.models import TrainerV1alpha1TrainJob

from components.common.errors import UserError
from components.training.__main__ import parser
from pipelines import configs, runs
from pipelines.environments import GPU, LOCAL, SITES
from pipelines.trainjob import Job, manifest

CLUSTERS = [name for name, place in SITES.items() if place.heavy.gpus]
JOB = Job({"date": "2018-08-14", "device": "cuda"}, "/lustre/features.json", "s3://models/m", nodes=2, gpus=4)


def rendered(environment: str) -> dict[str, Any]:
    job = replace(JOB, values=JOB.values | {"config": configs.load("fraud")})
    return manifest(job, runs.compiled("fraud-training", environment), SITES[environment].heavy)


@pytest.mark.parametrize("environment", CLUSTERS)
def test_the_trainers_own_models_read_the_manifest_without_leaving_anything_out(environment: str) -> None:
    text = yaml.safe_dump(rendered(environment))

    read = TrainerV1alpha1TrainJob.from_dict(yaml.safe_load(text))
    assert read is not None
    assert read.to_dict() == yaml.safe_load(text)
    assert (read.spec.trainer.num_nodes, read.spec.trainer.num_proc_per_node) == (2, 4)
    assert read.spec.trainer.resources_per_node.to_dict()["limits"][GPU] == "4"


@pytest.mark.parametrize("environment", CLUSTERS)
def test_it_runs_the_training_steps_own_command_line_in_its_own_image(environment: str) -> None:
    trainer = rendered(environment)["spec"]["trainer"]

    assert trainer["command"][:3] == ["torchrun", "-m", "components.training"]
    flags = parser().parse_args(trainer["command"][3:])
    assert (flags.date, flags.device, flags.features, flags.model) == (
        "2018-08-14",
        "cuda",
        "/lustre/features.json",
        "s3://models/m",
    )
    (task,) = (task for task in runs.compiled("fraud-training", environment).tasks if task.name == "training")
    assert trainer["image"] == task.image


@pytest.mark.parametrize("environment", CLUSTERS)
def test_its_pods_go_where_the_training_step_goes(environment: str) -> None:
    (patch,) = rendered(environment)["spec"]["runtimePatches"]
    (job,) = patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    pod = job["template"]["spec"]["template"]["spec"]
    (task,) = (task for task in runs.compiled("fraud-training", environment).tasks if task.name == "training")

    assert pod["nodeSelector"] == task.kubernetes["nodeSelector"]["labels"]
    assert pod["tolerations"] == task.kubernetes["tolerations"]
    mounts = {mount["mountPath"]: mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes[mounts["/lustre"]]["persistentVolumeClaim"]["claimName"] == "nightshift-lustre"
    assert volumes[mounts["/dev/shm"]]["emptyDir"]["medium"] == "Memory"


@pytest.mark.parametrize(
    ("change", "environment", "message"),
    [
        ({"nodes": 0}, "aws", "--nodes is 0"),
        ({"gpus": -1}, "gcp", "--gpus is -1"),
        ({}, LOCAL.name, "lacks; give --environment aws"),
    ],
)
def test_what_no_cluster_can_run_is_refused(change: dict[str, int], environment: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        manifest(replace(JOB, **change), runs.compiled("fraud-training", environment), SITES[environment].heavy)


def test_the_command_prints_yaml_and_says_that_one_process_trains() -> None:
    words = ["trainjob", "--environment", "gcp", "--date", "2018-08-14", "--features", "/f", "--model", "/m"]
    command = [sys.executable, "-m", "pipelines", *words, "--nodes", "2"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["spec"]["trainer"]["numNodes"] == 2
    assert "uses one process" in done.stderr
