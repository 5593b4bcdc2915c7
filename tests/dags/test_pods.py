"""Steps of the shipped DAGs as pods on the cluster of the tests."""

import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.callbacks import KubernetesPodOperatorCallback
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kubernetes.client import models as k8s

from tests.cluster.cluster import Cluster, running
from tests.cluster.runtimes import ProcessRuntime
from tests.cluster.samples import named
from tests.dags.samples import Load
from tests.dags.samples import context as of_run
from tests.processes import SECONDS, wait_until

NAMESPACE = "nightshift"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with what a step's pod asks for, and one node."""
    with running(ProcessRuntime(), tmp_path) as found:
        found.add_namespace(NAMESPACE)
        found.add_node("cpu", {"nightshift/pool": "general"})
        claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        for each in (
            named("ServiceAccount", "nightshift"),
            named("PersistentVolumeClaim", "nightshift-lustre", spec=claim),
            named("Secret", "nightshift-mlflow", stringData={"username": "someone", "password": "something"}),
        ):
            each["metadata"]["namespace"] = NAMESPACE
            found.apply(each)
        found.config(Path(os.environ["KUBECONFIG"]))
        yield found


@dataclass
class Step:
    """A task of fraud_ingestion whose pod runs a shell script."""

    load: Load
    script: str
    task: Any = field(init=False)
    error: BaseException | None = None

    def __post_init__(self) -> None:
        self.dag = self.load(NIGHTSHIFT_ENVIRONMENT="aws")["fraud_ingestion"]
        self.task = self.dag.get_task("ingestion")
        self.task.cmds = ["sh", "-c", self.script]

    def run(self) -> None:
        ti = SimpleNamespace(try_number=1, map_index=-1, dag_id=self.dag.dag_id, task_id="ingestion", run_id="one")
        ti.xcom_push = lambda **_: None
        self.task.execute(of_run(self.dag) | {"ti": ti, "run_id": "one", "dag": self.dag})

    def start(self) -> threading.Thread:
        def run() -> None:
            try:
                self.run()
            except BaseException as error:
                self.error = error

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread


def test_a_preempted_pod_is_followed_by_another_within_the_same_try(load: Load, nodes: Cluster, tmp_path: Path) -> None:
    tries = tmp_path / "tries"

    Step(load, f"echo once >> {tries}; [ $(wc -l < {tries}) = 4 ] || exit 75").run()

    assert tries.read_text() == "once\n" * 4
    assert nodes.pods(NAMESPACE) == []


def test_a_pod_that_is_preempted_all_the_time_fails_in_the_end(load: Load, nodes: Cluster, tmp_path: Path) -> None:
    tries = tmp_path / "tries"

    step = Step(load, f"echo once >> {tries}; exit 75")
    step.task.preemptions = 2

    with pytest.raises(AirflowException, match=r"^exit code 75$"):
        step.run()
    assert tries.read_text() == "once\n" * 3


def test_a_users_mistake_is_reported_in_the_steps_own_words(load: Load, nodes: Cluster) -> None:
    with pytest.raises(AirflowFailException, match=r"^exit code 2\nreading\ningestion: --date is 'x'\n$"):
        Step(load, "echo reading; echo \"ingestion: --date is 'x'\" >&2; exit 2").run()


def test_what_a_step_prints_is_read_while_it_runs(load: Load, nodes: Cluster, tmp_path: Path) -> None:
    lines: list[str] = []

    class Reader(KubernetesPodOperatorCallback):
        @staticmethod
        def progress_callback(*, line: str, **_: Any) -> None:
            lines.append(line.strip())

    step = Step(load, f"echo first; echo next; until [ -e {tmp_path}/go ]; do sleep 0.1; done; echo second")
    step.task.callbacks = [Reader]
    thread = step.start()

    wait_until(lambda: "first" in lines, "the first line is read")
    assert lines == ["first"]  # the operator keeps a line back until it knows that no other belongs to it
    (tmp_path / "go").touch()
    thread.join(SECONDS)
    assert (step.error, lines) == (None, ["first", "next", "second"])


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("deleted", "was deleted|exit code 143"),
        ("killed", "^exit code 137"),
        ("lost with its node", "lost with its node"),
    ],
)
def test_a_pod_that_somebody_ends_is_tried_again(
    load: Load, nodes: Cluster, tmp_path: Path, how: str, text: str
) -> None:
    step = Step(load, f"touch {tmp_path}/up; sleep 600")
    thread = step.start()
    wait_until((tmp_path / "up").exists, "the step runs")
    (pod,) = nodes.pods(NAMESPACE)

    if how == "deleted":
        nodes.drain("cpu")
    elif how == "killed":
        nodes.kill(pod["metadata"]["name"], NAMESPACE)
    else:
        nodes.remove_node("cpu")
    thread.join(SECONDS)

    assert not isinstance(step.error, AirflowFailException)
    assert re.search(text, str(step.error))


def ended_pod(exit_code: int, reason: str = "", message: str = "") -> k8s.V1Pod:
    ended = k8s.V1ContainerStateTerminated(exit_code=exit_code, reason=reason, message=message)
    state = k8s.V1ContainerState(terminated=ended)
    status = k8s.V1ContainerStatus(image="", image_id="", name="base", ready=False, restart_count=0, state=state)
    return k8s.V1Pod(
        metadata=k8s.V1ObjectMeta(name="pod", namespace="nightshift"),
        spec=k8s.V1PodSpec(containers=[k8s.V1Container(name="base")]),
        status=k8s.V1PodStatus(phase="Failed" if exit_code else "Succeeded", container_statuses=[status]),
    )


@pytest.mark.parametrize(
    ("pod", "tried_again", "text"),
    [
        (ended_pod(2, "Error", "ingestion: --date is 'x'"), False, r"^exit code 2\ningestion: --date is 'x'$"),
        (ended_pod(1, "Error", "reading\nno answer"), True, r"^exit code 1\nreading\nno answer$"),
        (ended_pod(137, "Error"), True, r"^exit code 137$"),
        (ended_pod(137, "OOMKilled"), False, r"^killed for lack of memory \(exit code 137\); raise its role's memory"),
        (ended_pod(1, "OOMKilled"), True, r"^exit code 1$"),
    ],
    ids=["a user's mistake", "a failure", "a kill", "out of memory", "a failure after a child was killed"],
)
def test_a_pod_that_would_fail_again_is_not_tried_again_and_each_failure_has_the_steps_own_words(
    pod: k8s.V1Pod, tried_again: bool, text: str, load: Load, nodes: Cluster
) -> None:
    task = load(NIGHTSHIFT_ENVIRONMENT="aws")["fraud_ingestion"].get_task("ingestion")

    with pytest.raises(AirflowException, match=text) as raised:
        task.cleanup(pod, pod)
    assert isinstance(raised.value, AirflowFailException) is not tried_again
