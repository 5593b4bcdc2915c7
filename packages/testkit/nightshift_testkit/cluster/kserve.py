"""KServe after 0.20 in mode Standard, as far as containers that are predictors go.

Read off its sources: the webhook's rules about canaries (`validateCanarySpecs`), the Deployments of predictors
(`reconcileCanaryDeployments`), the weights of an HTTPRoute (`applyCanaryWeights`), and a status that repeats what the
stable predictor's Deployment said before a change. Not here: models by format, Services, autoscalers, and the container
that copies a model's files.
"""

import copy
from collections.abc import Iterator

from nightshift_testkit.cluster.cluster import SimulatedCluster
from nightshift_testkit.cluster.kinds import DEPLOYMENT, Json, ResourceKind
from nightshift_testkit.cluster.problems import StatusError

GROUP, STANDARD = "serving.kserve.io", "Standard"
MODE, SERVICE = f"{GROUP}/deploymentMode", f"{GROUP}/inferenceservice"
ROUTE = ResourceKind(
    "gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes",
    schema={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
)  # fmt: skip
CONTAINER, STORAGE_URI = "kserve-container", "STORAGE_URI"
SCALING = ("maxReplicas", "scaleTarget", "scaleMetric", "autoScaling")  # what a canary must not set
# what is KServe's in a predictor, and no pod's
EXTENSION = ("name", "annotations", "labels", "minReplicas", "deploymentStrategy", "model", *SCALING)
STRATEGY = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}


class KServeController:
    """KServe's webhook and controller on a cluster; `sync` is one step of the controller."""

    def __init__(self, cluster: SimulatedCluster, has_gateway: bool = True) -> None:
        """Adds the webhook, and with a gateway the kind HTTPRoute."""
        self._store, self._operations = cluster.api.store, cluster.api.operations
        self._kind = next(kind for kind in cluster.api.kinds if kind.plural == "inferenceservices")
        self._has_gateway = has_gateway
        self._operations.webhooks.append(refuse_canaries)
        if has_gateway:
            cluster.api.kinds = (*cluster.api.kinds, ROUTE)

    def sync(self) -> None:
        """Reconcile every InferenceService once."""
        for value in self._store.copies(self._kind):
            meta = value["metadata"]
            status = self._reconcile(value)
            self._operations.update(self._kind, meta["name"], value | {"status": status}, meta["namespace"], "status")

    def _reconcile(self, value: Json) -> Json:
        """Bring the Deployments and the route one step further, canaries first; return the status."""
        stable = value["spec"]["predictor"]
        canaries = [self._canary(value, canary) for canary in value["spec"].get("canary", [])]
        self._delete_orphans(value)
        before = self._deploy(value, stable)
        conditions = [{"type": "Ready", "status": _readiness(before) if self._is_routed(value) else "False"}]
        if canaries:
            all_ready = all(canary["ready"] for canary in canaries)
            conditions.append({"type": "CanaryPredictorReady", "status": str(all_ready)})
        if self._has_gateway and _readiness(before) == "True":
            self._write_route(value, canaries)
        seen = before.get("status", {}).get("observedGeneration", 0)
        url = f"http://{predictor_service(value, stable)}.{value['metadata']['namespace']}.svc.cluster.local"
        status = {"deploymentMode": STANDARD, "observedGeneration": seen, "address": {"url": url}}
        return status | {"conditions": conditions} | ({"canaryStatuses": canaries} if canaries else {})

    def _canary(self, value: Json, canary: Json) -> Json:
        """Bring the Deployment of a canary one step further; return its status."""
        predictor = _merged(value["spec"]["predictor"], canary["predictor"])
        before = self._deploy(value, {name: part for name, part in predictor.items() if name != "deploymentStrategy"})
        is_ready = before.get("status", {}).get("availableReplicas", 0) > 0
        percent = canary["trafficPercent"]
        return {"name": predictor["name"], "ready": is_ready, "trafficPercent": percent}

    def _deploy(self, value: Json, predictor: Json) -> Json:
        """Create or update the Deployment of a predictor; return it as it was."""
        wanted, namespace = deployment(value, predictor), value["metadata"]["namespace"]
        name = wanted["metadata"]["name"]
        before = self._store.peek(DEPLOYMENT, name, namespace)
        if before is None:
            return self._operations.create(DEPLOYMENT, wanted, namespace)
        spec = wanted["spec"] | {name: before["spec"][name] for name in ("replicas",) if name in before["spec"]}
        if spec != before["spec"]:
            self._operations.update(DEPLOYMENT, name, before | {"spec": spec}, namespace)
        return before

    def _delete_orphans(self, value: Json) -> None:
        """Delete the Deployments of predictors that are not there any more, before any route leaves them out."""
        namespace = value["metadata"]["namespace"]
        predictors = [value["spec"]["predictor"], *(canary["predictor"] for canary in value["spec"].get("canary", []))]
        kept = {predictor_service(value, predictor) for predictor in predictors}
        for candidate in self._store.copies(DEPLOYMENT, namespace):
            meta = candidate["metadata"]
            if meta.get("labels", {}).get(SERVICE) == value["metadata"]["name"] and meta["name"] not in kept:
                self._operations.delete(DEPLOYMENT, meta["name"], namespace)

    def _is_routed(self, value: Json) -> bool:
        """Return whether the route was there when the step began; without a gateway none is wanted."""
        meta = value["metadata"]
        return not self._has_gateway or self._store.peek(ROUTE, meta["name"], meta["namespace"]) is not None

    def _write_route(self, value: Json, canaries: list[Json]) -> None:
        meta, ready = value["metadata"], [canary for canary in canaries if canary["ready"]]
        backends = [{"name": predictor_service(value, value["spec"]["predictor"]), "port": 80}]
        if canaries:
            backends[0]["weight"] = 100 - sum(canary["trafficPercent"] for canary in ready)
        backends += [
            {"name": predictor_service(value, canary), "port": 80, "weight": canary["trafficPercent"]}
            for canary in ready
        ]
        route = {"metadata": {"name": meta["name"], "ownerReferences": [_owner(value)]}}
        route["spec"] = {"rules": [{"backendRefs": backends}]}
        if self._is_routed(value):
            self._operations.update(ROUTE, meta["name"], route, meta["namespace"])
        else:
            self._operations.create(ROUTE, route, meta["namespace"])


