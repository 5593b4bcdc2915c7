"""The API as the `kubernetes` client and kubectl use it."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, watch

from nightshift_testkit.cluster.cluster import SimulatedCluster
from nightshift_testkit.cluster.kinds import CLAIM, JOB
from nightshift_testkit.cluster.problems import StatusError
from nightshift_testkit.cluster.rbac import User
from nightshift_testkit.cluster.samples import NAMESPACE, named, needs_the_stand_in, phase, pod, refused
from nightshift_testkit.processes import wait_until
from packages.testkit.tests.cluster.conftest import connected

SECONDS = 100  # limit of a watch that does not see what it waits for
CONFIG = named("ConfigMap", "settings", data={"a": "1"})


def names(listed: Any) -> list[str]:
    return [item.metadata.name for item in listed.items]


def test_an_object_is_made_read_changed_and_deleted(core: client.CoreV1Api) -> None:
    created = core.create_namespaced_config_map(NAMESPACE, CONFIG)
    assert core.read_namespaced_config_map("settings", NAMESPACE).metadata.uid == created.metadata.uid

    core.patch_namespaced_config_map("settings", NAMESPACE, {"data": {"b": "2"}})
    assert core.read_namespaced_config_map("settings", NAMESPACE).data == {"a": "1", "b": "2"}

    core.delete_namespaced_config_map("settings", NAMESPACE)
    assert refused(core.read_namespaced_config_map, "settings", NAMESPACE).kind == (404, "NotFound")


def test_what_is_there_is_not_made_twice(core: client.CoreV1Api) -> None:
    core.create_namespaced_config_map(NAMESPACE, CONFIG)

    assert refused(core.create_namespaced_config_map, NAMESPACE, CONFIG).kind == (409, "AlreadyExists")


def test_a_change_of_an_old_version_is_a_conflict(core: client.CoreV1Api) -> None:
    old = core.create_namespaced_config_map(NAMESPACE, CONFIG)
    core.patch_namespaced_config_map("settings", NAMESPACE, {"data": {"b": "2"}})

    assert refused(core.replace_namespaced_config_map, "settings", NAMESPACE, old).kind == (409, "Conflict")


def test_nothing_is_made_in_a_namespace_that_is_not_there(core: client.CoreV1Api) -> None:
    nameless = CONFIG | {"metadata": {"name": "settings"}}

    assert refused(core.create_namespaced_config_map, "elsewhere", nameless).kind == (404, "NotFound")


def test_lists_are_selected_by_labels_and_fields_and_come_in_pages(core: client.CoreV1Api) -> None:
    for name in ("a", "b", "c"):
        core.create_namespaced_pod(NAMESPACE, pod(name=name, nodeSelector={"none": "such"}))

    assert names(core.list_namespaced_pod(NAMESPACE, label_selector="app in (a, b),app!=b")) == ["a"]
    assert names(core.list_pod_for_all_namespaces(field_selector="metadata.name=c,status.phase=Pending")) == ["c"]
    first = core.list_namespaced_pod(NAMESPACE, limit=2)
    assert names(first) == ["a", "b"]
    assert names(core.list_namespaced_pod(NAMESPACE, limit=2, _continue=first.metadata._continue)) == ["c"]
    refusal = refused(core.list_namespaced_pod, NAMESPACE, field_selector="spec.hostname=x")
    assert refusal.kind == (400, "BadRequest")


def test_a_watch_tells_what_happens_and_who_no_longer_matches_is_gone(core: client.CoreV1Api) -> None:
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    labeled = {**CONFIG, "metadata": {"name": "settings", "labels": {"app": "x"}}}
    core.create_namespaced_config_map(NAMESPACE, labeled)
    core.patch_namespaced_config_map("settings", NAMESPACE, {"data": {"b": "2"}})
    core.patch_namespaced_config_map("settings", NAMESPACE, {"metadata": {"labels": {"app": "y"}}})

    stream = watch.Watch()
    selected = {"label_selector": "app=x", "resource_version": version, "timeout_seconds": SECONDS}
    seen = []
    for event in stream.stream(core.list_namespaced_config_map, NAMESPACE, **selected):
        seen.append(event["type"])
        if event["type"] == "DELETED":
            stream.stop()
    assert seen == ["ADDED", "MODIFIED", "DELETED"]


def test_a_watch_from_a_forgotten_version_is_gone(cluster: SimulatedCluster, core: client.CoreV1Api) -> None:
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    core.create_namespaced_config_map(NAMESPACE, CONFIG)
    cluster.api.store.forget()

    with pytest.raises(client.ApiException, match="too old resource version") as error:
        list(watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=version))
    assert error.value.status == 410


def test_unknown_fields_are_refused(core: client.CoreV1Api) -> None:
    refusal = refused(core.create_namespaced_pod, NAMESPACE, pod(hostname="a", nodeSelectors={}))

    assert refusal.kind == (400, "BadRequest")
    assert 'unknown field "spec.nodeSelectors"' in refusal.message


def test_missing_and_wrong_values_are_invalid(core: client.CoreV1Api) -> None:
    nameless = pod(container={"name": None})
    refusal = refused(core.create_namespaced_pod, NAMESPACE, nameless)
    assert refusal.kind == (422, "Invalid")
    assert "spec.containers[0].name: Required value" in refusal.message
    assert refused(core.create_namespaced_pod, NAMESPACE, pod(name="Step_1")).kind == (422, "Invalid")
    assert refused(core.create_namespaced_pod, NAMESPACE, pod(restartPolicy="Sometimes")).kind == (422, "Invalid")


def test_custom_resources_are_checked_against_their_definitions(custom: SimulatedCluster) -> None:
    job = named("TrainJob", "train", "trainer.kubeflow.org/v1alpha1", spec={"runtimeRef": {"name": "torch"}})
    custom.apply(job)

    with pytest.raises(StatusError, match=r'unknown field "spec\.runtime"'):
        custom.apply(job | {"metadata": {"name": "other"}, "spec": {"runtimeRef": {"name": "torch"}, "runtime": {}}})
    with pytest.raises(StatusError, match=r"spec\.runtimeRef"):
        custom.apply(job | {"metadata": {"name": "other"}, "spec": {}})


def test_a_pod_and_a_job_keep_what_they_were_made_with(cluster: SimulatedCluster, core: client.CoreV1Api) -> None:
    core.create_namespaced_pod(NAMESPACE, pod())
    patch = {"spec": {"serviceAccountName": "other"}}
    assert refused(core.patch_namespaced_pod, "step", NAMESPACE, patch).kind == (422, "Invalid")

    template = {"spec": pod()["spec"]}
    cluster.apply(named("Job", "migrate", "batch/v1", spec={"template": template}))
    with pytest.raises(StatusError, match=r"spec.template: Invalid value: .*field is immutable"):
        changed = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 1}}}}
        cluster.api.operations.patch(JOB, "migrate", changed, "application/merge-patch+json", NAMESPACE)


@needs_the_stand_in
def test_a_claim_without_a_class_does_not_grow(cluster: SimulatedCluster) -> None:
    def claim(size: str) -> Any:
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}}
        return named("PersistentVolumeClaim", "lake", spec=spec)

    cluster.apply(claim("1Gi"))
    with pytest.raises(StatusError, match="only dynamically provisioned pvc can be resized"):
        cluster.apply(claim("2Gi"))
    assert cluster.get(CLAIM, "lake")["spec"]["resources"]["requests"]["storage"] == "1Gi"


def test_lists_are_merged_by_name_or_replaced_as_the_kind_of_patch_says(core: client.CoreV1Api) -> None:
    core.create_namespaced_pod(NAMESPACE, pod(nodeSelector={"none": "such"}))
    changed = {"spec": {"containers": [{"name": "base", "image": "other:1"}]}}
    patched = core.patch_namespaced_pod("step", NAMESPACE, changed)
    assert (patched.spec.containers[0].image, patched.spec.containers[0].command[0]) == ("other:1", "sh")

    operation = [{"op": "add", "path": "/metadata/labels/team~1x", "value": "y"}]
    assert core.patch_namespaced_pod("step", NAMESPACE, operation).metadata.labels["team/x"] == "y"


def test_an_account_may_do_what_its_role_says(cluster: SimulatedCluster, tmp_path: Path) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["settings"], "verbs": ["get"]},
    ]
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    version = "rbac.authorization.k8s.io/v1"
    cluster.apply(
        named("Role", "reader", version, rules=rules),
        named("RoleBinding", "reader", version, roleRef=reference, subjects=[subject]),
        pod(),
        CONFIG,
    )
    cluster.log_in("account", User.account(NAMESPACE, "default"))

    (api,) = connected(cluster, tmp_path, "account")
    assert names(api.list_namespaced_pod(NAMESPACE)) == ["step"]
    assert api.read_namespaced_config_map("settings", NAMESPACE).data == {"a": "1"}
    assert refused(api.read_namespaced_config_map, "kube-root-ca.crt", NAMESPACE).code == 403
    refusal = refused(api.read_namespaced_pod_log, "step", NAMESPACE)
    assert refusal.kind == (403, "Forbidden")
    assert 'User "system:serviceaccount:default:default" cannot get resource "pods/log"' in refusal.message
    assert refused(api.create_namespaced_pod, NAMESPACE, pod(name="other")).code == 403
    assert refused(api.list_namespaced_pod, "kube-system").code == 403
    (stranger,) = connected(cluster, tmp_path, "other")
    assert refused(stranger.list_namespaced_pod, NAMESPACE).kind == (401, "Unauthorized")


def test_what_an_object_owns_goes_with_it(cluster: SimulatedCluster, core: client.CoreV1Api) -> None:
    owner = core.create_namespaced_config_map(NAMESPACE, CONFIG).metadata.uid
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "uid": owner}
    owned = named("Secret", "owned")
    core.create_namespaced_secret(NAMESPACE, owned | {"metadata": {"name": "owned", "ownerReferences": [reference]}})

    core.delete_namespaced_config_map("settings", NAMESPACE)

    assert wait_until(lambda: not core.list_namespaced_secret(NAMESPACE).items, "the secret is gone")


def test_what_a_namespace_holds_goes_with_it(cluster: SimulatedCluster, core: client.CoreV1Api) -> None:
    cluster.apply(pod("exec sleep 1000"))
    phase(cluster, "Running")

    core.delete_namespace(NAMESPACE)

    wait_until(lambda: NAMESPACE not in names(core.list_namespace()), "the namespace is gone")
    assert not cluster.pods()


def test_kubectl_works(cluster: SimulatedCluster, tmp_path: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not here")

    def run(*words: str, stdin: str = "") -> str:
        command = [kubectl, "--kubeconfig", str(cluster.config(tmp_path / "config")), *words]
        return subprocess.run(command, input=stdin, text=True, check=True, capture_output=True).stdout

    manifest = client.ApiClient().sanitize_for_serialization(pod("echo hello"))
    assert run("apply", "-f", "-", stdin=json.dumps(manifest)) == "pod/step created\n"
    phase(cluster, "Succeeded")
    assert "step" in run("get", "pods")
    assert run("logs", "--follow", "step") == "hello\n"
    assert "deleted" in run("delete", "pod", "step")
    assert "node/cpu drained" in run("drain", "cpu")
