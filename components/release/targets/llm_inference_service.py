"""KServe's LLMInferenceService: one object a version, which share a use case's requests by their weights.

All of them are of one routing group, and KServe writes each one's weight into the group's HTTPRoute, whose backends are
their InferencePools. A new version comes in with weight 0 and is asked first, by the path that is its own. Read off
KServe 0.20.

A version is asked to complete a text and to repeat it: from the logarithms of the probabilities of its tokens follow
the bits per byte that the version's own files score.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from components.release.targets import (
    GPU,
    NoAnswerError,
    VersionShare,
    ask_until_valid,
    check,
    files,
    is_superset,
    parse_answer,
    vllm_metrics,
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
    notes,
)
from components.release.targets.vllm_metrics import Query
from components.release.verdicts import RequestFigures
from nightshift.runtime.errors import UnavailableError, UserError

SERVICES = {"group": GROUP, "version": "v1alpha2", "plural": "llminferenceservices"}
WEIGHTS = 10_000  # sum of the versions' weights
BITS = 0.05  # by which answers differ: vLLM computes in bfloat16


@dataclass(frozen=True)
class LLMSettings(KServeSettings):
    """Where the objects lie, what their containers run, and when KEDA adds replicas; the image is vLLM's.

    Attributes:
        gpus: of a replica, over which its layers' tensors are divided.
        prometheus: URL of the server that has vLLM's metrics; without it replicas stay at `min_replicas`, and the
            requests of a version are not measured.
        queued: requests that wait at a replica, on average, from which on KEDA adds another.
    """

    gpus: int = 1
    prometheus: str = ""
    queued: int = 8

    allowed_gpus: ClassVar[Sequence[int]] = (1, 2, 4, 8)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.min_replicas:
            raise UserError("state.serving.min_replicas is 0; an LLMInferenceService keeps at least 1 replica")


@dataclass(frozen=True)
class Connections:
    """What a target reaches others by.

    Attributes:
        api: `kubernetes.client.CustomObjectsApi`.
        ask: posts a body to a URL, with the token, and returns the answer's.
        pause: called with the seconds between two looks.
        query: of Prometheus; None where there is none.
    """

    api: Any
    ask: Callable[[str, bytes], bytes]
    pause: Callable[[float], None]
    query: Query | None = field(default=None)


class LLMInferenceServices:
    """The versions of a use case; see `ReleaseTarget`."""

    splits, tolerance = True, BITS

    def __init__(self, name: str, settings: LLMSettings, connections: Connections) -> None:
        """Makes no calls.

        Args:
            name: the use case.
            settings: where the objects lie and what their containers run.
            connections: to Kubernetes, to the versions, and to Prometheus.
        """
        self._name, self._settings, self._connections = name, settings, connections

    def apply(self, split: Sequence[VersionShare]) -> None:
        """Bring each version there, then weigh them, the newest first; see `ReleaseTarget`."""
        weights = {share.version.version: round(share.traffic * WEIGHTS) for share in split}
        for share in split:
            service = self._member(share.version.version).bring(share)
            if not _weight(service):
                check(share, self.ask(share), BITS)
        for number in [*reversed(weights), *(self._members().keys() - weights)]:
            self._member(number).weigh(weights.get(number, 0))
        self._await_weights(weights)

    def serving(self) -> dict[int, float]:
        """Return what the objects' status says of the group; see `ReleaseTarget`."""
        members = self._members()
        names = {service["metadata"]["name"]: number for number, service in members.items()}
        weights = next(map(_group_weights, members.values()), {})
        total = sum(weights.values())
        return {names[name]: weight / total for name, weight in weights.items() if weight and name in names}

    def ask(self, share: VersionShare) -> Any:
        """Ask a version by the path that is its own; see `ReleaseTarget`."""
        return self._member(share.version.version).ask(share)

    def measure(self, share: VersionShare, since: datetime, until: datetime) -> RequestFigures | None:
        """Return what vLLM's metrics say, where Prometheus has them; see `ReleaseTarget`."""
        if self._connections.query is None:
            return None
        return vllm_metrics.measure(self._connections.query, self._member(share.version.version).pods, since, until)

    def clean(self, split: Sequence[VersionShare]) -> None:
        """Delete the versions that are not wanted; see `ReleaseTarget`."""
        for number in self._members().keys() - {share.version.version for share in split}:
            self._member(number).delete()

    def _member(self, number: int) -> "Member":
        return Member(self._name, number, self._settings, self._connections)

    def _members(self) -> dict[int, Object]:
        """Return the objects of the use case by version.

        Raises:
            UserError: when another one is of its group.
        """
        members = self._member(0).find_group()
        for service in members:
            if notes(service).get(OWNER) != self._name:
                raise UserError(
                    f"LLMInferenceService {service['metadata']['name']!r} is of the routing group {self._name!r} and "
                    f"has no annotation {OWNER}={self._name}; delete it, or give the use case another name"
                )
        return {int(notes(service)[NEWEST].partition(":")[0]): service for service in members}

    def _await_weights(self, weights: Mapping[int, int]) -> None:
        """Return once KServe says of every version that it has its weight.

        Raises:
            UnavailableError: when it does not say so.
        """
        for _ in range(POLLS):
            services = self._members()
            wanted = {services[number]["metadata"]["name"]: weight for number, weight in weights.items()}
            if all(_nonzero(_group_weights(service)) == wanted for service in services.values()):
                return
            self._connections.pause(POLL_SECONDS)
        raise UnavailableError(f"the routing group {self._name!r} does not get the weights {weights}; run it again")