def refuse_canaries(kind: ResourceKind, value: Json) -> None:
    """Check the canaries of an InferenceService as KServe's webhook does.

    Raises:
        StatusError: 403, with the first rule that they break.
    """
    if kind.plural == "inferenceservices" and value["spec"].get("canary"):
        for why in _broken_rules(value):
            webhook = "inferenceservice.kserve-webhook-server.validator"
            raise StatusError(403, f'admission webhook "{webhook}" denied the request: {why}')


def _broken_rules(value: Json) -> Iterator[str]:
    stable, canaries = value["spec"]["predictor"], value["spec"]["canary"]
    if value["metadata"].get("annotations", {}).get(MODE) != STANDARD:
        yield f"canary is only supported in {STANDARD} deployment mode"
    if "model" not in stable and not _has_files(stable):
        yield "canary requires a stable predictor with a model (multi-model serving is not supported with canary)"
    names = [canary["predictor"].get("name", "") for canary in canaries]
    for at, (name, canary) in enumerate(zip(names, canaries, strict=True)):
        if not name:
            yield f"canary[{at}] predictor.name is required"
        if name in names[:at]:
            yield f'canary predictor.name "{name}" is duplicated'
        if name == stable.get("name", ""):
            yield f'canary predictor.name "{name}" conflicts with stable predictor name'
        yield from _broken_fields(name, canary["predictor"], stable.get("minReplicas", 1))
    total = sum(canary["trafficPercent"] for canary in canaries)
    if total > 100:
        yield f"sum of canary trafficPercent values ({total}) must be <= 100"


def _broken_fields(name: str, predictor: Json, most: int) -> Iterator[str]:
    if "workerSpec" in predictor:
        yield f'canary "{name}" must not set workerSpec (multi-node is not yet supported for canary)'
    for field in SCALING:
        if predictor.get(field):
            yield f'canary "{name}" must not set {field} (canary uses fixed replicas)'
    least = predictor.get("minReplicas", 0)
    if least > most:
        yield f'canary "{name}" minReplicas ({least}) must not exceed stable predictor minReplicas ({most})'


def _has_files(predictor: Json) -> bool:
    names = (
        variable["name"]
        for container in predictor.get("containers", [])
        if container["name"] == CONTAINER
        for variable in container.get("env", [])
    )
    return STORAGE_URI in names


def predictor_service(value: Json, predictor: Json) -> str:
    """Return the name of a predictor's Deployment and Service."""
    return "-".join(filter(None, (value["metadata"]["name"], predictor.get("name"), "predictor")))


def deployment(value: Json, predictor: Json) -> Json:
    """Return the Deployment of a predictor."""
    name, meta = predictor_service(value, predictor), value["metadata"]
    labels = {SERVICE: meta["name"], "component": "predictor", "app": f"isvc.{name}"}
    annotations = meta["annotations"] | predictor.get("annotations", {})
    spec = {field: part for field, part in copy.deepcopy(predictor).items() if field not in EXTENSION}
    spec["containers"][0].setdefault("env", []).append({"name": "INFERENCE_SERVICE_NAME", "value": meta["name"]})
    return {
        "apiVersion": DEPLOYMENT.api_version,
        "kind": DEPLOYMENT.name,
        "metadata": {"name": name, "labels": labels, "annotations": annotations, "ownerReferences": [_owner(value)]},
        "spec": {
            "selector": {"matchLabels": {"app": labels["app"]}},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec},
            "strategy": predictor.get("deploymentStrategy", STRATEGY),
        },
    }


def _owner(value: Json) -> Json:
    meta = value["metadata"]
    return {"apiVersion": value["apiVersion"], "kind": value["kind"], "name": meta["name"], "uid": meta["uid"]}


def _merged(stable: Json, canary: Json) -> Json:
    """Return a canary's predictor: what it does not set is the stable one's."""
    merged = dict(stable)
    for name, part in canary.items():
        both = isinstance(part, dict) and isinstance(stable.get(name), dict)
        merged[name] = _merged(stable[name], part) if both else part
    return merged


def _readiness(deployment: Json) -> str:
    """Return what KServe says of a predictor by the conditions of its Deployment."""
    conditions = {condition["type"]: condition for condition in deployment.get("status", {}).get("conditions", [])}
    if conditions.get("Progressing", {}).get("status") == "False":
        return "False"
    is_complete = conditions.get("Progressing", {}).get("reason") == "NewReplicaSetAvailable"
    return "True" if is_complete or conditions.get("Available", {}).get("status") == "True" else "Unknown"
