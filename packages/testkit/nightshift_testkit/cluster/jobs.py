"""Jobs: pods until enough of them have succeeded or too many failed."""

import contextlib
import copy
from collections import defaultdict
from collections.abc import Iterator

from nightshift_testkit.cluster import events
from nightshift_testkit.cluster.kinds import JOB, POD, Json
from nightshift_testkit.cluster.operations import Operations, condition
from nightshift_testkit.cluster.problems import StatusError
from nightshift_testkit.cluster.store import ResourceStore, now

BACKOFF = 6  # failures that are too few for a job to fail
PHASES = {"Succeeded": "succeeded", "Failed": "failed"}
INDEX = "batch.kubernetes.io/job-completion-index"


class Jobs:
    """The controller of jobs."""

    def __init__(self, store: ResourceStore, operations: Operations) -> None:
        self._store, self._operations = store, operations
        self._version, self._gone = store.version, defaultdict[str, list[Json]](list)

    def sync(self) -> None:
        self._notice()
        for job in self._store.copies(JOB):
            ended = any(item["type"] in ("Complete", "Failed") for item in job.get("status", {}).get("conditions", []))
            if not ended and "deletionTimestamp" not in job["metadata"] and not job["spec"].get("suspend"):
                self._advance(job)

    def _notice(self) -> None:
        """Remember the pods that are gone, which a finalizer keeps until they are counted on a real cluster."""
        with self._store.changed, contextlib.suppress(StatusError):
            for change in self._store.since(self._version):
                if change.kind == POD and change.after is None:
                    for owner in change.last["metadata"].get("ownerReferences", []):
                        self._gone[owner["uid"]].append(change.last)
            self._version = self._store.version

    def _advance(self, job: Json) -> None:
        spec, counts = job["spec"], self._counts(job)
        wanted = spec.get("completions", spec.get("parallelism", 1))
        if counts["succeeded"] >= wanted:
            self._write(job, counts, "Complete")
        elif any(_fails(job, pod) for pod in self._pods(job)):
            self._fail(job, counts, "PodFailurePolicy")
        elif counts["failed"] > spec.get("backoffLimit", BACKOFF):
            self._fail(job, counts, "BackoffLimitExceeded")
        else:
            for index in self._missing(job, wanted, counts):
                self._make(job, index)
            self._write(job, self._counts(job))

    def _pods(self, job: Json) -> Iterator[Json]:
        """Those that are there, and those that were."""
        uid = job["metadata"]["uid"]
        for pod in self._store.select(POD, job["metadata"]["namespace"]):
            if any(item["uid"] == uid for item in pod["metadata"].get("ownerReferences", [])):
                yield pod
        for pod in self._gone[uid]:
            yield pod | {"status": {**pod["status"], "phase": _last(pod)}}

    def _counts(self, job: Json) -> dict[str, int]:
        counts = {"active": 0, "succeeded": 0, "failed": 0}
        for pod in self._pods(job):
            counts[PHASES.get(pod["status"]["phase"], "active")] += 1
        return counts

    def _missing(self, job: Json, wanted: int, counts: dict[str, int]) -> list[int]:
        """The indices of pods that are to be made; without a completion mode nobody looks at them."""
        number = min(job["spec"].get("parallelism", 1), wanted - counts["succeeded"]) - counts["active"]
        if job["spec"].get("completionMode") != "Indexed":
            return [0] * max(0, number)
        occupied = {_index(pod) for pod in self._pods(job) if pod["status"]["phase"] != "Failed"}
        return [index for index in range(wanted) if index not in occupied][: max(0, number)]

    def _fail(self, job: Json, counts: dict[str, int], reason: str) -> None:
        """End a job, and with it the pods that still run."""
        self._write(job, counts, "Failed", reason)
        for pod in list(self._store.select(POD, job["metadata"]["namespace"])):
            ours = any(item["uid"] == job["metadata"]["uid"] for item in pod["metadata"].get("ownerReferences", []))
            if ours and pod["status"]["phase"] not in PHASES and "deletionTimestamp" not in pod["metadata"]:
                self._operations.delete(POD, pod["metadata"]["name"], pod["metadata"]["namespace"])

    def _write(self, job: Json, counts: dict[str, int], ended: str = "", reason: str = "") -> None:
        def edit(value: Json) -> None:
            status = value.setdefault("status", {})
            status.setdefault("startTime", now())
            status |= counts
            if ended:
                condition(value, ended, "True", reason)
            if ended == "Complete":
                status["completionTime"] = now()

        self._operations.change(JOB, job["metadata"]["name"], edit, job["metadata"]["namespace"])

    def _make(self, job: Json, index: int) -> None:
        meta = job["metadata"]
        pod, name = copy.deepcopy(job["spec"]["template"]), meta["name"]
        labels = {"batch.kubernetes.io/job-name": name, "job-name": name}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": meta["uid"], "controller": True}
        pod["metadata"] = pod.get("metadata", {}) | {"generateName": f"{name}-", "ownerReferences": [owner]}
        if job["spec"].get("completionMode") == "Indexed":
            labels[INDEX] = str(index)
            pod["metadata"] |= {"generateName": f"{name}-{index}-", "annotations": {INDEX: str(index)}}
        pod["metadata"]["labels"] = pod["metadata"].get("labels", {}) | labels
        try:
            self._operations.create(POD, pod, meta["namespace"])
        except StatusError as error:
            # over the quota, for example: the next round tries again
            events.record(self._store, job, "FailedCreate", f"Error creating: {error}", "Warning")


def _last(pod: Json) -> str:
    """The phase that a pod which is gone is counted with."""
    return "Succeeded" if pod["status"]["phase"] == "Succeeded" else "Failed"


def _index(pod: Json) -> int:
    return int(pod["metadata"].get("labels", {}).get(INDEX, 0))


def _fails(job: Json, pod: Json) -> bool:
    """Whether a job's policy says that it fails at once for a pod that has failed."""
    rules = job["spec"].get("podFailurePolicy", {}).get("rules", [])
    action = next((rule["action"] for rule in rules if pod["status"]["phase"] == "Failed" and _fits(rule, pod)), "")
    return action == "FailJob"


def _fits(rule: Json, pod: Json) -> bool:
    conditions = {(condition["type"], condition["status"]) for condition in pod["status"].get("conditions", [])}
    if any(
        (pattern["type"], pattern.get("status", "True")) in conditions for pattern in rule.get("onPodConditions", [])
    ):
        return True
    wanted = rule.get("onExitCodes", {})
    codes = [
        container["state"]["terminated"]["exitCode"]
        for container in pod["status"].get("containerStatuses", [])
        if "terminated" in container["state"] and container["name"] == wanted.get("containerName", container["name"])
    ]
    is_in = wanted.get("operator") == "In"
    return any(code and (code in wanted["values"]) == is_in for code in codes) if wanted else False
