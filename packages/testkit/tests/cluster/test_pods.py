"""Pods that run as processes of this machine: their logs, messages, ends and what they wait for."""

from pathlib import Path
from typing import Any

from kubernetes import client, watch

from nightshift_testkit.cluster.cluster import SimulatedCluster
from nightshift_testkit.cluster.runtimes import Container, Mount, ProcessRuntime
from nightshift_testkit.cluster.samples import IMAGE, NAMESPACE, gone, named, phase, pod, state, until, waiting
from nightshift_testkit.processes import wait_until

SCRATCH = [{"name": "scratch", "emptyDir": {}}]
MOUNTED = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}


def test_a_step_ends_with_its_exit_code_and_message(cluster: SimulatedCluster) -> None:
    cluster.apply(pod("echo why > /dev/termination-log; exit 75"))

    ended = state(phase(cluster, "Failed"))["terminated"]

    assert (ended["exitCode"], ended["reason"], ended["message"]) == (75, "Error", "why\n")
    assert ended["startedAt"] <= ended["finishedAt"]


def test_the_last_lines_are_the_message_of_a_step_that_fails_without_one(cluster: SimulatedCluster) -> None:
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    cluster.apply(pod("i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo line $i; done; exit 1", container=fallback))

    lines = state(phase(cluster, "Failed"))["terminated"]["message"].splitlines()

    assert (lines[0], lines[-1], len(lines)) == ("line 21", "line 100", 80)


def test_a_watch_sees_a_pod_come_run_and_succeed(core: client.CoreV1Api) -> None:
    version = core.list_namespaced_pod(NAMESPACE).metadata.resource_version
    core.create_namespaced_pod(NAMESPACE, pod())
    stream, seen = watch.Watch(), []

    for event in stream.stream(core.list_namespaced_pod, NAMESPACE, resource_version=version, timeout_seconds=100):
        seen.append(event["object"].status.phase)
        if seen[-1] == "Succeeded":
            stream.stop()

    assert sorted(set(seen), key=seen.index) == ["Pending", "Running", "Succeeded"]


