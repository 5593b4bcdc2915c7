"""What KServe in mode Standard and Kubernetes do with an InferenceService, as far as one Deployment goes.

Read off KServe 0.18's `predictor.go`, `deployment_reconciler.go` and `inference_service_status.go`: labels and
annotations go to the pods, and the status repeats the conditions that the Deployment had before the change. Of
Kubernetes' controller: a change makes new pods beside the old ones, and the condition of a failure stays when the
Deployment goes back to pods that it has had. The checks of both webhooks are not here.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components.release.targets.kserve_raw import KServeRawDeployment, RawDeploymentSettings
from nightshift_testkit.cluster.kinds import DEPLOYMENT, Json
from nightshift_testkit.cluster.operations import condition
from tests.components.release.targets.kserve import EXTENSION, Controllers, number, uri
from tests.components.release.targets.versions import Fleet

NAME = "fraud-predictor"


class StandardControllers(Controllers):
    """Each takes one step when time passes, KServe's before the Deployment's."""

    kind = KServeRawDeployment
    settings = RawDeploymentSettings("nightshift", "registry.example.com/nightshift/serving:0.3.0", "serving", "token")
    splits = False
    failure = "has timed out progressing"

    def __init__(self, *cluster: Any) -> None:
        super().__init__(*cluster)
        self._answering: list[str] = []  # the models of the pods that are asked, one after the other
        self._known: list[Json] = []  # templates
        self._orphaned = False

    def shares(self) -> dict[int, float]:
        return {number(model): 1.0 for model in self._answering[-1:]}

    @property
    def deployments(self) -> list[Json]:
        return self.api.store.copies(DEPLOYMENT, "nightshift")

    def pass_time(self, _: float) -> None:
        self._answering = self._answering[-1:]
        if self._orphaned:
            self.api.operations.delete(DEPLOYMENT, NAME, "nightshift")
        for value in self.objects:
            self.say(value, self._reconciled(value))
        owners = {value["metadata"]["uid"] for value in self.objects}
        owned = [
            owner["uid"]
            for deployment in self.deployments
            for owner in deployment["metadata"].get("ownerReferences", [])
        ]
        self._orphaned = bool(set(owned) - owners)  # and deleted some time later
        if owned:
            self.api.operations.change(DEPLOYMENT, NAME, self._rolled, "nightshift")

    def ask(self, url: str, body: bytes) -> bytes:
        """Answer for the service: a pod that is replaced is asked once more."""
        assert url == "http://fraud-predictor.nightshift.svc.cluster.local/score"
        return self.fleet.answer(self._answering[0], body)

    def clear(self) -> None:
        super().clear()
        self._orphaned = False
        for _ in self.deployments:
            self.api.operations.delete(DEPLOYMENT, NAME, "nightshift")

    def saved(self) -> Callable[[], None]:
        objects, deployments, answering = self.objects, self.deployments, list(self._answering)

        def restore() -> None:
            self.clear()
            self._answering = list(answering)
            for value, deployment in zip(copy.deepcopy(objects), copy.deepcopy(deployments), strict=True):
                uid = self.api.store.add(self.services, value)["metadata"]["uid"]
                deployment["metadata"]["ownerReferences"][0]["uid"] = uid
                deployment["status"]["observedGeneration"] = 1
                self.api.store.add(DEPLOYMENT, deployment)

        return restore

    def _reconciled(self, value: Json) -> Json:
        """KServe's step: what the Deployment is to be, and what is said of what it was."""
        before = next(iter(self.deployments), None)
        if before is None:
            self.api.operations.create(DEPLOYMENT, deployment(value), "nightshift")
            return _status({}, "Unknown")
        template = deployment(value)["spec"]["template"]
        self.api.operations.change(DEPLOYMENT, NAME, lambda deployment: _write(deployment, template), "nightshift")
        return _status(before, _ready(before))

    def _rolled(self, deployment: Json) -> None:
        """The step of the Deployment's controller and of the autoscaler."""
        status = deployment.setdefault("status", {})
        if status.get("observedGeneration") != deployment["metadata"]["generation"]:
            self._begun(deployment)
        elif status["updatedReplicas"] != status["replicas"] or not status["availableReplicas"]:
            self._ended(deployment)
        elif deployment["spec"].get("replicas", 1) < 2:
            deployment["spec"]["replicas"] = 2
            status |= {"replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}

    def _begun(self, deployment: Json) -> None:
        """New pods are made beside those that there are."""
        there = deployment["status"].get("availableReplicas", 0)
        count = {"replicas": there + 1, "updatedReplicas": 1, "availableReplicas": there}
        deployment["status"] |= count | {"observedGeneration": deployment["metadata"]["generation"]}
        template = deployment["spec"]["template"]
        if template not in self._known:
            self._known.append(template)
            condition(deployment, "Progressing", "True", "NewReplicaSetCreated")
        condition(deployment, "Available", str(there > 0))

    def _ended(self, deployment: Json) -> None:
        """The new pods have replaced the others, or never start."""
        spec = deployment["spec"]["template"]["spec"]
        model, refusal = uri(spec), self.refusal(spec)
        condition(deployment, "ReplicaFailure", str(bool(refusal)), "FailedCreate", refusal)
        if refusal or not self.fleet.starts(model):
            message = f'ReplicaSet "{NAME}-0" has timed out progressing.'
            return condition(deployment, "Progressing", "False", "ProgressDeadlineExceeded", message)
        replicas = deployment["spec"].get("replicas", 1)
        deployment["status"] |= {"replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas}
        condition(deployment, "Progressing", "True", "NewReplicaSetAvailable")
        condition(deployment, "Available", "True")
        self._answering = [*self._answering[-1:], model]
        return None


def pod(value: Json) -> Json:
    """The template of the pods of an object."""
    meta = value["metadata"]
    spec = {name: part for name, part in copy.deepcopy(value["spec"]["predictor"]).items() if name not in EXTENSION}
    spec["containers"][0]["env"] = [{"name": "INFERENCE_SERVICE_NAME", "value": meta["name"]}]
    labels = {"serving.kserve.io/inferenceservice": meta["name"], "component": "predictor", "app": f"isvc.{NAME}"}
    return {"metadata": {"labels": labels, "annotations": meta["annotations"]}, "spec": spec}


def deployment(value: Json) -> Json:
    meta, template = value["metadata"], pod(value)
    owner = {"apiVersion": value["apiVersion"], "kind": value["kind"], "name": meta["name"], "uid": meta["uid"]}
    selector = {"matchLabels": {"app": template["metadata"]["labels"]["app"]}}
    strategy = value["spec"]["predictor"]["deploymentStrategy"]
    return {
        "metadata": {"name": NAME, "ownerReferences": [owner]},
        "spec": {"selector": selector, "template": template, "strategy": strategy},
    }


def _write(deployment: Json, template: Json) -> None:
    if deployment["spec"]["template"] != template:
        deployment["spec"]["template"] = template
        deployment["metadata"]["generation"] += 1


def _ready(deployment: Json) -> str:
    conditions = {condition["type"]: condition for condition in deployment.get("status", {}).get("conditions", [])}
    if conditions.get("Progressing", {}).get("status") == "False":
        return "False"
    return "True" if conditions.get("Progressing", {}).get("reason") == "NewReplicaSetAvailable" else "Unknown"


def _status(deployment: Json, ready: str) -> Json:
    """With the generation of the Deployment, and an address as soon as there is a service."""
    seen = deployment.get("status", {}).get("observedGeneration", 0)
    address = {"url": f"http://{NAME}.nightshift.svc.cluster.local"}
    conditions = [{"type": "Ready", "status": ready}]
    return {"deploymentMode": "Standard", "observedGeneration": seen, "address": address, "conditions": conditions}


@contextmanager
def platform(fleet: Fleet, folder: Path) -> Iterator[StandardControllers]:
    """A cluster with KServe in mode Standard, and nothing served; the Deployment's controller is a stand-in too."""
    with StandardControllers.running(fleet, folder, acts=False) as controllers:
        yield controllers
