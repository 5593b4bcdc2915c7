"""Kubeflow Trainer 2.3 and JobSet 0.12, as far as a runtime with one replicated job goes.

Read off their sources: the Trainer's plugins torch and jobset, and JobSet's failure policies. Pods here have this
machine's address, so the first one's name is replaced by it. Not here: webhooks, suspension, deadlines, elastic jobs.
"""

import copy
from dataclasses import dataclass

from nightshift_testkit.cluster.cluster import SimulatedCluster
from nightshift_testkit.cluster.kinds import JOB, Json, ResourceKind
from nightshift_testkit.cluster.operations import condition

RUNTIME_STEP, NODE = "trainer.kubeflow.org/trainjob-ancestor-step", "node"
RANK = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
IGNORED = "RestartJobSetAndIgnoreMaxRestarts"
FOREGROUND = {"propagationPolicy": "Foreground"}


@dataclass
class TrainJobController:
    """What makes pods of TrainJobs, whenever it is called.

    Attributes:
        cluster: that it acts on.
        port: at which the first pod keeps its store.
        processes: of a pod.
    """

    cluster: SimulatedCluster
    port: int = 29500
    processes: str = "1"

    def sync(self) -> None:
        """Bring everything one step further."""
        for value in self._all("TrainJob"):
            if "deletionTimestamp" not in value["metadata"]:
                self._trainjob(value)
        for value in self._all("JobSet"):
            if "deletionTimestamp" not in value["metadata"]:
                self._jobset(value)

    def _trainjob(self, value: Json) -> None:
        name, namespace = value["metadata"]["name"], value["metadata"]["namespace"]
        jobset = self.cluster.api.store.peek(self._kind("JobSet"), name, namespace)
        wanted = value["spec"]["runtimeRef"]
        runtime = self.cluster.api.store.peek(self._kind(wanted["kind"]), wanted["name"], namespace)
        if jobset is None and runtime:
            body = {"metadata": _owned(name, value), "spec": self._filled(runtime, value)}
            self.cluster.api.operations.create(self._kind("JobSet"), body, namespace)
        elif jobset:
            for condition in jobset.get("status", {}).get("conditions", []):
                kind = {"Completed": "Complete"}.get(condition["type"], condition["type"])
                self._say("TrainJob", value, kind, condition["reason"], condition["message"])

    def _filled(self, runtime: Json, trainjob: Json) -> Json:
        """The JobSet's specification."""
        spec, wanted = copy.deepcopy(runtime["spec"]["template"]["spec"]), trainjob["spec"]["trainer"]
        (job,) = spec["replicatedJobs"]
        assert job["template"]["metadata"]["labels"] == {RUNTIME_STEP: "trainer"}
        job["template"]["spec"] |= {"parallelism": wanted["numNodes"], "completions": wanted["numNodes"]}
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        assert (job["name"], container["name"]) == (NODE, NODE)
        variables = {"NNODES": str(wanted["numNodes"]), "NPROC_PER_NODE": self.processes}
        variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port)}
        container["command"] = wanted["command"]
        container["env"] = [
            *container.get("env", []),
            *wanted.get("env", []),
            *({"name": f"PET_{name}", "value": value} for name, value in variables.items()),
            {"name": "PET_NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": RANK}}},
        ]
        return spec

    def _jobset(self, value: Json) -> None:
        meta = value["metadata"]
        name = f"{meta['name']}-{NODE}-0"
        job = self.cluster.api.store.peek(JOB, name, meta["namespace"])
        if any(
            condition["type"] in ("Completed", "Failed") for condition in value.get("status", {}).get("conditions", [])
        ):
            return
        if job is None:
            self.cluster.api.operations.create(JOB, _job(value, name), meta["namespace"])
            return
        for entry in job.get("status", {}).get("conditions", []):
            if entry["type"] == "Complete":
                self._say("JobSet", value, "Completed", "AllJobsCompleted", "jobset completed successfully")
            elif entry["type"] == "Failed":
                self._failed(value, job, entry["reason"])

    def _failed(self, value: Json, job: Json, reason: str) -> None:
        policy = value["spec"]["failurePolicy"]
        assert policy["maxRestarts"] == 0
        rules = [rule for rule in policy["rules"] if reason in rule.get("onJobFailureReasons", [reason])]
        if rules and rules[0]["action"] == IGNORED:
            if "deletionTimestamp" not in job["metadata"]:
                names = job["metadata"]["name"], job["metadata"]["namespace"]
                self.cluster.api.operations.delete(JOB, *names, FOREGROUND)
        else:
            text = f"jobset failed due to reaching max number of restarts (first failed job: {job['metadata']['name']})"
            self._say("JobSet", value, "Failed", "ReachedMaxRestarts", text)

    def _say(self, kind: str, value: Json, what: str, reason: str, message: str) -> None:
        """Set a condition through the API, which checks it."""
        operations, meta = self.cluster.api.operations, value["metadata"]
        current = self.cluster.api.store.get(self._kind(kind), meta["name"], meta["namespace"])
        condition(current, what, "True", reason, message)
        operations.update(self._kind(kind), meta["name"], current, meta["namespace"], "status")

    def _all(self, kind: str) -> list[Json]:
        return self.cluster.api.store.copies(self._kind(kind))

    def _kind(self, name: str) -> ResourceKind:
        return next(kind for kind in self.cluster.api.kinds if kind.name == name)


def _owned(name: str, owner: Json) -> Json:
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    reference |= {"uid": owner["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}
    return {"name": name, "ownerReferences": [reference]}


def _job(jobset: Json, name: str) -> Json:
    """The only job of a JobSet, whose pods have the set's labels."""
    (wanted,) = jobset["spec"]["replicatedJobs"]
    spec = copy.deepcopy(wanted["template"]["spec"])
    labels = {"jobset.sigs.k8s.io/jobset-name": jobset["metadata"]["name"]}
    labels |= {"jobset.sigs.k8s.io/replicatedjob-name": wanted["name"]}
    meta = spec["template"].setdefault("metadata", {})
    meta["labels"] = meta.get("labels", {}) | labels
    return {"metadata": _owned(name, jobset) | {"labels": labels}, "spec": spec}
