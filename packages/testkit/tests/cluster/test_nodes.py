"""Where pods run, and what becomes of them when their node does not want them or is gone."""

import pytest
from kubernetes import client

from nightshift_testkit.cluster.cluster import SimulatedCluster
from nightshift_testkit.cluster.kinds import NODE, Json
from nightshift_testkit.cluster.samples import (
    NAMESPACE,
    gone,
    gpu,
    named,
    needs_the_stand_in,
    phase,
    pod,
    refused,
    unplaced,
    until,
)
from nightshift_testkit.processes import wait_until

LONG = "exec sleep 1000"


def node_of(cluster: SimulatedCluster) -> str:
    return until(cluster, lambda pod: pod["spec"].get("nodeName"), "it has a node")["spec"]["nodeName"]


@needs_the_stand_in
def test_a_pod_waits_for_a_node_that_has_what_it_asks_for(cluster: SimulatedCluster, core: client.CoreV1Api) -> None:
    core.create_namespaced_pod(NAMESPACE, gpu())
    assert unplaced(cluster) == "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    events = core.list_namespaced_event(NAMESPACE, field_selector="involvedObject.name=step").items
    assert [event.reason for event in events] == ["FailedScheduling"]

    cluster.add_node("gpu", gpus=1)

    phase(cluster, "Succeeded")
    assert node_of(cluster) == "gpu"


@needs_the_stand_in
def test_a_pod_goes_where_the_labels_are(cluster: SimulatedCluster) -> None:
    cluster.apply(pod(nodeSelector={"pool": "spot"}))
    assert "1 node(s) didn't match Pod's node affinity/selector" in unplaced(cluster)

    cluster.add_node("spot", {"pool": "spot"})

    phase(cluster, "Succeeded")


def test_a_taint_keeps_pods_away_that_do_not_tolerate_it(cluster: SimulatedCluster) -> None:
    cluster.taint("cpu", "team", value="ml")
    cluster.apply(pod())
    assert "1 node(s) had untolerated taint(s) {team: ml}" in unplaced(cluster)

    cluster.apply(pod(name="other", tolerations=[{"key": "team", "value": "ml", "effect": "NoSchedule"}]))
    phase(cluster, "Succeeded", "other")
    cluster.untaint("cpu", "team")
    phase(cluster, "Succeeded")


@needs_the_stand_in
def test_a_pod_whose_claim_is_missing_waits_for_it(cluster: SimulatedCluster) -> None:
    cluster.apply(pod(volumes=[{"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}]))
    assert unplaced(cluster) == 'persistentvolumeclaim "lake" not found'

    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.apply(named("PersistentVolumeClaim", "lake", spec=spec))

    phase(cluster, "Succeeded")


def persistent(name: str, spec: Json) -> Json:
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    "differs", ({"storageClassName": "fast"}, {"capacity": {"storage": "1Mi"}}, {"accessModes": ["ReadWriteOnce"]})
)
def test_a_claim_is_not_bound_to_a_volume_that_is_not_what_it_asks_for(
    cluster: SimulatedCluster, differs: Json
) -> None:
    csi = {"driver": "fsx.csi.aws.com", "volumeHandle": "fs-0"}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": "", "csi": csi}
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = spec | {"storageClassName": "", "volumeName": "lake"}
    cluster.apply(persistent("lake", volume | differs))
    cluster.apply(named("PersistentVolumeClaim", "lake", spec=claim))
    cluster.apply(pod(volumes=[{"name": "lake", "persistentVolumeClaim": {"claimName": "lake"}}]))
    assert "unbound" in unplaced(cluster)

    cluster.apply(persistent("other", volume))
    cluster.apply(named("PersistentVolumeClaim", "second", spec=claim | {"volumeName": "other"}))
    cluster.apply(pod(name="second", volumes=[{"name": "lake", "persistentVolumeClaim": {"claimName": "second"}}]))

    phase(cluster, "Succeeded", "second")


def test_a_node_that_takes_no_more_pods_keeps_those_it_has(cluster: SimulatedCluster) -> None:
    cluster.apply(pod(LONG))
    phase(cluster, "Running")

    cluster.cordon("cpu")

    cluster.apply(pod(name="other"))
    until(cluster, lambda pod: pod["status"].get("conditions"), "the other waits", "other")
    assert phase(cluster, "Running")


def test_a_taint_that_executes_nothing_deletes_pods_whatever_a_budget_says(cluster: SimulatedCluster) -> None:
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "step"}}}
    cluster.apply(named("PodDisruptionBudget", "step", "policy/v1", spec=budget), pod(LONG))
    phase(cluster, "Running")

    cluster.taint("cpu", "spot/interrupted", "NoExecute")

    assert gone(cluster)


def test_a_budget_refuses_eviction_and_drain_as_long_as_it_is_needed(
    cluster: SimulatedCluster, core: client.CoreV1Api
) -> None:
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "step"}}}
    cluster.apply(named("PodDisruptionBudget", "step", "policy/v1", spec=budget), pod(LONG))
    phase(cluster, "Running")
    eviction = {"metadata": {"name": "step", "namespace": NAMESPACE}}

    refusal = refused(core.create_namespaced_pod_eviction, "step", NAMESPACE, eviction)
    assert refusal.kind == (429, "TooManyRequests")
    assert refusal.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert cluster.drain("cpu") == ["step"]

    client.PolicyV1Api(core.api_client).delete_namespaced_pod_disruption_budget("step", NAMESPACE)
    core.create_namespaced_pod_eviction("step", NAMESPACE, eviction)
    assert gone(cluster)


def test_a_lost_node_says_nothing_of_its_pods_which_go_with_its_object(
    cluster: SimulatedCluster, core: client.CoreV1Api
) -> None:
    cluster.apply(pod(LONG))
    phase(cluster, "Running")

    cluster.lose("cpu")

    conditions = cluster.get(NODE, "cpu")["status"]["conditions"]
    assert [item["status"] for item in conditions if item["type"] == "Ready"] == ["Unknown"]
    assert refused(core.read_namespaced_pod_log, "step", NAMESPACE).code == 500
    assert core.read_namespaced_pod("step", NAMESPACE).status.phase == "Running"
    core.delete_node("cpu")
    assert gone(cluster)


@pytest.mark.parametrize("seconds", [None, 0])
def test_a_pod_deleted_on_a_lost_node_stays_unless_it_is_forced(
    cluster: SimulatedCluster, core: client.CoreV1Api, seconds: int | None
) -> None:
    cluster.apply(pod(LONG))
    phase(cluster, "Running")
    cluster.lose("cpu")

    core.delete_namespaced_pod("step", NAMESPACE, grace_period_seconds=seconds)

    if seconds is None:
        assert wait_until(lambda: cluster.pods()[0]["metadata"].get("deletionTimestamp"), "it is to go")
        core.delete_namespaced_pod("step", NAMESPACE, grace_period_seconds=0)
    assert gone(cluster)


@pytest.mark.parametrize("script", ["true", LONG])
def test_a_deleted_pod_stays_until_nobody_holds_it(
    cluster: SimulatedCluster, core: client.CoreV1Api, script: str
) -> None:
    held = pod(script)
    held["metadata"]["finalizers"] = ["nightshift/seen"]
    cluster.apply(held)
    phase(cluster, "Succeeded" if script == "true" else "Running")

    core.delete_namespaced_pod("step", NAMESPACE, grace_period_seconds=1)

    assert core.read_namespaced_pod("step", NAMESPACE).metadata.deletion_timestamp
    core.patch_namespaced_pod("step", NAMESPACE, {"metadata": {"finalizers": None}})
    assert gone(cluster)
