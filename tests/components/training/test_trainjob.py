"""A training on several machines, on a cluster that lets the account of steps do what `infra/kubernetes` grants."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from kubernetes import client, config
from urllib3.exceptions import ProtocolError

from components.common.errors import PreemptedError, UnavailableError, UserError
from components.neural.preemption import Notice
from components.training.__main__ import body, parser
from components.training.trainjob import MADE_OF, Log, TrainJob, Work
from pipelines.environments import AWS, Role
from tests.cluster import security
from tests.cluster.cluster import CRDS, Cluster, running
from tests.cluster.kinds import Json
from tests.cluster.runtimes import ProcessRuntime
from tests.cluster.trainer import Trainer
from tests.components.training import samples
from tests.components.training.test_step import flags, scores
from tests.servers import free_port

INFRA = Path(__file__).parents[3] / "infra" / "kubernetes"
NAMESPACE = "kubeflow"
WORK = Work(("--config", "{}"), 2, {"NIGHTSHIFT_MACHINE": "g6.2xlarge spot"})
DONE = 'echo "machine $PET_NODE_RANK of $PET_NNODES: $*"'
WAITING = "echo begun; exec sleep 1000"
# a pod does the first when its number starts for the first time, and then the second
ONCE = "if mkdir {folder}/$PET_NODE_RANK 2>/dev/null; then {first}; else {then}; fi"
EPOCHS = 300  # several seconds, so that a checkpoint is written meanwhile
needs_kinds = pytest.mark.skipif(not CRDS.exists(), reason=f"{CRDS} is missing")


class Site:
    """A cluster with our runtime and two nodes with a GPU each, on which `python` is a script."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder, self.trainer = cluster, folder, Trainer(cluster)
        self.meanwhile: Callable[[], Any] = lambda: None  # done in every pause
        token = cluster.api.token(NAMESPACE, "nightshift")
        self.connection = config.new_client_from_config(str(cluster.config(folder / "config", token)))

    def script(self, text: str) -> None:
        """Say what the pods do instead of training."""
        path = self.folder / "bin" / "python"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def job(self, work: Work = WORK, connection: Any = None) -> TrainJob:
        return TrainJob(work, connection or self.connection, NAMESPACE, self.pause)

    def pause(self, _: float) -> None:
        """Let the Trainer act, and wait until something has changed."""
        store = self.cluster.api.store
        seen = store.version
        self.trainer.sync()
        self.meanwhile()
        with store.changed:
            store.changed.wait_for(lambda: store.version != seen, 1)

    def left(self) -> list[str]:
        """What is there of trainings."""
        kinds = [kind for kind in self.cluster.api.kinds if kind.name in ("TrainJob", "JobSet", "Job", "Pod")]
        return [each["kind"] for kind in kinds for each in self.cluster.api.store.copies(kind, NAMESPACE)]

    def add_node(self, name: str) -> None:
        gpu = AWS.placements[Role.GPU]
        taints = [{"key": taint.key, "value": taint.value, "effect": "NoSchedule"} for taint in gpu.tolerations]
        self.cluster.add_node(name, dict(gpu.nodes), taints, gpus=1)

    def run_at_once(self) -> bool:
        """Whether both pods run."""
        return [pod["status"]["phase"] for pod in self.cluster.pods(NAMESPACE)] == ["Running", "Running"]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    with running(ProcessRuntime(environment=environment), tmp_path, CRDS) as cluster:
        labels = {security.LABEL: "restricted"}
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}})
        cluster.apply(*manifests("aws/lustre.yaml", "base/lustre.yaml", "base/training.yaml"))
        cluster.apply(placed({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nightshift"}}))
        found = Site(cluster, tmp_path)
        for name in ("gpu-1", "gpu-2"):
            found.add_node(name)
        yield found


def manifests(*names: str) -> list[Json]:
    values = [value for name in names for value in yaml.safe_load_all((INFRA / name).read_text())]
    return [placed(value) for value in values if value["kind"] != "Job"]


def placed(value: Json) -> Json:
    if value["kind"] != "PersistentVolume":
        value["metadata"]["namespace"] = NAMESPACE
    return value


@needs_kinds
def test_machines_run_the_step_together_while_the_first_ones_log_is_copied_and_nothing_is_left(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nightshift")
    site.script(DONE)
    seen: dict[str, Json] = {}
    site.meanwhile = lambda: seen.update({pod["metadata"]["name"]: pod for pod in site.cluster.pods(NAMESPACE)})

    site.job().run(Notice())

    assert "machine 0 of 2: -m components.neural --max-restarts 3 -m components.training --config {}" in caplog.messages
    assert not any(line.startswith("machine 1") for line in caplog.messages)
    assert site.left() == []
    assert {pod["spec"]["nodeName"] for pod in seen.values()} == {"gpu-1", "gpu-2"}
    variables = [
        {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]} for pod in seen.values()
    ]
    assert {each["NIGHTSHIFT_MACHINE"] for each in variables} == {"g6.2xlarge spot"}


def lost(site: Site) -> None:
    site.cluster.remove_node("gpu-2")


def drained(site: Site) -> None:
    assert site.cluster.drain("gpu-1") == []


@needs_kinds
@pytest.mark.parametrize("end", [lost, drained])
def test_all_machines_start_again_when_one_is_taken_away(
    site: Site, caplog: pytest.LogCaptureFixture, end: Callable[[Site], None]
) -> None:
    caplog.set_level(logging.INFO, "nightshift")
    site.script(ONCE.format(folder=site.folder, first=WAITING, then=DONE))

    def once() -> None:
        if site.run_at_once():
            site.meanwhile = lambda: None
            site.add_node("gpu-3")
            end(site)

    site.meanwhile = once
    site.job().run(Notice())

    assert any(line.startswith("machine 0 of 2") for line in caplog.messages)
    assert site.left() == []


@needs_kinds
def test_any_number_of_preemptions_is_no_failure(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nightshift")
    count = f"echo x >> {site.folder}/tries-$PET_NODE_RANK; if [ $(wc -l < {site.folder}/tries-$PET_NODE_RANK) -lt 4 ]"
    site.script(f"{count}; then exit 75; fi; {DONE}")

    site.job().run(Notice())

    assert any(line.startswith("machine 0 of 2") for line in caplog.messages)
    assert (site.folder / "tries-0").read_text().count("x") == 4


@needs_kinds
@pytest.mark.parametrize(("code", "error"), [(2, UserError), (1, UnavailableError), (137, UnavailableError)])
def test_a_failure_is_not_tried_again_there_and_leaves_nothing(site: Site, code: int, error: type[Exception]) -> None:
    site.script(f"echo x >> {site.folder}/tries; exit {code}")

    with pytest.raises(error, match=rf"TrainJob nightshift-\w+ failed: .*exit code {code} \(Error\)"):
        site.job().run(Notice())
    assert (site.folder / "tries").read_text().count("x") <= WORK.nodes
    assert site.left() == []


@needs_kinds
def test_a_step_that_has_to_end_takes_the_machines_with_it_which_save_a_checkpoint(site: Site) -> None:
    site.script(f'trap "touch {site.folder}/saved-$PET_NODE_RANK; exit 75" TERM; echo begun; sleep 1000 & wait')
    notice = Notice()

    def end() -> None:
        notice.given = site.run_at_once()

    site.meanwhile = end
    with pytest.raises(PreemptedError, match="is deleted; its pods save a checkpoint"):
        site.job().run(notice)
    site.meanwhile = lambda: None
    site.script(DONE)

    site.job().run(Notice())  # waits until all of the first is gone

    assert {path.name for path in site.folder.glob("saved-*")} == {"saved-0", "saved-1"}
    assert site.left() == []


@needs_kinds
def test_somebody_elses_trainjob_of_the_same_name_is_refused_and_left_alone(site: Site) -> None:
    site.script("exec sleep 1000")
    other = WORK.body
    other["metadata"] |= {"annotations": {MADE_OF: "something"}, "namespace": NAMESPACE}
    site.cluster.apply(other)

    with pytest.raises(UserError, match=f"TrainJob '{WORK.name}' exists and has no annotation {MADE_OF}="):
        site.job().run(Notice())
    assert "TrainJob" in site.left()


class DeadError(BaseException):
    """The process was killed."""


class Deadly(client.ApiClient):  # type: ignore[misc]  # it ships no annotations
    """A connection of a process that is killed at a call."""

    def __init__(self, like: client.ApiClient, at: tuple[str, int], answered: bool) -> None:
        super().__init__(like.configuration)
        self._at, self._answered, self._asked, self._dead = at, answered, [""], False

    def request(self, method: str, url: str, *rest: Any, **options: Any) -> Any:
        """Do what is asked for, and die before or after it; the dead do nothing."""
        what = "log" if url.endswith("/log") else "pods" if "/pods" in url else method
        self._asked.append(what)
        now = self._dead or (what, self._asked.count(what)) == self._at
        if now and (self._dead or not self._answered):
            self._dead = True
            raise DeadError
        answer = super().request(method, url, *rest, **options)
        if now:
            self._dead = True
            raise DeadError
        return answer


@needs_kinds
@pytest.mark.parametrize("answered", [False, True])
def test_a_step_killed_at_any_call_is_carried_on_by_the_next_one(site: Site, answered: bool) -> None:
    site.script(DONE)
    calls = [("GET", 1), ("POST", 1), ("GET", 2), ("pods", 1), ("pods", 2), ("log", 1), ("GET", 4), ("DELETE", 1)]
    for at in calls:
        with pytest.raises(DeadError):
            site.job(connection=Deadly(site.connection, at, answered)).run(Notice())

        site.job().run(Notice())

        assert site.left() == [], at


class Flaky(client.ApiClient):  # type: ignore[misc]  # it ships no annotations
    """A connection that breaks, each time after the server has done what it was asked for."""

    def __init__(self, like: client.ApiClient, failures: int) -> None:
        super().__init__(like.configuration)
        self._failures = failures

    def request(self, method: str, url: str, *rest: Any, **options: Any) -> Any:
        answer = super().request(method, url, *rest, **options)
        if self._failures:
            self._failures -= 1
            raise ProtocolError("Connection aborted.")
        return answer


@needs_kinds
def test_a_while_without_an_answer_is_waited_for_and_nothing_is_done_twice(site: Site) -> None:
    site.script(f"echo x >> {site.folder}/tries-$PET_NODE_RANK")

    site.job(connection=Flaky(site.connection, 9)).run(Notice())

    assert (site.folder / "tries-0").read_text() == "x\n"
    assert site.left() == []


@needs_kinds
def test_without_its_role_a_step_may_make_nothing(site: Site) -> None:
    (role,) = [kind for kind in site.cluster.api.kinds if kind.name == "Role"]
    site.cluster.api.operations.delete(role, "nightshift-training", NAMESPACE)

    with pytest.raises(UserError, match="Kubernetes refuses to get trainjobs for 'nightshift-"):
        site.job().run(Notice())
    assert site.left() == []


def test_a_line_of_a_log_is_new_once_also_where_two_have_the_same_time() -> None:
    log = Log()
    assert list(log.new("1Z a\n2Z b\n2Z c\n")) == ["a", "b", "c"]
    assert list(log.new("2Z b\n2Z c\n3Z d\n")) == ["d"]
    assert log.age > 0


def with_nodes(given: list[str], **trainer: int) -> list[str]:
    at = given.index("--config") + 1
    wanted = json.loads(given[at])
    wanted["task"]["trainer"] = trainer
    return [*given[:at], json.dumps(wanted), *given[at + 1 :]]


def test_several_machines_without_a_cluster_are_refused_with_the_next_step(tmp_path: Path) -> None:
    args = parser().parse_args(with_nodes(flags(tmp_path), nodes=2))

    with pytest.raises(
        UserError, match=r"task\.trainer\.nodes is 2, and this is no pod .*; set it to 1, or start each"
    ):
        body(args)


@needs_kinds
@pytest.mark.slow
def test_two_machines_one_of_which_is_taken_away_train_the_model_that_one_does(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nightshift")
    site.script(f'exec {sys.executable} "$@"')
    site.trainer.port = free_port()
    net = samples.MODELS["net"]["parameters"] | {"epochs": EPOCHS}
    given = flags(tmp_path, {"net": {"kind": "mlp", "parameters": net}})

    def once() -> None:
        if any((tmp_path / "checkpoints").rglob("checkpoint.json")):
            site.meanwhile = lambda: None
            site.cluster.delete_pod(min(pod["metadata"]["name"] for pod in site.cluster.pods(NAMESPACE)), NAMESPACE)

    site.meanwhile = once
    found = body(parser().parse_args(with_nodes(given, nodes=2, checkpoint_seconds=1)), site.job)

    assert any(line.startswith("resuming after step ") for line in caplog.messages)
    together = scores(tmp_path)
    alone = body(parser().parse_args(given))
    assert np.abs(together["net"] - scores(tmp_path)["net"]).max() < 1e-5
    assert found["average_precision"] == pytest.approx(alone["average_precision"])
    assert site.left() == []
