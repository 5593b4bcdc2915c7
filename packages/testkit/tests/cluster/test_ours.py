"""Our own manifests and steps as containers: their users, rights, mounts and limits are enough."""

import json
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest
import yaml

from nightshift_testkit.cluster.cluster import SimulatedCluster
from nightshift_testkit.cluster.kinds import JOB, Json
from nightshift_testkit.cluster.samples import SAFE, named, pod, until
from nightshift_testkit.kubeflow import Kubeflow
from nightshift_testkit.processes import engine, wait_until
from pipelines import arguments, environments
from pipelines.commands import Commands

ROOT = Path(__file__).parents[4]
NIGHTLY = arguments.load_compiled("nightly", "aws")
LUSTRE = {
    "volumes": [{"name": "lustre", "persistentVolumeClaim": {"claimName": "nightshift-lustre"}}],
    "securityContext": {"runAsUser": 10001, "runAsGroup": 10001},
}
MOUNTED = {"volumeMounts": [{"name": "lustre", "mountPath": "/lustre"}]}


@pytest.fixture
def site(containers: SimulatedCluster) -> SimulatedCluster:
    """A cluster with a new file system, and a node for what is ours."""
    containers.add_node("general", {"nightshift/pool": "general"})
    containers.apply(*manifests("kubernetes/aws/lustre.yaml", "PersistentVolume"))
    containers.apply(*manifests("kubernetes/base/lustre.yaml", "PersistentVolumeClaim"))
    return containers


def manifests(name: str, *kinds: str) -> list[Json]:
    """Return objects of infra/, without a namespace."""
    return [value for value in yaml.safe_load_all((ROOT / "infra" / name).read_text()) if value["kind"] in kinds]


def ended(site: SimulatedCluster, name: str) -> str:
    """Wait for a pod's end, and return its phase."""
    pod = until(site, lambda pod: pod["status"]["phase"] in ("Succeeded", "Failed"), f"{name} ends", name)
    return str(pod["status"]["phase"])


def written(site: SimulatedCluster, container: str = "base") -> str:
    """What the containers of a name have printed so far."""
    started = [pod for pod in site.pods() if pod["status"]["phase"] != "Pending"]
    with_it = [pod for pod in started if container in {spec["name"] for spec in pod["spec"]["containers"]}]
    return b"".join(line for pod in with_it for line in site.api.log(pod, container).read(follow=False)).decode()


def inside(kubeflow: Kubeflow) -> str:
    """Kubeflow's URL as pods know it, but for the port."""
    return environments.KUBEFLOW_INSIDE.rpartition(":")[0] + ":" + kubeflow.url.rpartition(":")[2]


def give_lustre_to_steps(site: SimulatedCluster) -> None:
    site.apply(*manifests("kubernetes/base/lustre.yaml", "Job"))

    def done() -> bool:
        (job,) = site.api.store.copies(JOB)
        return "Complete" in [condition["type"] for condition in job.get("status", {}).get("conditions", [])]

    wait_until(done, "the job is complete")


def test_steps_may_write_to_a_new_file_system_once_its_root_is_given_to_them(site: SimulatedCluster) -> None:
    site.apply(pod("echo x > /lustre/x", "before", container=MOUNTED, **LUSTRE))
    assert ended(site, "before") == "Failed"

    give_lustre_to_steps(site)

    site.apply(pod("echo x > /lustre/x", "after", container=MOUNTED, **LUSTRE))
    assert ended(site, "after") == "Succeeded"


def test_the_exporter_shows_kubeflows_runs_with_what_its_deployment_gives_it(
    site: SimulatedCluster, kubeflow: Kubeflow
) -> None:
    kubeflow.token = "nightshift-exporter for pipelines.kubeflow.org"
    account, deployment = manifests("monitoring/exporter.yaml", "ServiceAccount", "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    (endpoint,) = container["env"]
    assert endpoint["value"] == environments.KUBEFLOW_INSIDE
    endpoint["value"] = inside(kubeflow)
    # not to this machine's network
    container["command"] += ["--host", "127.0.0.1", "--port", "0"]
    site.apply(account, deployment)

    def address() -> str | None:
        url = re.search(r"http://\S+/metrics", written(site, "exporter"))
        return url and url[0]

    def shown() -> str:
        with urllib.request.urlopen(wait_until(address, "the exporter listens")) as answer:
            return str(answer.read().decode())

    assert "nightshift_kubeflow_up 1.0" in shown()


def test_a_step_that_kubeflows_clock_starts_starts_the_scheduled_run_once(
    site: SimulatedCluster, kubeflow: Kubeflow, tmp_path: Path
) -> None:
    flags = ["--environment", "aws", "--endpoint", kubeflow.url, "--inside", inside(kubeflow)]
    subprocess.run(engine("schedule", *flags), check=True, capture_output=True)
    (recurring,) = [job for job in kubeflow.recurring if job.display_name == "fraud-training"]
    site.apply(named("ServiceAccount", "nightshift"))
    give_lustre_to_steps(site)
    starts = []
    for name in ("first", "again"):
        site.apply(launcher(name, recurring.runtime_config.parameters))
        assert ended(site, name) == "Succeeded", written(site)
        starts.append(json.loads((tmp_path / f"claims/default/nightshift-lustre/{name}/launching/launch").read_text()))

    (run,) = kubeflow.runs
    assert run.display_name.startswith("fraud-training-") and run.service_account == "nightshift"
    assert [(start["new"], start["run"]) for start in starts] == [
        (True, run.display_name),
        (False, run.display_name),
    ]


def launcher(name: str, parameters: Json) -> Json:
    """The pod of `nightly`'s only step, as Kubeflow makes it of the compiled YAML, without its own containers."""
    (step,) = NIGHTLY.tasks
    arguments = {"state": NIGHTLY.parameters["state"].default} | parameters
    container = {
        "image": step.image,
        "command": Commands(f"/lustre/{name}", arguments).argv(step),
        "env": [{"name": name, "value": value} for name, value in step.environment.items()],
        "securityContext": SAFE,
        **MOUNTED,
    }
    nodes = step.kubernetes["nodeSelector"]["labels"]
    return pod(name=name, container=container, serviceAccountName="nightshift", nodeSelector=nodes, **LUSTRE)