class Member(KServe):
    """The LLMInferenceService of a version."""

    kind, resource, modes = "LLMInferenceService", SERVICES, ("",)
    _settings: LLMSettings

    def __init__(self, use_case: str, number: int, settings: LLMSettings, connections: Connections) -> None:
        """Makes no calls; see `LLMInferenceServices`."""
        super().__init__(f"{use_case}-{number}", settings, connections.api, connections.ask, connections.pause)
        self._use_case = use_case

    def find_group(self) -> list[Object]:
        """Return the objects of the routing group, whoever made them."""
        services: list[Object] = self._call("list", self.resource)["items"]
        return [service for service in services if _route(service).get("group") == self._use_case]

    def bring(self, share: VersionShare) -> Object:
        """Return the object once its pods are ready, without requests where it is new; see `ReleaseTarget.apply`."""
        service = self._find()
        if service is None:
            self._create(self._whole(share, 0))
        elif not self._runs(service, share):
            self._replace(service, self._whole(share, _weight(service)))
        return self._await(share)

    def weigh(self, weight: int) -> None:
        """Change the weight of the object, whether its pods are ready or not; nothing is called where it has it."""
        service = self._find()
        if service and _weight(service) != weight:
            service["spec"]["router"]["route"]["weight"] = weight
            self._replace(service, service)

    def ask(self, share: VersionShare) -> Any:
        """Return the bits per byte of a text as a score; see `ReleaseTarget`."""
        return self._ask_url(self._await(share)["status"]["url"], share)

    def delete(self) -> None:
        """Delete the object, if it is there, and wait until it is gone."""
        if self._find():
            self._delete()

    @property
    def pods(self) -> str:
        """Regular expression of the names of its pods."""
        return f"{self._name}-kserve-[0-9a-z]+-[0-9a-z]+"

    def _ask_url(self, url: str, share: VersionShare) -> Any:
        (text,), url = share.request["instances"][0].values(), f"{url}/v1/completions"
        body = {"model": self._use_case, "prompt": text, "max_tokens": 1, "echo": True, "logprobs": 0}

        def ask() -> Any:
            return parse_completion(url, self._ask(url, json.dumps(body).encode()), text)

        return ask_until_valid(share, ask, self._pause, BITS)

    def _runs(self, service: Object, share: VersionShare) -> bool:
        return notes(service)[NEWEST] == key(share) and is_superset(service["spec"], self._spec(share))

    def _state(self, service: Object, _: VersionShare) -> tuple[bool, str]:
        deployment = self._find_deployment(f"{self._name}-kserve", service["metadata"]["uid"])
        seen = service.get("status", {}).get("observedGeneration") == service["metadata"]["generation"]
        return seen and is_ready(service), deployment_failure(deployment) if deployment else ""

    def _whole(self, share: VersionShare, weight: int) -> Object:
        spec = self._spec(share)
        spec["router"]["route"]["weight"] = weight
        return {
            "apiVersion": f"{GROUP}/{SERVICES['version']}",
            "kind": self.kind,
            "metadata": {
                "name": self._name,
                "namespace": self._settings.namespace,
                "annotations": {OWNER: self._use_case, NEWEST: key(share)},
            },
            "spec": spec,
        }

    def _spec(self, share: VersionShare) -> Object:
        """Return all of it but the weight."""
        settings = self._settings
        tensor = {"parallelism": {"tensor": settings.gpus}} if settings.gpus > 1 else {}
        return {
            **tensor,
            **self._scaling(),
            "model": {"uri": files(share.version, settings.artifacts), "name": self._use_case},
            "router": {"gateway": {}, "scheduler": {}, "route": {"group": self._use_case, "http": {}}},
            "template": {
                "serviceAccountName": settings.account,
                "tolerations": [TOLERATION],
                "containers": [self._engine()],
            },
        }

    def _engine(self) -> Object:
        secret = {"secretKeyRef": {"name": self._settings.secret, "key": "token"}}
        return {
            "name": "main",
            "image": self._settings.image,
            "env": [{"name": "VLLM_API_KEY", "valueFrom": secret}],
            "resources": {"limits": {GPU: str(self._settings.gpus)}},
        }

    def _scaling(self) -> Object:
        settings = self._settings
        if not settings.prometheus:
            return {"replicas": settings.min_replicas}
        trigger = {
            "serverAddress": settings.prometheus,
            "query": f'sum(vllm:num_requests_waiting{{namespace="{settings.namespace}", pod=~"{self.pods}"}})',
            "threshold": str(settings.queued),
        }
        keda = {"triggers": [{"type": "prometheus", "metadata": trigger}]}
        return {"scaling": {"minReplicas": settings.min_replicas, "maxReplicas": settings.max_replicas, "keda": keda}}


