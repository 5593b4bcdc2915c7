"""The written deployment on the simulated cluster: a stand-in for vLLM comes up, and is scaled by its queue."""

import os
import re
import socket
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.policies import environment
from nightshift_testkit.cluster.cluster import CRDS, SimulatedCluster, running
from nightshift_testkit.cluster.keda import Keda
from nightshift_testkit.cluster.kinds import DEPLOYMENT, EVENT
from nightshift_testkit.cluster.runtimes import ProcessRuntime
from nightshift_testkit.processes import wait_until

Json = dict[str, Any]
pytestmark = pytest.mark.slow
NAMESPACE, NAME = "nightshift", "llama3-70b"
GPU = "nvidia.com/gpu"
PROJECTS = ("Namespace", "PriorityClass", "ResourceQuota", "LimitRange", "NetworkPolicy")
# every pod is a process of this machine, so that each listens on a port of its own
STAND_IN = f"""#!{sys.executable}
import os, sys
import uvloop
from nightshift_testkit.engines.simulated import EngineSpeed, serve
from nightshift_testkit.servers import free_port

assert sys.argv[1] == "serve" and os.environ["VLLM_API_KEY"] and os.path.exists(f"{{sys.argv[2]}}/config.json")
flags = dict(word[2:].split("=", 1) for word in sys.argv[3:])
port = free_port()
print(f"listens on {{port}}", flush=True)
uvloop.run(serve([port], EngineSpeed(slots=int(flags["max-num-seqs"]), decode=60)))
"""
REQUEST = b'{"prompt": "night", "max_tokens": 1000, "stream": true}'


@pytest.fixture
def site(tmp_path: Path, namespaces: list[Json], written: dict[str, Path]) -> Iterator[SimulatedCluster]:
    """The project's namespace on machines with GPUs, with the deployment applied and its weights copied."""
    if not CRDS.exists():
        pytest.skip(f"{CRDS} is missing")
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(0o755)
    path = {"PATH": f"{program.parent}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    weights = tmp_path / "claims" / NAMESPACE / f"{NAME}-weights"
    weights.mkdir(parents=True)
    (weights / "config.json").write_text("{}")
    with running(ProcessRuntime(environment=path), tmp_path, CRDS) as cluster:
        for number in range(2):
            labels = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
            taint = {"key": GPU, "value": "present", "effect": "NoSchedule"}
            cluster.add_node(f"gpu-{number}", labels, [taint], gpus=8, cpu="192", memory="2000Gi")
        cluster.apply(*sorted(of_the_project(namespaces), key=lambda value: PROJECTS.index(value["kind"])))
        secret = {"name": "nightshift-serving", "namespace": NAMESPACE}
        cluster.apply({"apiVersion": "v1", "kind": "Secret", "metadata": secret, "data": {"token": "dG9rZW4="}})
        # the Gateway API's own kinds are not in ../shared
        cluster.apply(*(value for value in environment.render(written["vllm"]) if value["kind"] != "HTTPRoute"))
        yield cluster


def of_the_project(namespaces: list[Json]) -> list[Json]:
    return [
        value
        for value in namespaces
        if value["kind"] in PROJECTS
        and NAMESPACE in (value["metadata"].get("namespace", NAMESPACE), value["metadata"]["name"])
        and (value["kind"] != "Namespace" or value["metadata"]["name"] == NAMESPACE)
    ]


def ready(cluster: SimulatedCluster) -> list[Json]:
    """Pods whose engine listens."""
    pods = [pod for pod in cluster.pods(NAMESPACE) if pod["status"]["phase"] == "Running"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and find_port(cluster, pod)]


def find_port(cluster: SimulatedCluster, pod: Json) -> int | None:
    printed = b"".join(cluster.api.log(pod, "engine").read(follow=False)).decode()
    listening = re.search(r"listens on (\d+)", printed)
    return int(listening[1]) if listening else None


def wait_for_pods(cluster: SimulatedCluster, count: int) -> list[Json]:
    return wait_until(lambda: len(pods := ready(cluster)) == count and pods, f"{count} engines listen")


def scale(cluster: SimulatedCluster) -> int:
    """Act as KEDA once; return the replicas that are wanted."""

    def read_page(pod: Json, path: str) -> str:
        if find_port(cluster, pod) is None:
            return ""  # it does not listen yet
        with urllib.request.urlopen(f"http://127.0.0.1:{find_port(cluster, pod)}{path}") as answer:
            return str(answer.read().decode())

    Keda(cluster, read_page).sync()
    return int(cluster.get(DEPLOYMENT, NAME, NAMESPACE)["spec"].get("replicas", 1))


@contextmanager
def load(cluster: SimulatedCluster, pods: list[Json], requests: int) -> Iterator[None]:
    """Keep so many streams open at each pod."""
    head = b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(REQUEST)
    with ExitStack() as connections:
        for port in [find_port(cluster, pod) for pod in pods]:
            for _ in range(requests):
                connection = connections.enter_context(socket.create_connection(("127.0.0.1", port)))
                connection.sendall(head + REQUEST)
        yield


def raise_quota(cluster: SimulatedCluster, written: Path) -> None:
    """Leave the room that the kustomization asks for."""
    room = re.search(r"room for (\d+) GPUs, (\d+) CPUs and (\w+)\.", (written / "kustomization.yaml").read_text())
    assert room
    hard = {f"requests.{GPU}": room[1], "requests.cpu": room[2], "requests.memory": room[3]}
    metadata = {"name": "serving", "namespace": NAMESPACE}
    cluster.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})


def test_engines_come_up_are_added_while_requests_wait_and_taken_away_when_none_do(
    site: SimulatedCluster, written: dict[str, Path]
) -> None:
    scaled = next(value for value in environment.render(written["vllm"]) if value["kind"] == "ScaledObject")["spec"]
    least, most = scaled["minReplicaCount"], scaled["maxReplicaCount"]
    slots = int(re.search(r"--max-num-seqs=(\d+)", (written["vllm"] / "engine.yaml").read_text())[1])  # type: ignore[index]
    waiting = int(scaled["triggers"][0]["metadata"]["threshold"])

    wait_for_pods(site, 1)  # before KEDA has looked
    assert scale(site) == least
    first = wait_for_pods(site, least)
    with load(site, first, slots + waiting * most):
        wait_until(lambda: scale(site) == most, "as many replicas are wanted as there may be")
        # what is there of the project refuses them: quotas are raised by people
        wait_until(
            lambda: any("exceeded quota" in event["message"] for event in site.api.store.select(EVENT)), "refusal"
        )
        raise_quota(site, written["vllm"])
        wait_for_pods(site, most)
    wait_until(lambda: scale(site) == least, "the queue is empty")
    wait_for_pods(site, least)


def test_busy_engines_are_kept_though_nothing_waits(site: SimulatedCluster, written: dict[str, Path]) -> None:
    raise_quota(site, written["vllm"])
    scaled = next(value for value in environment.render(written["vllm"]) if value["kind"] == "ScaledObject")["spec"]
    planned = int(scaled["triggers"][1]["metadata"]["threshold"])
    scale(site)
    first = wait_for_pods(site, scaled["minReplicaCount"])

    with load(site, first, planned + 1):  # that many fit in each batch
        wait_until(lambda: scale(site) == len(first) + 1, "one replica more")
        assert len(wait_for_pods(site, len(first) + 1)) == len(first) + 1
