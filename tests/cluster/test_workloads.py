"""What makes pods on the cluster: jobs, deployments and their like."""

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.kinds import EVENT, JOB, Json
from tests.cluster.problems import RefusedError
from tests.cluster.samples import gpu, named, pod
from tests.processes import wait_until


def job(template: Json, **spec: Any) -> Json:
    return named("Job", "migrate", "batch/v1", spec={"template": {"spec": template["spec"]}} | spec)


def ended(cluster: Cluster) -> tuple[str, Json]:
    """Wait until the job has ended; return how, and its status."""

    def look() -> Any:
        status = cluster.api.store.get(JOB, "migrate", "default").get("status", {})
        return [(item["type"], status) for item in status.get("conditions", [])]

    return wait_until(look, "the job ends")[0]


def test_a_job_completes_when_enough_of_its_pods_have_succeeded(cluster: Cluster) -> None:
    cluster.apply(job(pod(), completions=2))

    how, status = ended(cluster)

    assert (how, status["succeeded"]) == ("Complete", 2)


def test_a_job_fails_when_more_of_its_pods_do_than_it_allows(cluster: Cluster) -> None:
    cluster.apply(job(pod("exit 1"), backoffLimit=1))

    how, status = ended(cluster)

    assert (how, status["failed"]) == ("Failed", 2)


def test_a_job_over_the_quota_waits(cluster: Cluster) -> None:
    cluster.add_node("gpu", gpus=1)
    cluster.apply(named("ResourceQuota", "runs", spec={"hard": {"requests.nvidia.com/gpu": "0"}}), job(gpu()))
    wait_until(
        lambda: [event for event in cluster.api.store.each(EVENT) if event["reason"] == "FailedCreate"], "it waits"
    )

    cluster.apply(named("ResourceQuota", "runs", spec={"hard": {"requests.nvidia.com/gpu": "1"}}))

    assert ended(cluster)[0] == "Complete"


def test_a_job_whose_pods_would_start_for_ever_is_refused(cluster: Cluster) -> None:
    with pytest.raises(RefusedError, match=r"restartPolicy: Required value"):
        cluster.apply(job(pod(restartPolicy="Always")))


def forever(kind: str, script: str = "exec sleep 1000", **spec: Any) -> Json:
    """A workload whose pods run until they are told to end."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod(script, terminationGracePeriodSeconds=0)["spec"]}
    template["spec"]["restartPolicy"] = "Always"
    return named(kind, "x", "apps/v1", spec={"selector": {"matchLabels": {"app": "x"}}, "template": template} | spec)


def running(cluster: Cluster) -> list[Json]:
    return [found for found in cluster.pods() if found["status"]["phase"] == "Running"]


def test_a_deployment_has_as_many_pods_as_it_wants_and_new_ones_of_a_new_template(cluster: Cluster) -> None:
    cluster.apply(forever("Deployment", replicas=2))
    wait_until(lambda: len(running(cluster)) == 2, "both run")
    before = {found["metadata"]["name"] for found in cluster.pods()}

    cluster.delete_pod(min(before), "default")
    wait_until(lambda: before <= {found["metadata"]["name"] for found in running(cluster)}, "another takes its place")
    cluster.apply(forever("Deployment", "exec sleep 2000", replicas=1))

    wait_until(lambda: len(cluster.pods()) == len(running(cluster)) == 1, "a new one runs alone")
    assert cluster.pods()[0]["spec"]["containers"][0]["command"][-1] == "exec sleep 2000"


def test_a_daemon_set_has_a_pod_on_every_node_that_takes_it(cluster: Cluster) -> None:
    cluster.add_node("gpu", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    cluster.apply(forever("DaemonSet"))

    wait_until(lambda: running(cluster), "it runs")

    assert [found["spec"]["nodeName"] for found in cluster.pods()] == ["cpu"]


def test_a_stateful_set_finds_what_it_has_claimed_again(cluster: Cluster, tmp_path: Path) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    script = "echo once >> /state/tries; exec sleep 1000"
    value = forever("StatefulSet", script, serviceName="x")
    value["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "state"}, "spec": claim}]
    value["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    cluster.apply(value)
    wait_until(lambda: running(cluster), "it runs")

    cluster.delete_pod("x-0", "default")

    tries = tmp_path / "claims/default/state-x-0/tries"
    assert wait_until(lambda: tries.read_text() == "once\n" * 2, "it has its folder")