def parse_completion(url: str, body: bytes, text: str) -> Any:
    """Return the bits per byte of a text, which a completion repeats, in the form in which our own server gives them.

    Raises:
        NoAnswerError: when the completion has no log-probabilities.
    """
    try:
        (choice,) = parse_answer(url, body)["choices"]
        # the first token has no probability, and the last one is not of the text
        logs = choice["logprobs"]["token_logprobs"][1:-1]
        return {"predictions": [{"score": -math.fsum(logs) / math.log(2) / len(text.encode())}]}
    except (LookupError, TypeError, ValueError, ZeroDivisionError):
        raise NoAnswerError(f"{url} does not answer with log-probabilities but {body[:200]!r}") from None


def _route(service: Object) -> Object:
    route: Object = service["spec"].get("router", {}).get("route", {})
    return route


def _weight(service: Object) -> int:
    return int(_route(service).get("weight", 0))


def _group_weights(service: Object) -> dict[str, int]:
    """Return the weights of the members of its group, by name, as its status says."""
    group = service.get("status", {}).get("router", {}).get("group", {})
    return {member["name"]: member["weight"] for member in group.get("members", ())}


def _nonzero(weights: Mapping[str, int]) -> dict[str, int]:
    return {name: weight for name, weight in weights.items() if weight}
