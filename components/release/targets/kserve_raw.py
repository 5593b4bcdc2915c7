"""KServe in mode Standard: an InferenceService named after the use case, whose containers are our model server.

Each version is a predictor: the stable one, or an entry of `spec.canary`, which starts without requests and is asked
first, by the Service that is its own. KServe writes the entries' percentages into the weights of an HTTPRoute. It
deletes a Deployment before it writes the route, so a version has all requests before it becomes the stable predictor,
and none before it is removed. Without an HTTPRoute nothing is shared: a version that has answered as a canary replaces
the pods of the stable predictor, whose Service keeps its name.
KServe copies a predictor's annotations to its pods, so a change has been taken in once they are there. Its own status
does not say that: it repeats what the Deployment said before. Each change has an annotation of its own, since a
Deployment that goes back to pods it has had keeps saying that it has failed. Read off KServe after 0.20.
"""

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from components.release.targets import (
    GPU,
    TOLERANCE,
    VersionShare,
    ask_until_valid,
    check,
    files,
    is_superset,
    on_gpu,
    parse_answer,
    percents,
)
from components.release.targets.kserve import (
    GROUP,
    NEWEST,
    OWNER,
    POLL_SECONDS,
    POLLS,
    TOLERATION,
    KServe,
    KServeSettings,
    Object,
    deployment_failure,
    is_ready,
    key,
)
from nightshift.cluster import MissingKindError
from nightshift.contracts.loadtest import UTILIZATION
from nightshift.runtime.errors import UnavailableError, UserError

SERVICES = {"group": GROUP, "version": "v1beta1", "plural": "inferenceservices"}
ROUTES = {"group": "gateway.networking.k8s.io", "version": "v1", "plural": "httproutes"}
REPLACES = "nightshift/replaces"
PORT, TOKEN = 8321, "/etc/nightshift/token"
STORAGE_URI, MODEL = "STORAGE_URI", "/mnt/models"  # KServe copies the files there before the container starts
RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
PRIORITY = "nightshift-serving"
# no more requests come once endpoints are gone; then the server has its own time to answer what it has in hand
DRAIN_SECONDS, GRACE_SECONDS = 10, 30
START_SECONDS, PROBE_SECONDS = 300, 5
LONGEST = 58  # of a Deployment's name: KServe makes a label of 63 characters of it


@dataclass(frozen=True)
class RawDeploymentSettings(KServeSettings):
    """Where the object lies, and what its containers run.

    Attributes:
        min_replicas: at least, and always of a version that is not the stable predictor yet: KServe scales none of
            those. With one, a node that goes away takes the endpoint with it for a while.
    """

    min_replicas: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_replicas < 1:
            raise UserError(f"state.serving.min_replicas is {self.min_replicas}; a Deployment keeps at least 1 replica")


