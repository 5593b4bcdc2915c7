"""A training on several machines, on a cluster that lets the account of steps do what `infra/kubernetes` grants."""

import json
import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from components.training import component
from components.training.__main__ import body
from components.training.trainjob import CLEANUP_SECONDS, MADE_OF, POLL_SECONDS, TIMEOUT_SECONDS, PodLog, TrainJob
from nightshift.costs.spending import MACHINES_GRACE
from nightshift.models.neural.preemption import PreemptionNotice
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import PreemptedError, UnavailableError, UserError
from nightshift_testkit.cluster.cluster import CRDS
from nightshift_testkit.cluster.kinds import Json
from tests.components.training.machines import NAMESPACE, WORK, Site, standing, with_nodes
from tests.components.training.test_step import flags

DONE = 'echo "machine $PET_NODE_RANK of $PET_NNODES: $*"'
WAITING = "echo begun; exec sleep 1000"
# a pod does the first when its number starts for the first time, and then the second
ONCE = "if mkdir {folder}/$PET_NODE_RANK 2>/dev/null; then {first}; else {then}; fi"
needs_kinds = pytest.mark.skipif(not CRDS.exists(), reason=f"{CRDS} is missing")


def at(second: int) -> str:
    """A time as the kubelet writes it."""
    return f"2026-11-23T04:00:0{second}.000000000Z"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with standing(tmp_path) as started:
        yield started


