"""Runs the pods that have a node."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nightshift_testkit.cluster.access import Access
from nightshift_testkit.cluster.kinds import POD, Json
from nightshift_testkit.cluster.logs import Log
from nightshift_testkit.cluster.operations import Operations
from nightshift_testkit.cluster.pods import PodRunner
from nightshift_testkit.cluster.problems import StatusError
from nightshift_testkit.cluster.runtimes import Runtime
from nightshift_testkit.cluster.store import ResourceStore

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Settings:
    """Where pods run, and how soon something is tried again."""

    runtime: Runtime
    folder: Path  # folder of the pods' volumes and messages
    claims: Path  # folders of the claims' contents: namespace/name
    access: Access | None = None  # the pods' access to the API
    again: float = 0.3  # seconds until a container that could not start is tried again, and until the first restart


class Kubelet:
    """The kubelets of all nodes."""

    def __init__(self, store: ResourceStore, operations: Operations, settings: Settings) -> None:
        self._store = store
        self._operations = operations
        self._settings = settings
        self._runners: dict[str, PodRunner] = {}
        self._lost: set[str] = set()

    def sync(self) -> None:
        """Start what has a node, and end what is deleted."""
        present = set()
        for pod in self._store.select(POD):
            uid = pod["metadata"]["uid"]
            present.add(uid)
            if not pod["spec"].get("nodeName"):
                self._unseen(pod)
            elif pod["spec"]["nodeName"] not in self._lost:
                self._seen(pod, self._runners.get(uid))
        for uid, runner in list(self._runners.items()):
            if uid not in present:
                # whoever still reads its log keeps it
                runner.end(0)
                if not runner.is_alive():
                    del self._runners[uid]

    def _unseen(self, pod: Json) -> None:
        """A pod without a node goes as soon as nobody holds it."""
        if "deletionTimestamp" in pod["metadata"] and not pod["metadata"].get("finalizers"):
            self._store.remove(POD, pod)

    def _seen(self, pod: Json, runner: PodRunner | None) -> None:
        meta = pod["metadata"]
        if "deletionTimestamp" in meta:
            if runner and runner.is_alive():
                runner.end(meta.get("deletionGracePeriodSeconds", 0))
            elif not meta.get("finalizers"):
                self._store.remove(POD, pod)
        elif runner is None and pod["status"]["phase"] not in ENDED:
            runner = PodRunner(self._store, self._operations, self._settings, pod)
            self._runners[meta["uid"]] = runner
            runner.start()

    def log(self, pod: Json, container: str) -> Log:
        """The log of a pod's container.

        Raises:
            StatusError: 400 when it has not started, 500 when its node is lost.
        """
        node = pod["spec"].get("nodeName")
        if node in self._lost:
            raise StatusError(500, f"Get https://{node}:10250/containerLogs: dial tcp: connect: no route to host")
        runner = self._runners.get(pod["metadata"]["uid"])
        log = runner.logs.get(container) if runner else None
        if log is None:
            reason = runner.waiting(container) if runner else "PodInitializing"
            name = pod["metadata"]["name"]
            raise StatusError(400, f'container "{container}" in pod "{name}" is waiting to start: {reason}')
        return log

    def kill(self, pod: Json, number: int) -> None:
        """Send a signal to the first process of all of a pod's containers, as somebody on the node may."""
        self._runners[pod["metadata"]["uid"]].signal(number)

    def lose(self, node: str) -> None:
        """A node is gone at once with all that runs on it, and says nothing of it."""
        self._lost.add(node)
        for runner in self._on(node):
            runner.lose()

    def find(self, node: str) -> None:
        """The node is there again, without what ran on it."""
        self._lost.discard(node)

    def _on(self, node: str) -> Iterator[PodRunner]:
        return (runner for runner in list(self._runners.values()) if runner.node == node)

    def stop(self) -> None:
        """End everything and wait for it."""
        for runner in self._runners.values():
            runner.lose()
        for runner in self._runners.values():
            with contextlib.suppress(RuntimeError):
                runner.join()
