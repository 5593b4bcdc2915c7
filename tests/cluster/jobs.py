"""Jobs: pods until enough of them have succeeded or too many failed."""

import copy

from tests.cluster import events
from tests.cluster.kinds import JOB, POD, Json
from tests.cluster.operations import Operations, condition
from tests.cluster.problems import RefusedError
from tests.cluster.store import Store, now

BACKOFF = 6  # failures that are too few for a job to fail
PHASES = {"Succeeded": "succeeded", "Failed": "failed"}


class Jobs:
    """The controller of jobs."""

    def __init__(self, store: Store, operations: Operations) -> None:
        self._store, self._operations = store, operations

    def sync(self) -> None:
        for job in self._store.copies(JOB):
            ended = any(item["type"] in ("Complete", "Failed") for item in job.get("status", {}).get("conditions", []))
            if not ended and "deletionTimestamp" not in job["metadata"] and not job["spec"].get("suspend"):
                self._advance(job)

    def _advance(self, job: Json) -> None:
        spec, counts = job["spec"], self._counts(job)
        wanted = spec.get("completions", spec.get("parallelism", 1))
        if counts["succeeded"] >= wanted:
            self._write(job, counts, "Complete")
        elif counts["failed"] > spec.get("backoffLimit", BACKOFF):
            self._write(job, counts, "Failed", "BackoffLimitExceeded")
        else:
            missing = min(spec.get("parallelism", 1), wanted - counts["succeeded"]) - counts["active"]
            for _ in range(missing):
                self._make(job)
            self._write(job, self._counts(job))

    def _counts(self, job: Json) -> dict[str, int]:
        counts = {"active": 0, "succeeded": 0, "failed": 0}
        for pod in self._store.each(POD, job["metadata"]["namespace"]):
            if any(item["uid"] == job["metadata"]["uid"] for item in pod["metadata"].get("ownerReferences", [])):
                counts[PHASES.get(pod["status"]["phase"], "active")] += 1
        return counts

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

    def _make(self, job: Json) -> None:
        meta = job["metadata"]
        pod = copy.deepcopy(job["spec"]["template"])
        labels = {"batch.kubernetes.io/job-name": meta["name"], "job-name": meta["name"]}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
        pod["metadata"] = pod.get("metadata", {}) | {"generateName": f"{meta['name']}-", "ownerReferences": [owner]}
        pod["metadata"]["labels"] = pod["metadata"].get("labels", {}) | labels
        try:
            self._operations.create(POD, pod, meta["namespace"])
        except RefusedError as error:
            # over the quota, for example: the next round tries again
            events.record(self._store, job, "FailedCreate", f"Error creating: {error}", "Warning")