@pytest.mark.slow
@needs_kinds
def test_machines_run_the_step_together_while_the_first_ones_log_is_copied_and_nothing_is_left(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nightshift")
    site.script(DONE)
    seen: dict[str, Json] = {}
    site.meanwhile = lambda: seen.update({pod["metadata"]["name"]: pod for pod in site.cluster.pods(NAMESPACE)})

    site.job().run(PreemptionNotice())

    assert (
        "machine 0 of 2: -m nightshift.models.neural --max-restarts 3 -m components.training --config {}"
        in caplog.messages
    )
    assert not any(line.startswith("machine 1") for line in caplog.messages)
    assert site.left() == []
    assert {pod["spec"]["nodeName"] for pod in seen.values()} == {"gpu-1", "gpu-2"}
    variables = [
        {entry["name"]: entry.get("value") for entry in pod["spec"]["containers"][0]["env"]} for pod in seen.values()
    ]
    assert {environment["NIGHTSHIFT_MACHINE"] for environment in variables} == {"g6.2xlarge spot"}


@pytest.mark.slow
@needs_kinds
def test_what_a_machine_that_is_not_the_first_has_found_is_in_the_log(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nightshift")
    site.script('if [ "$PET_NODE_RANK" = 1 ]; then echo "a file is missing here"; exit 2; fi; exec sleep 1000')

    with pytest.raises(UserError, match="exit code 2"):
        site.job().run(PreemptionNotice())
    assert "a file is missing here" in caplog.messages


def lost(site: Site) -> None:
    site.cluster.remove_node("gpu-2")


def drained(site: Site) -> None:
    assert site.cluster.drain("gpu-1") == []


@pytest.mark.slow
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
    site.job().run(PreemptionNotice())

    assert any(line.startswith("machine 0 of 2") for line in caplog.messages)
    assert site.left() == []


@pytest.mark.slow
@needs_kinds
def test_any_number_of_preemptions_is_no_failure(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nightshift")
    count = f"echo x >> {site.folder}/tries-$PET_NODE_RANK; if [ $(wc -l < {site.folder}/tries-$PET_NODE_RANK) -lt 4 ]"
    site.script(f"{count}; then exit 75; fi; {DONE}")

    site.job().run(PreemptionNotice())

    assert any(line.startswith("machine 0 of 2") for line in caplog.messages)
    # more where one machine was done and the other was preempted: all start again
    assert (site.folder / "tries-0").read_text().count("x") >= 4


@pytest.mark.slow
@needs_kinds
@pytest.mark.parametrize(("code", "error"), [(2, UserError), (1, UnavailableError), (137, UnavailableError)])
def test_a_failure_is_not_tried_again_there_and_leaves_nothing(site: Site, code: int, error: type[Exception]) -> None:
    site.script(f"echo x >> {site.folder}/tries; exit {code}")

    with pytest.raises(error, match=rf"TrainJob nightshift-\w+ failed: .*exit code {code} \(Error\)"):
        site.job().run(PreemptionNotice())
    assert (site.folder / "tries").read_text().count("x") <= WORK.nodes
    assert site.left() == []


@pytest.mark.slow
@needs_kinds
def test_a_step_that_has_to_end_takes_the_machines_with_it_which_save_a_checkpoint(site: Site) -> None:
    site.script(f'trap "touch {site.folder}/saved-$PET_NODE_RANK; exit 75" TERM; echo begun; sleep 1000 & wait')
    notice = PreemptionNotice()

    def end() -> None:
        notice.received = site.run_at_once()

    site.meanwhile = end
    with pytest.raises(PreemptedError, match="is deleted; its pods save a checkpoint"):
        site.job().run(notice)
    site.meanwhile = lambda: None
    site.script(DONE)

    site.job().run(PreemptionNotice())  # waits until all of the first is gone

    assert {path.name for path in site.folder.glob("saved-*")} == {"saved-0", "saved-1"}
    assert site.left() == []


@needs_kinds
def test_somebody_elses_trainjob_of_the_same_name_is_refused_and_left_alone(site: Site) -> None:
    site.script("exec sleep 1000")
    other = WORK.body
    other["metadata"] |= {"annotations": {MADE_OF: "something"}, "namespace": NAMESPACE}
    site.cluster.apply(other)

    with pytest.raises(UserError, match=f"TrainJob '{WORK.name}' exists and has no annotation {MADE_OF}="):
        site.job().run(PreemptionNotice())
    assert "TrainJob" in site.left()


class DeadError(BaseException):
    """The process was killed."""


class Deadly(client.ApiClient):
    """A connection of a process that is killed at a call."""

    def __init__(self, like: client.ApiClient, at: tuple[str, int], answered: bool) -> None:
        super().__init__(like.configuration)
        self._at, self._answered, self._calls, self._dead = at, answered, [""], False

    def request(self, method: str, url: str, *rest: Any, **options: Any) -> Any:
        """Do what is asked for, and die before or after it; the dead do nothing."""
        what = "log" if url.endswith("/log") else "pods" if "/pods" in url else method
        self._calls.append(what)
        now = self._dead or (what, self._calls.count(what)) == self._at
        if now and (self._dead or not self._answered):
            self._dead = True
            raise DeadError
        try:
            return super().request(method, url, *rest, **options)
        finally:
            if now:
                self._dead = True
                raise DeadError


@pytest.mark.slow
@needs_kinds
@pytest.mark.parametrize("answered", [False, True])
def test_a_step_killed_at_any_call_is_carried_on_by_the_next_one(site: Site, answered: bool) -> None:
    site.script(DONE)
    calls = [("GET", 1), ("POST", 1), ("GET", 2), ("pods", 1), ("pods", 2), ("log", 1), ("GET", 3), ("DELETE", 1)]
    for at in calls:
        with pytest.raises(DeadError):
            site.job(connection=Deadly(site.connection, at, answered)).run(PreemptionNotice())

        site.job().run(PreemptionNotice())

        assert site.left() == [], at


class Flaky(client.ApiClient):
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


@pytest.mark.slow
@needs_kinds
def test_a_while_without_an_answer_is_waited_for_and_nothing_is_done_twice(site: Site) -> None:
    site.script(f"echo x >> {site.folder}/tries-$PET_NODE_RANK")

    site.job(connection=Flaky(site.connection, 9)).run(PreemptionNotice())

    assert (site.folder / "tries-0").read_text() == "x\n"
    assert site.left() == []


@needs_kinds
def test_without_its_role_a_step_may_make_nothing(site: Site) -> None:
    (role,) = [kind for kind in site.cluster.api.kinds if kind.name == "Role"]
    site.cluster.api.operations.delete(role, "nightshift-training", NAMESPACE)

    with pytest.raises(UserError, match="Kubernetes refuses to get trainjobs for 'nightshift-"):
        site.job().run(PreemptionNotice())
    assert site.left() == []


def test_a_line_of_a_log_is_new_once_also_where_two_have_the_same_time() -> None:
    log = PodLog()
    assert list(log.new(f"{at(1)} a\n{at(2)} b\n{at(2)} c\n")) == ["a", "b", "c"]
    assert list(log.new(f"{at(2)} b\n{at(2)} c\n{at(3)} d\n")) == ["d"]
    assert log.age > 0


@pytest.mark.parametrize("character", ["\r", "\f", "\x85", "\u2028"])
def test_a_line_of_a_log_may_hold_what_divides_lines_elsewhere(character: str) -> None:
    log = PodLog()
    assert list(log.new(f"{at(1)} 10 %{character}20 %\n")) == [f"10 %{character}20 %"]
    assert list(log.new(f"{at(2)} b\n")) == ["b"]


def test_a_line_without_a_time_is_not_the_pods_and_silences_no_other() -> None:
    log = PodLog()
    assert list(log.new(f"unable to retrieve container logs\n~ ?\n{at(1)} a\n")) == ["a"]
    assert list(log.new(f"{at(1)} a\n{at(2)} b\n")) == ["b"]


class Broken:
    """An answer that breaks off while it is read."""

    @property
    def data(self) -> bytes:
        raise ProtocolError("Connection broken: IncompleteRead")


class Server(client.ApiClient):
    """A connection to a server with a TrainJob of ours that is complete when it is looked at for the third time.

    Attributes:
        made: the TrainJob.
        log: answers of its pod's log.
        asked: methods of the requests.
        meanwhile: called with each method, after a TrainJob is made, before it is deleted.
    """

    def __init__(self, meanwhile: Callable[[str], Any] = lambda _: None) -> None:
        super().__init__(client.Configuration())
        self.trainjob: Json | None = None
        self.log: list[Any] = []
        self.methods: list[str] = []
        self.meanwhile = meanwhile

    def request(self, method: str, url: str, *_: Any, **options: Any) -> Any:
        """Answer."""
        if "/pods" in url:
            return self.log.pop(0) if url.endswith("/log") else SimpleNamespace(data=json.dumps({"items": [POD]}))
        self.methods.append(method)
        trainjob = self._trainjob(method)
        self.meanwhile(method)
        if method == "DELETE":
            self.trainjob = None
        return SimpleNamespace(data=json.dumps(trainjob))

    def _trainjob(self, method: str) -> Json:
        if method == "POST":
            self.trainjob = {**WORK.body, "metadata": {**WORK.body["metadata"], "uid": "1"}}
        if self.trainjob is None:
            missing = client.ApiException(404, "Not Found")
            missing.body = f'trainjobs "{WORK.name}" not found'
            raise missing
        ends = [{"type": "Complete", "status": "True"}] if self.methods.count("GET") > 3 else []
        return {**self.trainjob, "status": {"conditions": ends}}


META = {"name": "pod-0", "creationTimestamp": at(0)}
STATUS = {"phase": "Running"}
POD = {"metadata": META, "status": STATUS}


class Time:
    """Seconds that pass in pauses and in vain."""

    def __init__(self, meanwhile: Callable[[], Any] = lambda: None) -> None:
        self.now, self.meanwhile = 0.0, meanwhile

    def pause(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()


class Silent(client.ApiClient):
    """A connection on which no answer ever comes."""

    def __init__(self, time: Time) -> None:
        super().__init__(client.Configuration())
        self._time = time

    def request(self, method: str, url: str, *_: Any, **options: Any) -> Any:
        timeout = options["_request_timeout"]
        self._time.now += timeout if isinstance(timeout, int) else math.inf  # the client takes no float
        raise ReadTimeoutError(None, url, "Read timed out.")


def job(connection: client.ApiClient, time: Time | None = None) -> TrainJob:
    time = time or Time()
    return TrainJob(WORK, connection, NAMESPACE, time.pause, lambda: time.now)


def test_a_log_that_breaks_off_while_it_is_read_ends_no_training(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nightshift")
    server = Server()
    server.log = [Broken(), SimpleNamespace(data=f"{at(1)} epoch 1\n".encode()), SimpleNamespace(data=b"")]

    job(server).run(PreemptionNotice())

    assert "epoch 1" in caplog.messages
    assert any("IncompleteRead" in message for message in caplog.messages)
    assert server.trainjob is None


@pytest.mark.parametrize(("failures", "count"), [(0, 1), (1, 2), (99, 3)])
def test_a_step_that_is_stopped_while_it_makes_a_trainjob_has_it_deleted_for_some_seconds_and_says_why_it_was_stopped(
    caplog: pytest.LogCaptureFixture, failures: int, count: int
) -> None:
    def meanwhile(method: str) -> None:
        if method == "POST":
            raise DeadError
        if method == "DELETE" and server.methods.count(method) <= failures:
            raise client.ApiException(503, "Service Unavailable")

    server = Server(meanwhile)

    with pytest.raises(DeadError):
        job(server).run(PreemptionNotice())
    assert server.methods.count("DELETE") == count
    assert (server.trainjob is None) == ("may be left" not in caplog.text) == (failures < 99)


def test_a_step_whose_budget_is_used_up_has_time_to_delete_its_trainjob() -> None:
    # a last look, and what it finds is deleted
    assert CLEANUP_SECONDS + POLL_SECONDS + 2 * TIMEOUT_SECONDS < MACHINES_GRACE


def test_an_api_that_gives_no_answer_is_asked_for_ten_minutes_by_the_clock() -> None:
    time = Time()

    with pytest.raises(UnavailableError, match="Kubernetes does not answer"):
        job(Silent(time), time).run(PreemptionNotice())
    assert 600 <= time.now <= 615


def test_a_step_that_has_to_end_waits_for_no_answer() -> None:
    notice = PreemptionNotice()
    time = Time(lambda: vars(notice).update(received=True))

    with pytest.raises(PreemptedError):
        job(Silent(time), time).run(notice)
    assert time.now < 60


def test_several_machines_without_a_cluster_are_refused_with_the_next_step(tmp_path: Path) -> None:
    args = component.training.parser().parse_args(with_nodes(flags(tmp_path), nodes=2))

    with pytest.raises(
        UserError, match=r"task\.trainer\.nodes is 2, and this is no pod .*; set it to 1, or start each"
    ):
        body(StepContext(args))