def test_logs_can_be_followed_while_a_step_runs(
    core: client.CoreV1Api, cluster: SimulatedCluster, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    cluster.apply(pod(f"echo first; until [ -e {go} ]; do sleep 0.05; done; echo second"))
    phase(cluster, "Running")

    stream = core.read_namespaced_pod_log("step", NAMESPACE, follow=True, _preload_content=False)
    lines = stream.stream(amt=None)
    assert next(lines) == b"first\n"
    go.touch()
    assert b"".join(lines) == b"second\n"


def test_logs_are_cut_and_timed_as_asked_for(core: client.CoreV1Api, cluster: SimulatedCluster) -> None:
    cluster.apply(pod("echo first; echo second"))
    phase(cluster, "Succeeded")

    assert core.read_namespaced_pod_log("step", NAMESPACE, tail_lines=1) == "second\n"
    assert core.read_namespaced_pod_log("step", NAMESPACE, container="base", since_seconds=3600).startswith("first")
    timed = core.read_namespaced_pod_log("step", NAMESPACE, timestamps=True, tail_lines=1)
    assert timed.partition(" ")[0].endswith("Z") and timed.endswith(" second\n")


def test_a_deleted_step_is_asked_to_end(core: client.CoreV1Api, cluster: SimulatedCluster, tmp_path: Path) -> None:
    marker = tmp_path / "asked"
    cluster.apply(pod(f"trap 'touch {marker}; exit 75' TERM; echo ready; while :; do sleep 0.05; done"))
    phase(cluster, "Running")
    wait_until(lambda: core.read_namespaced_pod_log("step", NAMESPACE), "the trap is set")

    core.delete_namespaced_pod("step", NAMESPACE)

    assert gone(cluster)
    assert marker.exists()


def test_a_step_that_does_not_end_in_time_is_killed(core: client.CoreV1Api, cluster: SimulatedCluster) -> None:
    cluster.apply(pod("trap '' TERM; echo ready; while :; do sleep 0.05; done"))
    phase(cluster, "Running")
    wait_until(lambda: core.read_namespaced_pod_log("step", NAMESPACE), "the trap is set")

    core.delete_namespaced_pod("step", NAMESPACE, grace_period_seconds=1)

    assert gone(cluster)


def test_a_step_that_somebody_kills_fails_with_137(cluster: SimulatedCluster) -> None:
    cluster.apply(pod("exec sleep 1000"))
    phase(cluster, "Running")

    cluster.kill("step", NAMESPACE)

    assert state(phase(cluster, "Failed"))["terminated"]["exitCode"] == 137


def test_a_step_past_its_deadline_fails(cluster: SimulatedCluster) -> None:
    cluster.apply(pod("exec sleep 1000", activeDeadlineSeconds=1))

    assert phase(cluster, "Failed")["reason"] == "DeadlineExceeded"


def test_a_step_waits_for_the_key_of_a_secret(cluster: SimulatedCluster) -> None:
    reference = {"name": "login", "key": "password"}
    variables = [
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": reference}},
        {"name": "URI", "value": "x:$(PASSWORD)"},
    ]
    cluster.apply(pod('echo "$URI" >/dev/termination-log', container={"env": variables}))
    assert waiting(cluster, "CreateContainerConfigError") == 'secret "login" not found'

    cluster.apply(named("Secret", "login", stringData={"user": "x"}))
    wait_until(lambda: "find key password" in waiting(cluster, "CreateContainerConfigError"), "the key is missed")
    cluster.apply(named("Secret", "login", stringData={"password": "s"}))

    assert state(phase(cluster, "Succeeded"))["terminated"]["message"] == "x:s\n"


def test_an_image_that_is_not_there_is_waited_for(core: client.CoreV1Api, cluster: SimulatedCluster) -> None:
    cluster.apply(pod(container={"image": "none"}))

    assert "Back-off pulling image" in waiting(cluster, "ImagePullBackOff")
    core.delete_namespaced_pod("step", NAMESPACE)
    assert gone(cluster)


def test_a_command_that_is_not_there_cannot_start(cluster: SimulatedCluster) -> None:
    cluster.apply(pod(container={"command": ["no-such-command"]}))

    ended = state(phase(cluster, "Failed"))["terminated"]

    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")


def test_init_containers_leave_something_for_the_step(cluster: SimulatedCluster) -> None:
    first = {"name": "first", "image": IMAGE, "command": ["sh", "-c", "echo x > /scratch/file"]} | MOUNTED
    cluster.apply(pod("cat /scratch/file", container=MOUNTED, volumes=SCRATCH, initContainers=[first]))

    assert phase(cluster, "Succeeded")["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_a_claim_is_a_folder_that_outlives_its_pods(cluster: SimulatedCluster, tmp_path: Path) -> None:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    cluster.apply(named("PersistentVolumeClaim", "lake", spec=spec))
    volume = {"name": "scratch", "persistentVolumeClaim": {"claimName": "lake"}}
    cluster.apply(pod("echo x > /scratch/file", container=MOUNTED, volumes=[volume]))

    phase(cluster, "Succeeded")

    assert (tmp_path / "claims" / NAMESPACE / "lake" / "file").read_text() == "x\n"


def test_a_container_that_fails_is_started_again_where_its_pod_says_so(cluster: SimulatedCluster) -> None:
    script = "[ -e /scratch/seen ] || { touch /scratch/seen; exit 1; }"
    cluster.apply(pod(script, container=MOUNTED, volumes=SCRATCH, restartPolicy="OnFailure"))

    (status,) = phase(cluster, "Succeeded")["containerStatuses"]

    assert (status["restartCount"], status["lastState"]["terminated"]["exitCode"]) == (1, 1)


def test_a_running_pod_is_ready_and_an_ended_one_is_not(cluster: SimulatedCluster) -> None:
    def ready(pod: Any) -> dict[str, str]:
        return {item["type"]: item["status"] for item in pod["status"]["conditions"]}

    cluster.apply(pod("exec sleep 1000"))
    running = until(cluster, lambda pod: pod["status"]["phase"] == "Running", "it runs")
    assert ready(running) == dict.fromkeys(("PodScheduled", "Initialized", "ContainersReady", "Ready"), "True")
    cluster.kill("step", NAMESPACE)
    phase(cluster, "Failed")
    assert ready(cluster.pods()[0])["Ready"] == "False"


def test_a_path_within_the_source_of_another_mount_stays_as_it_is(tmp_path: Path) -> None:
    mounts = [Mount(str(tmp_path), "/weights"), Mount("/elsewhere", str(tmp_path.parent))]

    process = ProcessRuntime().start(Container("step", "image", ["echo", "/weights"], mounts=mounts))

    with process.output as output:
        assert output.read().decode().strip() == str(tmp_path)
    assert process.wait().code == 0
