"""Steps of the shipped DAGs as pods on the cluster of the tests."""

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from kubernetes.client import models as k8s

from nightshift_testkit.cluster.cluster import SimulatedCluster, running
from nightshift_testkit.cluster.kinds import POD
from nightshift_testkit.cluster.runtimes import ProcessRuntime
from nightshift_testkit.cluster.samples import named
from nightshift_testkit.processes import SECONDS, content, wait_until
from pipelines.engines.airflow.operators.kubernetes import PodPreemptedError, failure
from tests.dags.samples import Load
from tests.dags.samples import context as of_run

NAMESPACE = "kubeflow"


IN_QUOTA = {"name": "none", "namespace": NAMESPACE}


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[SimulatedCluster]:
    """A cluster with what a step's pod asks for, and one node."""
    with running(ProcessRuntime(), tmp_path) as cluster:
        cluster.add_namespace(NAMESPACE)
        cluster.add_node("cpu", {"nightshift/pool": "general"})
        claim = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        for manifest in (
            named("ServiceAccount", "nightshift"),
            named("PersistentVolumeClaim", "nightshift-lustre", spec=claim),
            named("Secret", "nightshift-mlflow", stringData={"username": "someone", "password": "something"}),
        ):
            manifest["metadata"]["namespace"] = NAMESPACE
            cluster.apply(manifest)
        cluster.config(Path(os.environ["KUBECONFIG"]))
        yield cluster


@dataclass
class Step:
    """A task of fraud_ingestion whose pod runs a shell script."""

    load: Load
    script: str
    task: Any = field(init=False)
    error: BaseException | None = None
    pushed: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dag = self.load(NIGHTSHIFT_ENVIRONMENT="aws")["fraud_ingestion"]
        self.task = self.dag.get_task("ingestion")
        self.task.cmds = ["sh", "-c", self.script]

    def run(self) -> None:
        ti = SimpleNamespace(try_number=1, map_index=-1, dag_id=self.dag.dag_id, task_id="ingestion", run_id="one")
        ti.xcom_push = lambda key, value: self.pushed.update({key: value})
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


