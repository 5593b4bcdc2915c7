"""Training on several machines of a cluster: a TrainJob, which this step makes, follows and deletes.

Its pods run this step's own command under `nightshift.models.neural`, with what the runtime `nightshift` gives them
(infra/kubernetes/base/training.yaml), and the first process writes where the step would have. When a pod is preempted,
the runtime has all of them start again and resume; any other failure is the step's, for its engine to try again.

A TrainJob is named by its command, and looked for before it is made: a step that was killed at any moment finds it.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from nightshift import cluster, storage
from nightshift.cluster import MissingError
from nightshift.models.neural.preemption import PreemptionNotice
from nightshift.runtime.errors import PreemptedError, UnavailableError, UserError
from nightshift.runtime.step import USER_ERROR

log = logging.getLogger("nightshift")

GROUP = "trainer.kubeflow.org"
TRAINJOBS = {"group": GROUP, "version": "v1alpha1", "plural": "trainjobs"}
RUNTIME = "nightshift"
MADE_OF = "nightshift/made-of"  # annotation: hash of what the TrainJob does
# labels of its pods, as JobSet and Kubernetes' Job set them, and what the Trainer calls the container
JOBSET, INDEX, CONTAINER = "jobset.sigs.k8s.io/jobset-name", "batch.kubernetes.io/job-completion-index", "node"
LAUNCHER = ("-m", "nightshift.models.neural", "--max-restarts", "3")  # of the processes of a machine
STEP = ("-m", "components.training")
INSIDE = "KUBERNETES_SERVICE_HOST"  # what every pod has in its environment
NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")  # RFC 3339
POLL_SECONDS = 5.0
TIMEOUT_SECONDS = 10  # timeout of a request; the client ignores a float
PATIENCE_SECONDS = 600.0  # that the API may leave a question without an answer
CLEANUP_SECONDS = 10.0  # the same when the step has to end; its last request ends within `spending.MACHINES_GRACE`

Object = dict[str, Any]
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class TrainJobWork:
    """What a TrainJob does.

    Attributes:
        flags: of the training step.
        nodes: machines that do it together.
        environment: variables of their processes.
        processes: on each machine; None: one for each of its GPUs.
    """

    flags: tuple[str, ...]
    nodes: int
    environment: Mapping[str, str] = field(default_factory=dict)
    processes: int | None = None

    @cached_property
    def sha256(self) -> str:
        """The hash of all of it."""
        return storage.fingerprint([self.flags, self.nodes, dict(self.environment)])

    @property
    def name(self) -> str:
        """What the TrainJob is called."""
        return f"nightshift-{self.sha256[:16]}"

    @property
    def body(self) -> Object:
        """The TrainJob."""
        variables = [{"name": name, "value": value} for name, value in self.environment.items()]
        processes = {"numProcPerNode": self.processes} if self.processes else {}
        command = ["python", *LAUNCHER, *STEP, *self.flags]
        return {
            "apiVersion": f"{GROUP}/{TRAINJOBS['version']}",
            "kind": "TrainJob",
            "metadata": {
                "name": self.name,
                "labels": cluster.queue_labels(cluster.TRAINING),
                "annotations": {MADE_OF: self.sha256},
            },
            "spec": {
                "runtimeRef": {"apiGroup": GROUP, "kind": "TrainingRuntime", "name": RUNTIME},
                "trainer": {"numNodes": self.nodes, **processes, "command": command, "env": variables},
            },
        }


class TrainJob:
    """The TrainJob of some work."""

    def __init__(
        self,
        work: TrainJobWork,
        connection: Any,
        namespace: str,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Call nothing.

        Args:
            work: what it does.
            connection: `kubernetes.client.ApiClient`.
            namespace: of the TrainJob and its pods.
            pause: called with the seconds between two looks.
            clock: in seconds.
        """
        from kubernetes.client import CoreV1Api, CustomObjectsApi

        self._work, self._namespace, self._pause, self._clock = work, namespace, pause, clock
        self._notice = PreemptionNotice()
        self._objects, self._core = CustomObjectsApi(connection), CoreV1Api(connection)
        self._logs: dict[str, PodLog] = {}
        self._logged: set[str] = set()

    def run(self, notice: PreemptionNotice) -> None:
        """Have the work done, by a TrainJob that is there or a new one, and have that deleted.

        Args:
            notice: whether this step has to end.

        Raises:
            UserError: when the work ends with exit code 2, or Kubernetes refuses.
            UnavailableError: when it fails otherwise, or Kubernetes does not answer for ten minutes.
            PreemptedError: when this step has to end: the pods save a checkpoint as they go.
        """
        self._notice, uid = notice, ""
        try:
            uid = self._begin()
            ended = self._wait(uid)
            failure = self._patiently(lambda: self._failure(ended))
        except UnavailableError:
            raise  # the next attempt finds it
        except BaseException:
            self._give_up(uid)
            raise
        if failure:
            self._give_up(uid)
            raise failure
        self._patiently(lambda: self._delete(uid))

    def _begin(self) -> str:
        """Return the uid of the TrainJob, made when there is none; one that is being deleted goes first."""
        while "deletionTimestamp" in (trainjob := self._patiently(self._find_or_create))["metadata"]:
            self._rest()
        return str(trainjob["metadata"]["uid"])

    def _find_or_create(self) -> Object:
        trainjob = self._find()
        if trainjob is None:
            log.info("TrainJob %s trains on %d machines", self._work.name, self._work.nodes)
            trainjob = self._call("create", body=self._work.body)
        return trainjob

    def _wait(self, uid: str) -> Object:
        """Return the TrainJob once it has ended, and log meanwhile what its first process says."""
        while True:
            trainjob = self._patiently(self._find)
            if trainjob is None or trainjob["metadata"]["uid"] != uid:
                raise UnavailableError(f"TrainJob {self._work.name} was deleted meanwhile; run it again")
            self._follow()
            if _outcome(trainjob):
                return trainjob
            self._rest()

    def _failure(self, trainjob: Object) -> Exception | None:
        """Return why a TrainJob that has ended failed; None when it did not."""
        outcome = _outcome(trainjob)
        if outcome["type"] == "Complete":
            return None
        ends = {pod.metadata.name: end for pod in self._pods() if (end := _end(pod)) and end.exit_code}
        for name in ends:  # the first pod's log does not hold what the others have found
            with self._say_errors():
                self._show(name)
        how = [f"{name} ended with exit code {end.exit_code} ({end.reason})" for name, end in ends.items()]
        message = f"TrainJob {self._work.name} failed: {'; '.join([outcome['message'], *how])}"
        if USER_ERROR in {end.exit_code for end in ends.values()}:
            return UserError(f"{message}; its log is above")
        return UnavailableError(f"{message}; run it again, and it resumes")

    def _follow(self) -> None:
        """Log what the first of the pods has printed since, or what it waits for."""
        with self._say_errors():
            pods = self._pods(f",{INDEX}=0")
            if not pods:
                return
            # times are whole seconds: of two pods that are as old, the one that failed was first
            newest = max(pods, key=lambda pod: (pod.metadata.creation_timestamp, pod.status.phase != "Failed"))
            self._say(f"{newest.metadata.name}: {_state(newest)}")
            if newest.status.phase != "Pending":
                self._show(newest.metadata.name)

    @contextmanager
    def _say_errors(self) -> Iterator[None]:
        """Say an error instead of raising it: a pod may go at any time, and no log is worth a training."""
        try:
            yield
        except (UserError, UnavailableError) as error:
            self._say(str(error))

    def _show(self, pod: str) -> None:
        seen = self._logs.setdefault(pod, PodLog())
        for line in seen.new(self._read_log(pod, seen.age)):
            log.info("%s", line)

    def _say(self, text: str) -> None:
        """Log what has not been said yet."""
        if text not in self._logged:
            log.info("%s", text)
        self._logged.add(text)

    def _pods(self, more: str = "") -> list[Any]:
        def list_pods() -> Any:
            selector = f"{JOBSET}={self._work.name}{more}"
            return self._core.list_namespaced_pod(
                self._namespace, label_selector=selector, _request_timeout=TIMEOUT_SECONDS
            )

        return list(cluster.call("list pods", self._work.name, list_pods).items)

    def _read_log(self, pod: str, seconds: int) -> str:
        def read_log() -> bytes:
            # not as the client decodes it, which takes a line of JSON for an object
            options = {"_preload_content": False, "_request_timeout": TIMEOUT_SECONDS}
            since = {"since_seconds": seconds} if seconds else {}
            answer = self._core.read_namespaced_pod_log(
                pod, self._namespace, container=CONTAINER, timestamps=True, **since, **options
            )
            return bytes(answer.data)  # comes over the connection now, which may break

        return cluster.call("get the log of a pod", pod, read_log).decode(errors="replace")

    def _find(self) -> Object | None:
        """Return the TrainJob, None when there is none.

        Raises:
            UserError: when one of its name is not ours.
        """
        try:
            trainjob: Object = self._call("get", name=self._work.name)
        except MissingError:
            return None
        if trainjob["metadata"].get("annotations", {}).get(MADE_OF) != self._work.sha256:
            raise UserError(
                f"TrainJob {self._work.name!r} exists and has no annotation {MADE_OF}={self._work.sha256}: it is "
                "somebody else's; delete it, and run this again"
            )
        return trainjob

    def _give_up(self, uid: str) -> None:
        """Delete the TrainJob, as far as that is possible: the step ends with another error, which stays."""
        self._notice = PreemptionNotice()  # heeded already
        try:
            self._patiently(lambda: self._delete(uid), CLEANUP_SECONDS)
        except (UserError, UnavailableError) as error:
            log.warning("TrainJob %s may be left, with its pods: %s", self._work.name, error)

    def _delete(self, uid: str) -> None:
        """Delete the TrainJob that has this uid, and with it all that was made of it; it goes last itself.

        Without a uid nobody has answered whether it was made: then the one of ours that is there.
        """
        if not uid:
            trainjob = self._find()
            if trainjob is None:
                return
            uid = trainjob["metadata"]["uid"]
        options = {"propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        try:
            self._call("delete", name=self._work.name, body=options)
        except MissingError:
            return

    def _call(self, verb: str, **arguments: Any) -> Any:
        method = getattr(self._objects, f"{verb}_namespaced_custom_object")
        resource = {**TRAINJOBS, "namespace": self._namespace, "_request_timeout": TIMEOUT_SECONDS}
        return cluster.call(f"{verb} trainjobs", self._work.name, lambda: method(**resource, **arguments))

    def _patiently(self, ask: Callable[[], Answer], seconds: float = PATIENCE_SECONDS) -> Answer:
        """Ask until there is an answer: a training that runs outlives a while without the API.

        Raises:
            UnavailableError: when there is none for so many seconds.
            PreemptedError: when this step has to end.
        """
        until = self._clock() + seconds
        while True:
            try:
                return ask()
            except UnavailableError as error:
                if self._clock() >= until:
                    raise
                self._say(str(error))
                self._rest()

    def _rest(self) -> None:
        """Wait until the next look.

        Raises:
            PreemptedError: when this step has to end.
        """
        if self._notice.received:
            raise PreemptedError(f"TrainJob {self._work.name} is deleted; its pods save a checkpoint")
        self._pause(POLL_SECONDS)


class PodLog:
    """What of a log is new, whose lines begin with their times; others are the kubelet's, not the pod's."""

    def __init__(self) -> None:
        self._last, self._read = "", 0.0

    @property
    def age(self) -> int:
        """Seconds that reach back to what was read last, and a little further; 0 when nothing was."""
        return int(time.monotonic() - self._read + 2 * POLL_SECONDS) if self._last else 0

    def new(self, text: str) -> Iterator[str]:
        """Yield the lines that were not there before, without their times."""
        self._read, before = time.monotonic(), self._last
        for line in text.split("\n"):  # a line may hold other characters at which `splitlines` would divide it
            at, _, content = line.partition(" ")
            if TIME.fullmatch(at) and at > before:
                self._last = at
                yield content


def here(work: TrainJobWork, environment: Mapping[str, str] = os.environ) -> TrainJob:
    """Return the TrainJob of some work beside this pod.

    Raises:
        UserError: when this is no pod, or its image cannot make TrainJobs.
    """
    if INSIDE not in environment:
        raise UserError(
            f"task.trainer.nodes is {work.nodes}, and this is no pod of a cluster, which could start as many machines; "
            "set it to 1, or start each machine's share yourself: docs/guides/training.md#several-machines"
        )
    try:
        import kubernetes
    except ImportError:
        raise UserError(
            f"task.trainer.nodes is {work.nodes}, and the image of this pod cannot start as many; compile with: "
            "nightshift compile --trainjobs"
        ) from None
    configuration = kubernetes.client.Configuration()
    kubernetes.config.load_incluster_config(configuration)
    configuration.retries = 0  # TrainJob asks again itself, for a limited time
    with open(NAMESPACE) as file:
        return TrainJob(work, kubernetes.client.ApiClient(configuration), file.read().strip())


def _outcome(trainjob: Object) -> Object:
    """Return the condition that says how a TrainJob has ended; empty while it runs."""
    conditions = trainjob.get("status", {}).get("conditions", ())
    ends = [
        condition
        for condition in conditions
        if condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
    ]
    return ends[0] if ends else {}


def _end(pod: Any) -> Any:
    """Return how a pod's container has ended, None when it has not."""
    states = [status.state for status in pod.status.container_statuses or () if status.name == CONTAINER]
    return states[0].terminated if states else None


def _state(pod: Any) -> str:
    """Return what a pod does, as kubectl shows it."""
    states = [status.state for status in pod.status.container_statuses or ()]
    waits = [state.waiting.reason for state in states if state and state.waiting]
    return str(waits[0] if waits else pod.status.phase)
