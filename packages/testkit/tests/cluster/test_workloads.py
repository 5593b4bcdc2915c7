"""What makes pods on the cluster: jobs, deployments and their like."""

from pathlib import Path
from typing import Any

import pytest

from nightshift_testkit.cluster.cluster import SimulatedCluster
from nightshift_testkit.cluster.kinds import EVENT, JOB, POD, Json
from nightshift_testkit.cluster.problems import StatusError
from nightshift_testkit.cluster.samples import gpu, named, needs_the_stand_in, pod
from nightshift_testkit.processes import wait_until


def job(template: Json, **spec: Any) -> Json:
    return named("Job", "migrate", "batch/v1", spec={"template": {"spec": template["spec"]}} | spec)


def ended(cluster: SimulatedCluster) -> tuple[str, Json]:
    """Wait until the job has ended; return how, and its status."""

    def look() -> Any:
        status = cluster.get(JOB, "migrate").get("status", {})
        return [(item["type"], status) for item in status.get("conditions", [])]

    return wait_until(look, "the job ends")[0]


def test_a_job_completes_when_enough_of_its_pods_have_succeeded(cluster: SimulatedCluster) -> None:
    cluster.apply(job(pod(), completions=2))

    how, status = ended(cluster)

    assert (how, status["succeeded"]) == ("Complete", 2)


def test_a_job_fails_when_more_of_its_pods_do_than_it_allows(cluster: SimulatedCluster) -> None:
    cluster.apply(job(pod("exit 1"), backoffLimit=1))

    how, status = ended(cluster)

    assert (how, status["failed"]) == ("Failed", 2)


def test_a_job_over_the_quota_waits(cluster: SimulatedCluster) -> None:
    cluster.add_node("gpu", gpus=1)
    cluster.apply(named("ResourceQuota", "runs", spec={"hard": {"requests.nvidia.com/gpu": "0"}}), job(gpu()))
    wait_until(
        lambda: [event for event in cluster.api.store.select(EVENT) if event["reason"] == "FailedCreate"], "it waits"
    )

    cluster.apply(named("ResourceQuota", "runs", spec={"hard": {"requests.nvidia.com/gpu": "1"}}))

    assert ended(cluster)[0] == "Complete"


def test_a_job_whose_pods_would_start_for_ever_is_refused(cluster: SimulatedCluster) -> None:
    with pytest.raises(StatusError, match=r"restartPolicy: Required value"):
        cluster.apply(job(pod(restartPolicy="Always")))


def forever(kind: str, script: str = "exec sleep 1000", **spec: Any) -> Json:
    """A workload whose pods run until they are told to end."""
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod(script, terminationGracePeriodSeconds=0)["spec"]}
    template["spec"]["restartPolicy"] = "Always"
    return named(kind, "x", "apps/v1", spec={"selector": {"matchLabels": {"app": "x"}}, "template": template} | spec)


def running(cluster: SimulatedCluster) -> list[Json]:
    return [pod for pod in cluster.pods() if pod["status"]["phase"] == "Running"]


@needs_the_stand_in
def test_a_deployment_has_as_many_pods_as_it_wants_and_new_ones_of_a_new_template(cluster: SimulatedCluster) -> None:
    cluster.apply(forever("Deployment", replicas=2))
    wait_until(lambda: len(running(cluster)) == 2, "both run")
    before = {pod["metadata"]["name"] for pod in cluster.pods()}

    cluster.delete(POD, min(before))
    wait_until(lambda: before <= {pod["metadata"]["name"] for pod in running(cluster)}, "another takes its place")
    cluster.apply(forever("Deployment", "exec sleep 2000", replicas=1))

    wait_until(lambda: len(cluster.pods()) == len(running(cluster)) == 1, "a new one runs alone")
    assert cluster.pods()[0]["spec"]["containers"][0]["command"][-1] == "exec sleep 2000"


def test_a_daemon_set_has_a_pod_on_every_node_that_takes_it(cluster: SimulatedCluster) -> None:
    cluster.add_node("gpu", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    cluster.apply(forever("DaemonSet"))

    wait_until(lambda: running(cluster), "it runs")

    assert [pod["spec"]["nodeName"] for pod in cluster.pods()] == ["cpu"]


def test_a_stateful_set_finds_what_it_has_claimed_again(cluster: SimulatedCluster, tmp_path: Path) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    script = "echo once >> /state/tries; exec sleep 1000"
    value = forever("StatefulSet", script, serviceName="x")
    value["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "state"}, "spec": claim}]
    value["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    cluster.apply(value)
    wait_until(lambda: running(cluster), "it runs")

    cluster.delete(POD, "x-0")

    tries = tmp_path / "claims/default/state-x-0/tries"
    assert wait_until(lambda: tries.read_text() == "once\n" * 2, "it has its folder")


def indexed(script: str, **spec: Any) -> Json:
    return job(pod(script), completionMode="Indexed", completions=2, parallelism=2, backoffLimit=0, **spec)


def test_an_indexed_job_has_a_pod_of_each_number(cluster: SimulatedCluster) -> None:
    cluster.apply(indexed("true"))

    how, status = ended(cluster)

    numbers = {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in cluster.pods()}
    assert (how, status["succeeded"], numbers) == ("Complete", 2, {"0", "1"})


@pytest.mark.parametrize(("code", "reason"), [(75, "PodFailurePolicy"), (1, "BackoffLimitExceeded")])
def test_a_job_says_whether_its_policy_or_its_limit_made_it_fail(
    cluster: SimulatedCluster, code: int, reason: str
) -> None:
    codes = {"containerName": "base", "operator": "In", "values": [75]}
    cluster.apply(indexed(f"exit {code}", podFailurePolicy={"rules": [{"action": "FailJob", "onExitCodes": codes}]}))

    _, status = ended(cluster)

    assert [(condition["type"], condition["reason"]) for condition in status["conditions"]] == [("Failed", reason)]


def test_a_pod_that_is_gone_with_its_node_counts_as_disrupted_and_the_others_end(cluster: SimulatedCluster) -> None:
    cluster.add_node("second")
    wanted = [{"type": "DisruptionTarget", "status": "True"}]
    policy = {"rules": [{"action": "FailJob", "onPodConditions": wanted}]}
    labels = {"metadata": {"labels": {"app": "x"}}, "spec": pod("exec sleep 1000")["spec"]}
    value = indexed("", podFailurePolicy=policy)
    value["spec"]["template"] = labels
    cluster.apply(value)
    wait_until(lambda: len(running(cluster)) == 2, "both run")
    cluster.remove_node("cpu")

    _, status = ended(cluster)

    assert status["conditions"][0]["reason"] == "PodFailurePolicy"
    wait_until(lambda: not running(cluster), "none runs")


def test_what_is_deleted_in_the_foreground_goes_after_what_it_owns(cluster: SimulatedCluster) -> None:
    slow = 'trap "sleep 0.3; exit" TERM; echo; sleep 1000 & wait'
    cluster.apply(job(pod(slow)))
    wait_until(lambda: running(cluster), "it runs")

    cluster.delete(JOB, "migrate", {"propagationPolicy": "Foreground"})

    assert cluster.peek(JOB, "migrate") and cluster.pods()
    wait_until(lambda: cluster.peek(JOB, "migrate") is None, "it is gone")
    assert cluster.pods() == []
