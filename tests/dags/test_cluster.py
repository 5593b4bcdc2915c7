"""The asynchronous client, with which Airflow's triggerer watches pods, on the cluster of the tests."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowException
from kubernetes_asyncio import client as asynchronous
from kubernetes_asyncio import config, watch

from tests.cluster.cluster import Cluster, running
from tests.cluster.runtimes import ProcessRuntime
from tests.cluster.samples import phase, pod, state


class Instance:
    """What the operator asks of a task's instance."""

    dag_id, task_id, run_id, map_index, try_number = "dag", "step", "run", -1, 1

    def xcom_push(self, **_: Any) -> None:
        pass


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Cluster]:
    with running(ProcessRuntime(), tmp_path) as found:
        found.add_node("cpu")
        yield found


def test_the_asynchronous_client_makes_lists_watches_and_reads(nodes: Cluster, tmp_path: Path) -> None:
    async def use() -> tuple[str, list[str]]:
        connection = await config.new_client_from_config(str(nodes.config(tmp_path / "config")))
        async with connection:
            api = asynchronous.CoreV1Api(connection)
            await api.create_namespaced_pod("default", pod("echo hello"))
            listed = await api.list_namespaced_pod("default", label_selector="app=step")
            async with watch.Watch().stream(api.list_namespaced_pod, "default") as stream:
                async for event in stream:
                    if event["object"].status.phase == "Succeeded":
                        break
            log = await api.read_namespaced_pod_log("step", "default", timestamps=True)
            return log, [item.metadata.name for item in listed.items]

    log, names = asyncio.run(use())

    assert log.endswith("Z hello\n")
    assert names == ["step"]


@pytest.mark.parametrize("code", [0, 1])
def test_airflows_operator_runs_a_pod_and_sees_how_it_ends(nodes: Cluster, tmp_path: Path, code: int) -> None:
    operator = KubernetesPodOperator(
        task_id="step",
        name="step",
        namespace="default",
        image="any",
        cmds=["sh", "-c", f"echo hello; exit {code}"],
        config_file=str(nodes.config(tmp_path / "config")),
        random_name_suffix=False,
        on_finish_action="keep_pod",
        termination_message_policy="FallbackToLogsOnError",
    )
    context = {"ti": Instance(), "dag": SimpleNamespace(dag_id="dag", is_subdag=False), "run_id": "run"}
    if code:
        with pytest.raises(AirflowException):
            operator.execute(context)
        assert state(phase(nodes, "Failed"))["terminated"]["message"] == "hello\n"
    else:
        operator.execute(context)
        assert phase(nodes, "Succeeded")
