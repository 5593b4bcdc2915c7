"""Pods that run as containers: what only a container engine can show."""

from nightshift_testkit.cluster.cluster import SimulatedCluster
from nightshift_testkit.cluster.kinds import POD
from nightshift_testkit.cluster.samples import IMAGE, SAFE, gone, phase, pod, state, waiting
from nightshift_testkit.processes import wait_until

WHO = "echo $(id -u):$(id -g) > /dev/termination-log"


def message(cluster: SimulatedCluster, name: str = "step") -> str:
    return str(state(phase(cluster, "Succeeded", name))["terminated"]["message"]).strip()


def test_a_user_without_a_group_is_in_the_group_of_root(containers: SimulatedCluster) -> None:
    containers.apply(pod(WHO, securityContext={"runAsUser": 10001}))
    containers.apply(pod(WHO, "grouped", securityContext={"runAsUser": 10001, "runAsGroup": 10002}))

    assert message(containers) == "10001:0"
    assert message(containers, "grouped") == "10001:10002"


def test_a_root_user_does_not_start_where_none_may_be_root(containers: SimulatedCluster) -> None:
    containers.apply(pod(WHO, securityContext={"runAsNonRoot": True, "runAsUser": 0}))

    assert "breaks non-root policy" in waiting(containers, "CreateContainerConfigError")


def test_a_step_over_its_memory_is_killed_and_says_why(containers: SimulatedCluster) -> None:
    hungry = {"resources": {"limits": {"memory": "16Mi"}}}
    containers.apply(pod("x=xxxxxxxx; while :; do x=$x$x; done", container=hungry))

    ended = state(phase(containers, "Failed"))["terminated"]

    assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


def test_a_first_process_that_does_not_listen_is_killed_after_the_grace(containers: SimulatedCluster) -> None:
    containers.apply(pod(container={"command": ["sleep", "1000"]}, terminationGracePeriodSeconds=1))
    phase(containers, "Running")

    containers.delete(POD, "step")

    assert gone(containers)


def test_volumes_are_shared_and_the_rest_can_be_read_only(containers: SimulatedCluster) -> None:
    mounted = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
    context = {"securityContext": SAFE | {"readOnlyRootFilesystem": True}}
    first = {
        "name": "first",
        "image": IMAGE,
        "command": ["sh", "-c", "echo x > /scratch/a"],
    } | mounted
    script = "cat /scratch/a > /dev/termination-log; ! echo x > /file"
    volumes = [{"name": "scratch", "emptyDir": {}}]
    containers.apply(pod(script, container=mounted | context, volumes=volumes, initContainers=[first]))

    assert message(containers) == "x"


def test_an_image_that_is_not_there_is_waited_for(containers: SimulatedCluster) -> None:
    containers.apply(pod(container={"image": "nightshift/none:0"}))

    assert "nightshift/none:0" in waiting(containers, "ImagePullBackOff")


def test_a_step_prints_while_it_runs(containers: SimulatedCluster) -> None:
    containers.apply(pod("echo first; exec sleep 1000", terminationGracePeriodSeconds=0))
    phase(containers, "Running")

    assert wait_until(
        lambda: list(containers.api.log(containers.pods()[0], "base").read(follow=False)), "a line is there"
    )