def test_a_preempted_pod_is_followed_by_another_within_the_same_try(
    load: Load, nodes: SimulatedCluster, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"

    Step(load, f"echo once >> {tries}; [ $(wc -l < {tries}) = 4 ] || exit 75").run()

    assert tries.read_text() == "once\n" * 4
    assert nodes.pods(NAMESPACE) == []


def test_a_pod_that_is_preempted_all_the_time_fails_in_the_end(
    load: Load, nodes: SimulatedCluster, tmp_path: Path
) -> None:
    tries = tmp_path / "tries"

    step = Step(load, f"echo once >> {tries}; exit 75")
    step.task.preemptions = 2

    with pytest.raises(AirflowException, match=r"^exit code 75$"):
        step.run()
    assert tries.read_text() == "once\n" * 3


def test_a_users_mistake_is_reported_in_the_steps_own_words(load: Load, nodes: SimulatedCluster) -> None:
    with pytest.raises(AirflowFailException, match=r"^exit code 2\nreading\ningestion: --date is 'x'\n$"):
        Step(load, "echo reading; echo \"ingestion: --date is 'x'\" >&2; exit 2").run()


def test_a_pod_that_failed_leaves_its_error_to_the_report(load: Load, nodes: SimulatedCluster) -> None:
    step = Step(load, "echo no such column; exit 2")
    with pytest.raises(AirflowFailException):
        step.run()
    assert step.pushed["return_value"] == {"error": "exit code 2\nno such column\n"}


def test_each_line_that_a_step_prints_is_read_within_seconds_while_it_runs(
    load: Load, nodes: SimulatedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the step's own clock; a line does not wait for the next one, which is printed when it has been read."""
    read: list[str] = []

    def seconds(line: str) -> float | None:
        read.append(capsys.readouterr().out)
        match = re.search(rf"\] {line} ([0-9.]+)", "".join(read))
        return time.time() - float(match[1]) if match else None

    waiting = f"until [ -e {tmp_path}/$line ]; do sleep 0.05; done"
    step = Step(load, f"for line in one two three; do echo $line $(date +%s.%N); {waiting}; done; echo the end")
    thread, late = step.start(), {}
    for line in ("one", "two", "three"):
        late[line] = wait_until(lambda: seconds(line), f"{line} is read")  # noqa: B023
        (tmp_path / line).touch()
    thread.join(SECONDS)

    assert step.error is None and "] the end" in "".join(read) + capsys.readouterr().out
    # whatever else the machine does, one of them is not held up
    assert min(late.values()) < 5, late
    sys.stderr.write(f"seconds until a line is read: {late}\n")


def end(nodes: SimulatedCluster, pod: dict[str, Any], how: str) -> None:
    """Take a running pod away; a node that is left can run another one."""
    name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
    if how == "deleted":
        nodes.delete(POD, name, namespace=NAMESPACE)
    elif how == "drained":
        assert nodes.drain(node) == []
        nodes.cordon(node, unschedulable=False)
    elif how == "tainted":
        nodes.taint(node, "maintenance", "NoExecute")
        wait_until(lambda: name not in names(nodes), f"{name} is gone")
        nodes.untaint(node, "maintenance")
    else:
        nodes.remove_node(node)
        nodes.add_node(f"{node}x", {"nightshift/pool": "general"})


def names(nodes: SimulatedCluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in nodes.pods(NAMESPACE)]


ENDS = ("deleted", "drained", "tainted", "lost with its node")


def test_a_pod_that_is_taken_away_is_followed_by_another_within_the_same_try(
    load: Load, nodes: SimulatedCluster, tmp_path: Path
) -> None:
    rounds = int(os.environ.get("NIGHTSHIFT_PREEMPTIONS", len(ENDS)))
    step = Step(load, f"echo $$ >> {tmp_path}/up; [ $(wc -l < {tmp_path}/up) -gt {rounds} ] || exec sleep 600")
    thread = step.start()

    for count in range(rounds):
        wait_until(lambda: len(content(tmp_path / "up").splitlines()) > count, f"pod {count + 1} runs")  # noqa: B023
        (pod,) = nodes.pods(NAMESPACE)
        end(nodes, pod, ENDS[count % len(ENDS)])
    thread.join(SECONDS)

    assert step.error is None
    assert len((tmp_path / "up").read_text().splitlines()) == rounds + 1


def test_a_step_that_is_killed_takes_a_try(load: Load, nodes: SimulatedCluster, tmp_path: Path) -> None:
    step = Step(load, f"touch {tmp_path}/up; exec sleep 600")
    thread = step.start()
    wait_until((tmp_path / "up").exists, "the step runs")

    nodes.kill(*names(nodes), NAMESPACE)
    thread.join(SECONDS)

    assert not isinstance(step.error, AirflowFailException | PodPreemptedError)
    assert str(step.error).startswith("exit code 137")


def test_a_step_waits_while_the_quota_is_used_up(
    load: Load, nodes: SimulatedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes.apply(named("ResourceQuota", "none", spec={"hard": {"pods": "0"}}) | {"metadata": IN_QUOTA})
    step = Step(load, "true")
    step.task.quota_seconds = 0.01
    thread = step.start()

    wait_until(lambda: "the quota of kubeflow is used up; waiting" in capsys.readouterr().out, "it waits")
    nodes.apply(named("ResourceQuota", "none", spec={"hard": {"pods": "1"}}) | {"metadata": IN_QUOTA})
    thread.join(SECONDS)

    assert step.error is None


def test_a_pod_knows_the_run_that_openlineages_provider_reports(
    load: Load, nodes: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named_runs = {"lineage_parent_id": lambda _: "prod/a.b/1", "lineage_root_parent_id": lambda _: "prod/a/2"}
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.plugins.macros", SimpleNamespace(**named_runs))

    Step(load, f'echo "$OPENLINEAGE_PARENT_ID $OPENLINEAGE_ROOT_PARENT_ID" > {tmp_path}/parent').run()

    assert (tmp_path / "parent").read_text() == "prod/a.b/1 prod/a/2\n"


@pytest.mark.parametrize(("text", "returned"), [('{"rows": 3}', {"rows": 3}), ("done", {}), ("3", {})])
def test_what_a_step_says_at_its_end_is_the_tasks_result(
    text: str, returned: dict[str, Any], load: Load, nodes: SimulatedCluster
) -> None:
    step = Step(load, f"echo '{text}' > \"$NIGHTSHIFT_TERMINATION_MESSAGE\"")

    step.run()

    assert step.pushed["return_value"] == returned


def ended_pod(exit_code: int, reason: str = "", message: str = "") -> k8s.V1Pod:
    ended = k8s.V1ContainerStateTerminated(exit_code=exit_code, reason=reason, message=message)
    state = k8s.V1ContainerState(terminated=ended)
    status = k8s.V1ContainerStatus(image="", image_id="", name="base", ready=False, restart_count=0, state=state)
    return k8s.V1Pod(
        metadata=k8s.V1ObjectMeta(name="pod"), status=k8s.V1PodStatus(phase="Failed", container_statuses=[status])
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
    pod: k8s.V1Pod, tried_again: bool, text: str
) -> None:
    error = failure(pod, "base")

    assert re.search(text, str(error))
    assert isinstance(error, AirflowFailException) is not tried_again
