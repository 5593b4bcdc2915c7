"""What a cluster refuses, and what it fills in, before a pod is there."""

import pytest
from kubernetes import client

from nightshift_testkit.cluster.cluster import SimulatedCluster
from nightshift_testkit.cluster.kinds import QUOTA, Json
from nightshift_testkit.cluster.problems import StatusError
from nightshift_testkit.cluster.samples import NAMESPACE, SAFE, gpu, named, phase, pod, refused
from nightshift_testkit.processes import wait_until

MEMORY = {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "4Gi"}}}


def quota(**hard: str) -> Json:
    return named("ResourceQuota", "runs", spec={"hard": {name.replace("_", "."): most for name, most in hard.items()}})


def limits(**item: dict[str, str]) -> Json:
    return named("LimitRange", "limits", spec={"limits": [{"type": "Container"} | item]})


def enforce(cluster: SimulatedCluster, level: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": level}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})


def test_a_pod_of_an_account_that_is_not_there_is_forbidden(core: client.CoreV1Api) -> None:
    refusal = refused(core.create_namespaced_pod, NAMESPACE, pod(serviceAccountName="nobody"))

    assert refusal.kind == (403, "Forbidden")
    assert f'service account {NAMESPACE}/nobody: serviceaccount "nobody" not found' in refusal.message


def test_a_request_over_the_limit_that_a_limit_range_fills_in_is_invalid(
    cluster: SimulatedCluster, core: client.CoreV1Api
) -> None:
    cluster.apply(limits(default={"memory": "1Gi"}))
    resources = {"resources": {"requests": {"memory": "2Gi"}}}

    refusal = refused(core.create_namespaced_pod, NAMESPACE, pod(container=resources))

    assert refusal.kind == (422, "Invalid")
    assert "must be less than or equal to memory limit of 1Gi" in refusal.message


def test_a_pod_over_the_quota_is_forbidden_until_another_ends(
    cluster: SimulatedCluster, core: client.CoreV1Api
) -> None:
    cluster.add_node("gpu", gpus=8)
    cluster.apply(named("ResourceQuota", "runs", spec={"hard": {"requests.nvidia.com/gpu": "1"}}))
    first = gpu()
    first["spec"]["containers"][0]["command"] = ["sleep", "1000"]
    core.create_namespaced_pod(NAMESPACE, first)

    refusal = refused(core.create_namespaced_pod, NAMESPACE, gpu(name="second"))
    assert refusal.kind == (403, "Forbidden")
    assert refusal.message.endswith(
        "exceeded quota: runs, requested: requests.nvidia.com/gpu=1, "
        "used: requests.nvidia.com/gpu=1, limited: requests.nvidia.com/gpu=1"
    )
    wait_until(
        lambda: cluster.get(QUOTA, "runs").get("status", {}).get("used") == {"requests.nvidia.com/gpu": "1"},
        "the quota is counted",
    )
    phase(cluster, "Running")
    cluster.kill("step", NAMESPACE)
    phase(cluster, "Failed")
    core.create_namespaced_pod(NAMESPACE, gpu(name="second"))
    phase(cluster, "Succeeded", "second")


def test_a_quota_of_memory_wants_pods_to_say_what_they_take(cluster: SimulatedCluster) -> None:
    cluster.apply(quota(requests_memory="3Gi", pods="2"))

    with pytest.raises(StatusError, match=r"failed quota: runs: must specify requests\.memory for: base"):
        cluster.apply(pod())
    cluster.apply(pod("sleep 1000", container=MEMORY))
    with pytest.raises(StatusError, match=r"requested: requests\.memory=2Gi, used: requests\.memory=2Gi"):
        cluster.apply(pod(name="second", container=MEMORY))


def test_a_limit_range_fills_in_and_bounds(cluster: SimulatedCluster, core: client.CoreV1Api) -> None:
    cluster.apply(quota(requests_memory="3Gi"), limits(defaultRequest={"memory": "1Gi"}, max={"memory": "3Gi"}))
    small = pod(container={"resources": {"limits": {"memory": "2Gi"}}})

    assert core.create_namespaced_pod(NAMESPACE, small).spec.containers[0].resources.requests == {"memory": "2Gi"}
    refusal = refused(core.create_namespaced_pod, NAMESPACE, pod(name="large", container=MEMORY))
    assert "maximum memory usage per Container is 3Gi, but limit is 4Gi" in refusal.message


def test_a_limit_without_a_request_asks_for_as_much(core: client.CoreV1Api) -> None:
    created = core.create_namespaced_pod(NAMESPACE, gpu(2))

    assert created.spec.containers[0].resources.requests == {"nvidia.com/gpu": "2"}


BAD = {
    "hostPath volumes": {"volumes": [{"name": "root", "hostPath": {"path": "/"}}]},
    "host namespaces": {"hostNetwork": True},
    "privileged": {"container": {"securityContext": {"privileged": True}}},
    "non-default capabilities": {"container": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}},
}


@pytest.mark.parametrize("title", BAD)
def test_a_baseline_namespace_refuses(cluster: SimulatedCluster, title: str) -> None:
    enforce(cluster, "baseline")

    with pytest.raises(StatusError, match=rf'violates PodSecurity "baseline:latest": {title} \('):
        cluster.apply(pod(**BAD[title]))
    cluster.apply(pod())


@pytest.mark.parametrize("missing", SAFE)
def test_a_restricted_namespace_wants_all_of_it(cluster: SimulatedCluster, missing: str) -> None:
    enforce(cluster, "restricted")
    context = {name: value for name, value in SAFE.items() if name != missing}

    with pytest.raises(StatusError, match=r'violates PodSecurity "restricted:latest": '):
        cluster.apply(pod(container={"securityContext": context}))
    cluster.apply(pod(container={"securityContext": SAFE}))


def test_a_priority_class_that_is_not_there_is_refused_and_one_that_is_gives_its_value(
    cluster: SimulatedCluster,
) -> None:
    urgent = {"metadata": {"name": "urgent"}, "value": 7}
    cluster.apply({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"} | urgent)

    with pytest.raises(StatusError, match="no PriorityClass with name none was found"):
        cluster.apply(pod(priorityClassName="none"))
    cluster.apply(pod(priorityClassName="urgent"))
    assert cluster.pods()[0]["spec"]["priority"] == 7
