"""What Kubernetes and a gateway do with what KServe makes of an InferenceService in mode Standard.

KServe itself is `nightshift_testkit.cluster.kserve`. Of Kubernetes' controller: a change makes new pods beside the old
ones, and the condition of a failure stays when a Deployment goes back to pods that it has had. The gateway follows its
route one step later.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from components.release.targets import NoAnswerError
from components.release.targets.kserve_raw import REPLACES, KServeRawDeployment, RawDeploymentSettings
from nightshift_testkit.cluster.kinds import DEPLOYMENT, Json, ResourceKind
from nightshift_testkit.cluster.kserve import ROUTE, STORAGE_URI, KServeController
from nightshift_testkit.cluster.operations import condition
from tests.components.release.targets.kserve import Controllers, number
from tests.components.release.targets.versions import Fleet

NAME, HOST = "fraud-predictor", ".nightshift.svc/score"


class StandardControllers(Controllers):
    """Each takes one step when time passes, KServe's before the Deployments'."""

    kind = KServeRawDeployment
    settings = RawDeploymentSettings("nightshift", "registry.example.com/nightshift/serving:0.3.0", "serving", "token")
    asks_first = many = True
    percentages = "KServe"
    failure = "has timed out progressing"
    has_gateway = True

    def __init__(self, *cluster: Any) -> None:
        super().__init__(*cluster)
        self.kserve = KServeController(self.cluster, self.has_gateway)
        self._answering: dict[str, list[str]] = {}  # the models of the pods that are asked, by Service
        self._known: list[Json] = []  # templates
        self._followed: dict[str, Json] = {}  # the routes as the gateway knows them, by object
        self._orphans: list[tuple[ResourceKind, str]] = []

    @property
    def deployments(self) -> list[Json]:
        return self.api.store.copies(DEPLOYMENT, "nightshift")

    @property
    def routes(self) -> list[Json]:
        return self.api.store.copies(ROUTE, "nightshift") if self.has_gateway else []

    def backends(self) -> dict[str, int]:
        """The Services that requests to the use case reach, with their weights."""
        if not any(value["metadata"]["name"] == "fraud" for value in self.objects):
            return {}
        if not self.has_gateway:
            return {NAME: 1} if self._answering.get(NAME) else {}
        route = self._followed.get("fraud", {"rules": [{"backendRefs": []}]})
        weights = {backend["name"]: backend.get("weight", 1) for backend in route["rules"][0]["backendRefs"]}
        return {name: weight for name, weight in weights.items() if weight}

    def is_answering(self, name: str) -> bool:
        """Whether a Service has pods."""
        return bool(self._answering.get(name))

    def shares(self) -> dict[int, float]:
        backends = self.backends()
        return {number(self._answering[name][-1]): weight / sum(backends.values()) for name, weight in backends.items()}

    def versions(self) -> set[int]:
        specs = [value["spec"] for value in self.objects if value["metadata"]["name"] == "fraud"]
        return {number(uri(predictor)) for spec in specs for predictor in predictors(spec)}

    def state(self) -> list[tuple[Json, dict[int, float]]]:
        states = super().state()
        for spec, _ in states:
            for predictor in predictors(spec):
                predictor["annotations"].pop(REPLACES)  # another one at each try
        return states

    def pass_time(self, _: float) -> None:
        self._answering = {name: models[-1:] for name, models in self._answering.items()}
        self._followed = {route["metadata"]["name"]: route["spec"] for route in self.routes}
        for kind, name in self._orphans:
            self.api.operations.delete(kind, name, "nightshift")
        self.kserve.sync()
        owners = {value["metadata"]["uid"] for value in self.objects}
        self._orphans = [
            (kind, value["metadata"]["name"])
            for kind, value in self._owned()
            if value["metadata"]["ownerReferences"][0]["uid"] not in owners
        ]
        names = {deployment["metadata"]["name"] for deployment in self.deployments}
        self._answering = {name: models for name, models in self._answering.items() if name in names}
        for name in names:
            self.api.operations.change(DEPLOYMENT, name, self._rolled, "nightshift")

    def ask(self, url: str, body: bytes) -> bytes:
        """Answer for a service: a pod that is replaced is asked once more."""
        models = self._answering.get(url.removeprefix("http://").removesuffix(HOST), [])
        if not models:
            raise NoAnswerError(f"{url} has no pods")
        return self.fleet.answer(models[0], body)

    def clear(self) -> None:
        super().clear()
        self._orphans, self._answering, self._followed = [], {}, {}
        for kind, values in ((DEPLOYMENT, self.deployments), (ROUTE, self.routes)):
            for value in values:
                self.api.operations.delete(kind, value["metadata"]["name"], "nightshift")

    def saved(self) -> Callable[[], None]:
        objects, owned = self.objects, list(self._owned())
        answering, followed = dict(self._answering), dict(self._followed)

        def restore() -> None:
            self.clear()
            self._answering, self._followed = dict(answering), dict(followed)
            stored = [self.api.store.add(self.services, value) for value in copy.deepcopy(objects)]
            uids = {value["metadata"]["name"]: value["metadata"]["uid"] for value in stored}
            for kind, value in copy.deepcopy(owned):
                owner = value["metadata"]["ownerReferences"][0]
                owner["uid"] = uids.get(owner["name"], owner["uid"])
                value.get("status", {}).update(observedGeneration=1)
                self.api.store.add(kind, value)

        return restore

    def _owned(self) -> Iterator[tuple[ResourceKind, Json]]:
        """What KServe has made: Deployments with an owner, and routes."""
        for deployment in self.deployments:
            if deployment["metadata"].get("ownerReferences"):
                yield DEPLOYMENT, deployment
        yield from ((ROUTE, route) for route in self.routes)

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
        spec, name = deployment["spec"]["template"]["spec"], deployment["metadata"]["name"]
        model, refusal = uri(spec), self.refusal(spec)
        condition(deployment, "ReplicaFailure", str(bool(refusal)), "FailedCreate", refusal)
        if refusal or not self.fleet.starts(model):
            message = f'ReplicaSet "{name}-0" has timed out progressing.'
            return condition(deployment, "Progressing", "False", "ProgressDeadlineExceeded", message)
        replicas = deployment["spec"].get("replicas", 1)
        deployment["status"] |= {"replicas": replicas, "updatedReplicas": replicas, "availableReplicas": replicas}
        condition(deployment, "Progressing", "True", "NewReplicaSetAvailable")
        condition(deployment, "Available", "True")
        self._answering[name] = [*self._answering.get(name, [])[-1:], model]
        return None


class ControllersWithoutGateway(StandardControllers):
    """KServe as `infra/` installs it: nothing makes a route."""

    has_gateway = False


def predictors(spec: Json) -> list[Json]:
    return [spec["predictor"], *(canary["predictor"] for canary in spec.get("canary", []))]


def uri(spec: Json) -> str:
    """The model that pods of a spec serve."""
    (container,) = spec["containers"]
    return next(str(variable["value"]) for variable in container["env"] if variable["name"] == STORAGE_URI)


@contextmanager
def platform(fleet: Fleet, folder: Path) -> Iterator[StandardControllers]:
    """A cluster with KServe in mode Standard, and nothing served; the Deployment's controller is a stand-in too."""
    with StandardControllers.running(fleet, folder, acts=False) as controllers:
        yield controllers