class KServeRawDeployment(KServe):
    """An InferenceService with a predictor a version."""

    kind, resource = "InferenceService", SERVICES
    splits, tolerance = True, TOLERANCE
    modes = ("Standard", "RawDeployment")
    _settings: RawDeploymentSettings

    def apply(self, split: Sequence[VersionShare]) -> None:
        """Bring each version there, ask those without requests, then change the shares; see `ReleaseTarget`."""
        shares = {share.version.version: part for share, part in zip(split, percents(split, "KServe"), strict=True)}
        if self._find() is None:
            self._begin(split[0])
        self._edit(partial(self._add, split))
        for share in split:
            self._await(share)
        serving = self.serving()
        for share in split:
            if share.version.version not in serving:
                check(share, self.ask(share))
        if self._find_route() is None:
            self._replace_stable(split)
        else:
            self._shift(shares)

    def serving(self) -> dict[int, float]:
        """Return what KServe's HTTPRoute says; see `ReleaseTarget`."""
        service = self._find()
        if service is None:
            return {}
        weights, predictors = self._weights(service), _predictors(service)
        numbers = {self._deployment(predictor): number for number, predictor in predictors.items()}
        total = sum(weights.values())
        return {numbers[name]: weight / total for name, weight in weights.items() if weight and name in numbers}

    def ask(self, share: VersionShare) -> Any:
        """Ask the service of a version's pods; replaced ones may answer it for some seconds; see `ReleaseTarget`."""
        predictor = _predictors(self._await(share))[share.version.version]
        url = f"http://{self._deployment(predictor)}.{self._settings.namespace}.svc/score"
        body = json.dumps(share.request).encode()
        return ask_until_valid(share, lambda: parse_answer(url, self._ask(url, body)), self._pause)

    def measure(self, *_: object) -> None:
        """Not available: KServe keeps no figures of a version's requests; see `ReleaseTarget`."""

    def clean(self, split: Sequence[VersionShare]) -> None:
        """Make the champion the stable predictor, and delete versions that are not wanted; see `ReleaseTarget`."""
        service, wanted = self._find(), sorted(share.version.version for share in split)
        if service and not wanted:
            self._delete()
        elif service and sorted(map(_number, _all_predictors(service))) != wanted:
            self._pause(DRAIN_SECONDS)  # a gateway follows its route a moment later
            self._edit(partial(self._settle, split))

    def _begin(self, share: VersionShare) -> None:
        """Create the object with a stable predictor."""
        self._find_deployment(self._deployment({}), "")  # somebody else's would be changed
        annotations = {OWNER: self._name, f"{GROUP}/deploymentMode": self.modes[0], f"{GROUP}/autoscalerClass": "hpa"}
        self._create(
            {
                "apiVersion": f"{GROUP}/{SERVICES['version']}",
                "kind": self.kind,
                "metadata": {"name": self._name, "namespace": self._settings.namespace, "annotations": annotations},
                "spec": {"predictor": self._predictor(share, "") | self._scaling()},
            }
        )
        self._await(share)

    def _add(self, split: Sequence[VersionShare], service: Object) -> None:
        """Add the versions that are not there, and give all the settings of now, in one change."""
        spec = service["spec"]
        spec["predictor"] |= self._scaling()
        for predictor in _all_predictors(service):
            predictor["minReplicas"] = self._settings.min_replicas  # a canary may have no more than the stable one
        for share in split:
            current = _predictors(service).get(share.version.version)
            if current is None:
                spec.setdefault("canary", []).append({"predictor": self._canary(share, service), "trafficPercent": 0})
            elif not is_superset(current, self._predictor(share, _annotations(current).get(REPLACES, ""))):
                self._renew(current, share, service)

    def _renew(self, predictor: Object, share: VersionShare, service: Object) -> None:
        """Have a predictor run a version with the settings of now; it keeps its name, and how it is scaled."""
        kept = {field: predictor[field] for field in ("name", *self._scaling()) if field in predictor}
        predictor.clear()
        predictor |= kept | self._predictor(share, service["metadata"]["resourceVersion"])

    def _canary(self, share: VersionShare, service: Object) -> Object:
        predictor = {"name": f"version-{share.version.version}"}
        name = self._deployment(predictor)
        if len(name) > LONGEST:
            raise UserError(f"the name of {self._name!r} is too long for KServe: {name} has over {LONGEST} characters")
        self._find_deployment(name, service["metadata"]["uid"])  # somebody else's would be changed
        return predictor | self._predictor(share, service["metadata"]["resourceVersion"])

    def _replace_stable(self, split: Sequence[VersionShare]) -> None:
        """Have a version's pods replace those of the stable predictor, one after the other."""
        if len(split) > 1:
            raise UserError(
                f"release.shares holds {split[-1].traffic:g}, and KServe makes no HTTPRoute {self._name!r} that shares "
                "requests; set release.shares to [], or give KServe a Gateway (docs/guides/integrations/kserve.md)"
            )

        def replace(service: Object) -> None:
            if _number(service["spec"]["predictor"]) != split[0].version.version:
                self._renew(service["spec"]["predictor"], split[0], service)

        self._edit(replace)
        self._await(split[0])

    def _shift(self, shares: dict[int, int]) -> None:
        """Give the canaries their percentages, and return once the route has them."""

        def divide(service: Object) -> None:
            for canary in _canaries(service):
                canary["trafficPercent"] = shares.get(_number(canary["predictor"]), 0)

        self._edit(divide)
        wanted = {number: percent / 100 for number, percent in shares.items()}
        for _ in range(POLLS):
            if self.serving() == wanted:
                return
            self._pause(POLL_SECONDS)
        raise UnavailableError(f"the HTTPRoute {self._name!r} does not get the shares {wanted}; run it again")

    def _settle(self, split: Sequence[VersionShare], service: Object) -> None:
        """Leave the versions that are wanted, which have their shares by now."""
        spec, wanted = service["spec"], [share.version.version for share in split]
        if _number(spec["predictor"]) not in wanted:
            spec["predictor"] = _predictors(service)[wanted[0]] | self._scaling()
        kept = set(wanted) - {_number(spec["predictor"])}
        canaries = [canary for canary in spec.pop("canary", ()) if _number(canary["predictor"]) in kept]
        if canaries:
            spec["canary"] = canaries

    def _edit(self, edit: Callable[[Object], None]) -> None:
        """Change the object; nothing is called where it is so already."""
        before = self._require()
        after = copy.deepcopy(before)
        edit(after)
        if after != before:
            self._replace(before, after)

    def _weights(self, service: Object) -> dict[str, int]:
        """Return the weights of the Services that answer; without a route the stable predictor's has it all."""
        route = self._find_route()
        if route is None:
            return {self._deployment(service["spec"]["predictor"]): 1}
        return {backend["name"]: int(backend.get("weight", 1)) for backend in route["spec"]["rules"][0]["backendRefs"]}

    def _find_route(self) -> Object | None:
        try:
            return self._get(ROUTES, self._name)
        except MissingKindError:  # no Gateway API in this cluster
            return None

    def _state(self, service: Object, share: VersionShare) -> tuple[bool, str]:
        predictor = _predictors(service).get(share.version.version)
        if predictor is None:
            return False, ""
        deployment = self._find_deployment(self._deployment(predictor), service["metadata"]["uid"])
        if deployment is None or not _has_taken(deployment, predictor):
            return False, ""
        is_stable = predictor is service["spec"]["predictor"]
        # KServe takes the canaries' replicas from the stable one's, down to one
        replicas = 1 if is_stable and _canaries(service) else self._settings.min_replicas
        is_up = _available(deployment) >= replicas and (is_ready(service) or not is_stable)
        return is_up, deployment_failure(deployment)

    def _deployment(self, predictor: Object) -> str:
        """Return the name of a predictor's Deployment and Service."""
        return "-".join(filter(None, (self._name, predictor.get("name"), "predictor")))

    def _scaling(self) -> Object:
        """Return what only a stable predictor may have."""
        return {
            "maxReplicas": self._settings.max_replicas,
            "scaleMetric": "cpu",
            "scaleTarget": round(100 * UTILIZATION),
            "deploymentStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        }

    def _predictor(self, share: VersionShare, replaces: str) -> Object:
        gpu = {"tolerations": [TOLERATION]} if self._settings.gpus else {}
        return gpu | {
            "annotations": {NEWEST: key(share), REPLACES: replaces},
            "minReplicas": self._settings.min_replicas,
            "priorityClassName": PRIORITY,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "serviceAccountName": self._settings.account,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "token", "secret": {"secretName": self._settings.secret}}],
            "containers": [self._container(share)],
        }

    def _container(self, share: VersionShare) -> Object:
        live = {"httpGet": {"path": "/v2/health/live", "port": PORT}, "periodSeconds": PROBE_SECONDS}
        return {
            "name": "kserve-container",
            "image": self._settings.image,
            "command": ["python", "-m", "nightshift.serving"],
            "args": self._args(),
            "env": [{"name": STORAGE_URI, "value": files(share.version, self._settings.artifacts)}],
            "ports": [{"containerPort": PORT, "protocol": "TCP"}],
            "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": PORT}},
            "startupProbe": live | {"failureThreshold": START_SECONDS // PROBE_SECONDS},
            "livenessProbe": live,
            "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}},
            "resources": _resources(self._settings.gpus),
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "token", "mountPath": TOKEN.rpartition("/")[0], "readOnly": True}],
        }

    def _args(self) -> list[str]:
        flags = {"model": MODEL, "name": self._name, "host": "0.0.0.0", "port": PORT}  # noqa: S104
        words = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
        return [*words, "--token-file", TOKEN, *on_gpu(self._settings.gpus)]


def _resources(gpus: int) -> Object:
    limits = RESOURCES["limits"] | ({GPU: str(gpus)} if gpus else {})
    return RESOURCES | {"limits": limits}


def _canaries(service: Object) -> list[Object]:
    canaries: list[Object] = service["spec"].get("canary", [])
    return canaries


def _all_predictors(service: Object) -> list[Object]:
    return [*(canary["predictor"] for canary in _canaries(service)), service["spec"]["predictor"]]


def _predictors(service: Object) -> dict[int, Object]:
    """Return the predictors by version: the stable one rather than a canary of the same version."""
    return {_number(predictor): predictor for predictor in _all_predictors(service)}


def _number(predictor: Object) -> int:
    """Return the version of a predictor; 0 of one that nobody here has written."""
    return int(_annotations(predictor).get(NEWEST, "0").partition(":")[0])


def _annotations(predictor: Object) -> dict[str, str]:
    annotations: dict[str, str] = predictor.get("annotations", {})
    return annotations


def _has_taken(deployment: Object, predictor: Object) -> bool:
    """Return whether a Deployment says something of what a predictor is to be now."""
    annotations = deployment["spec"]["template"]["metadata"].get("annotations", {})
    seen = deployment.get("status", {}).get("observedGeneration")
    same = all(annotations.get(name) == value for name, value in _annotations(predictor).items())
    return same and bool(seen == deployment["metadata"]["generation"])


def _available(deployment: Object) -> int:
    """Return how many pods answer; 0 while there are others than those that are wanted."""
    status = deployment.get("status", {})
    is_alone = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    return int(status.get("availableReplicas", 0)) if is_alone else 0
