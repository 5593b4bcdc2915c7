"""Vertex AI: an endpoint named after the use case, a model a version, a deployed model a version on its machines.

Models and deployed models are not changed, so their IDs say what is in them. A version is deployed without requests
first, then one call gives each its percentage. A change is an operation that takes minutes: one that a process before
this one has begun is awaited before anything is done. A deployed model has no address of its own, so the endpoint is
asked until it answers.
"""

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass
from typing import Any

from google.cloud.aiplatform_v1 import Endpoint
from google.cloud.aiplatform_v1.types import PredictRequest
from google.protobuf.json_format import MessageToDict

from components.release.targets import TOLERANCE, BadVersionError, VersionShare, files, is_superset, on_gpu, percents
from components.release.targets.google_cloud import POLLING, Api, BadRequestError, TakenError
from nightshift import storage
from nightshift.runtime.errors import UnavailableError, UserError

LABEL = "nightshift"
PORT = 8080
ASK_SECONDS = 1.0  # after a request that failed
MISS_EXPONENT = 20  # enough requests that missing a version by chance has probability e^-20


@dataclass(frozen=True)
class VertexSettings:
    """What a version runs on.

    Attributes:
        project: of Google Cloud.
        region: such as us-central1.
        image: of `containers/serving`, in a registry that Vertex AI can reach; of `serving-gpu` for a GPU.
        account: e-mail of the service account that the container acts under.
        machine: its type.
        accelerator: its GPU, such as NVIDIA_L4, one a replica; empty without.
        min_replicas: of a version, at least.
        max_replicas: and at most.
        artifacts: where the registry's server keeps its files, such as gs://bucket/mlflow; empty without a server.
    """

    project: str
    region: str
    image: str
    account: str
    machine: str = "n1-standard-2"
    accelerator: str = ""
    min_replicas: int = 1
    max_replicas: int = 1
    artifacts: str = ""


@dataclass(frozen=True)
class VertexClients:
    """How Vertex AI is reached.

    Attributes:
        endpoints: `aiplatform_v1.EndpointServiceClient`.
        models: `aiplatform_v1.ModelServiceClient`.
        predictions: `aiplatform_v1.PredictionServiceClient`.
        polling: how often a change is looked at, and how long.
    """

    endpoints: Any
    models: Any
    predictions: Any
    polling: Any = POLLING


class Vertex:
    """The endpoint of a use case."""

    splits, tolerance = True, TOLERANCE

    def __init__(
        self, name: str, settings: VertexSettings, clients: VertexClients, pause: Callable[[float], None] = time.sleep
    ) -> None:
        """Makes no calls.

        Args:
            name: the use case.
            settings: what its versions run on.
            clients: of Vertex AI.
            pause: called with the seconds after a request that failed.
        """
        self._name, self._settings, self._clients, self._pause = name, settings, clients, pause
        self._api = Api("Vertex AI", clients.polling)
        self._parent = f"projects/{settings.project}/locations/{settings.region}"
        self._endpoint = f"{self._parent}/endpoints/{name}"

    def apply(self, split: Sequence[VersionShare]) -> None:
        """Deploy what is missing, then give each its percentage; see `ReleaseTarget`."""
        percentages = dict(zip(map(self._deployment, split), percents(split, "Vertex AI"), strict=True))
        endpoint = self._await_settled() or self._create_endpoint()
        missing = [share for share in split if self._deployment(share) not in _deployed_models(endpoint)]
        for share in missing:
            self._upload(share)
            self._deploy(share)
        self._divide(self._await_settled() if missing else endpoint, percentages)

    def serving(self) -> dict[int, float]:
        """Return the percentages of the endpoint; see `ReleaseTarget`."""
        endpoint = self._check_ownership(self._api.find(self._clients.endpoints.get_endpoint, self._endpoint))
        deployed = _deployed_models(endpoint)
        return {self._version(deployed[key]): percent / 100 for key, percent in _percentages(endpoint).items()}

    def ask(self, share: VersionShare) -> Any:
        """Ask the endpoint until a version answers; see `ReleaseTarget`."""
        body = {"endpoint": self._endpoint, "instances": share.request["instances"]}
        request, failure = PredictRequest.from_json(json.dumps(body)), ""
        attempts = math.ceil(MISS_EXPONENT / share.traffic)
        for _ in range(attempts):
            try:
                answer = self._api.call(self._clients.predictions.predict, request)
            except (BadRequestError, UnavailableError) as error:  # it names no version, and another may be next
                failure = f", which said: {error}"
                self._pause(ASK_SECONDS)
                continue
            if answer.deployed_model_id == self._deployment(share):
                return _plain(answer)
        raise BadVersionError(
            f"version {share.version.version} has not answered any of {attempts} requests to endpoint "
            f"{self._name!r}{failure}; look at its log"
        )

    def measure(self, *_: object) -> None:
        """Not available on this platform; see `ReleaseTarget`."""

    def clean(self, split: Sequence[VersionShare]) -> None:
        """Undeploy and delete what is ours and not needed; see `ReleaseTarget`."""
        endpoint = self._await_settled()
        self._undeploy(endpoint, {self._deployment(share) for share in split})
        if endpoint and not split:
            self._api.change(self._clients.endpoints.delete_endpoint, {"name": self._endpoint})
        needed = {self._model(share) for share in split}
        for model in self._models():
            if model not in needed:
                self._delete(model)

    def _await_settled(self) -> Endpoint | None:
        """Return the endpoint once nothing is changing it, None when there is none."""
        return self._check_ownership(self._await_unchanged(self._clients.endpoints.get_endpoint, self._endpoint))

    def _check_ownership(self, endpoint: Endpoint | None) -> Endpoint | None:
        """Return an endpoint.

        Raises:
            UserError: when it is not ours, or somebody else's model is deployed there.
        """
        if endpoint and endpoint.labels.get(LABEL) != self._name:
            raise UserError(
                f"endpoint {self._name!r} exists and has no label {LABEL}={self._name}; delete it or give it this "
                "label, or give the use case another name"
            )
        for key, model in _deployed_models(endpoint).items():
            if not self._version(model):
                raise UserError(f"endpoint {self._name!r} has model {model!r} deployed as {key}; undeploy it")
        return endpoint

    def _create_endpoint(self) -> Endpoint | None:
        content = {"display_name": self._name, "labels": self._labels}
        request = {"parent": self._parent, "endpoint": content, "endpoint_id": self._name}
        endpoints = self._clients.endpoints
        return self._check_ownership(
            self._create(endpoints.create_endpoint, request, endpoints.get_endpoint, self._endpoint)
        )

    def _upload(self, share: VersionShare) -> None:
        """Have a model of a version, unless it is there already.

        Raises:
            UserError: when something else bears its name.
        """
        content, models, name = self._content(share), self._clients.models, self._path(self._model(share))
        request = {"parent": self._parent, "model": content, "model_id": self._model(share)}
        model = self._await_unchanged(models.get_model, name) or self._create(
            models.upload_model, request, models.get_model, name
        )
        if not is_superset(_plain(model), _plain(type(model)(content))):
            raise UserError(f"model {self._model(share)!r} exists with other content; delete it and run it again")

    def _content(self, share: VersionShare) -> dict[str, Any]:
        container = {
            "image_uri": self._settings.image,
            "command": ["python", "-m", "nightshift.serving"],
            "args": ["--name", self._name, *on_gpu(self._settings.accelerator)],
            "ports": [{"container_port": PORT}],
            "predict_route": "/score",
            "health_route": "/healthz",
        }
        return {
            "display_name": self._model(share),
            "artifact_uri": self._files(share),
            "container_spec": container,
            "labels": self._labels,
        }

    def _deploy(self, share: VersionShare) -> None:
        """Start a version's containers; it gets no requests yet."""
        machine: dict[str, str | int] = {"machine_type": self._settings.machine}
        if self._settings.accelerator:
            machine |= {"accelerator_type": self._settings.accelerator, "accelerator_count": 1}
        deployed = {
            "id": self._deployment(share),
            "model": self._path(self._model(share)),
            "display_name": self._model(share),
            "service_account": self._settings.account,
            "dedicated_resources": {
                "machine_spec": machine,
                "min_replica_count": self._settings.min_replicas,
                "max_replica_count": self._settings.max_replicas,
            },
        }
        self._api.change(self._clients.endpoints.deploy_model, {"endpoint": self._endpoint, "deployed_model": deployed})

    def _divide(self, endpoint: Endpoint | None, percentages: dict[str, int]) -> None:
        if _percentages(endpoint) == percentages:
            return
        assert endpoint, "there is an endpoint with what is deployed"
        # with its etag it is refused when somebody else has changed the endpoint meanwhile
        wanted = {"name": self._endpoint, "traffic_split": percentages, "etag": endpoint.etag}
        request = {"endpoint": wanted, "update_mask": {"paths": ["traffic_split"]}}
        self._api.call(self._clients.endpoints.update_endpoint, request)

    def _undeploy(self, endpoint: Endpoint | None, needed: set[str]) -> None:
        unneeded = [key for key in _deployed_models(endpoint) if key not in needed]
        if unneeded and not needed and len(_percentages(endpoint)) > 1:
            self._divide(endpoint, {unneeded[-1]: 100})  # only the last one may be undeployed while it gets requests
        for key in unneeded:
            request = {"endpoint": self._endpoint, "deployed_model_id": key}
            self._api.change(self._clients.endpoints.undeploy_model, request)

    def _delete(self, model: str) -> None:
        if self._await_unchanged(self._clients.models.get_model, self._path(model)):
            self._api.change(self._clients.models.delete_model, {"name": self._path(model)})

    def _models(self) -> list[str]:
        """Return the IDs of our models."""
        request = {"parent": self._parent, "filter": f"labels.{LABEL}={self._name}"}
        return [_id(model.name) for model in self._api.list_all(self._clients.models.list_models, request)]

    def _await_unchanged(self, get: Callable[..., Any], name: str) -> Any:
        """Return what bears a name once nothing is changing it, None when nothing does."""
        if not self._api.find(get, name):
            return None
        self._api.wait(lambda: all(operation.done for operation in self._operations(name)), f"{name} has been changing")
        return self._api.find(get, name)

    def _create(self, create: Callable[..., Any], request: dict[str, Any], get: Callable[..., Any], name: str) -> Any:
        """Create something, or wait for what a process before this one has begun to create."""
        with suppress(TakenError):
            self._api.change(create, request)
        self._api.wait(lambda: bool(self._api.find(get, name)), f"{name} has not been created")
        return self._api.find(get, name)

    def _operations(self, resource: str) -> Iterator[Any]:
        request = {"name": resource}
        while True:
            page = self._api.call(self._clients.endpoints.list_operations, request)
            yield from page.operations
            if not page.next_page_token:
                return
            request["page_token"] = page.next_page_token

    @property
    def _labels(self) -> dict[str, str]:
        return {LABEL: self._name}

    def _model(self, share: VersionShare) -> str:
        known = [share.version.sha256, self._files(share), self._settings.image, bool(self._settings.accelerator)]
        return f"{self._name}-v{share.version.version}-{storage.fingerprint(known)[:12]}"

    def _files(self, share: VersionShare) -> str:
        return files(share.version, self._settings.artifacts).rstrip("/")

    def _path(self, model: str) -> str:
        return f"{self._parent}/models/{model}"

    def _version(self, model: str) -> int:
        """Return the version of a model, 0 when it is not ours."""
        match = re.fullmatch(rf"{self._name}-v([1-9]\d*)-[0-9a-f]{{12}}", model)
        return int(match[1]) if match else 0

    def _deployment(self, share: VersionShare) -> str:
        """Return the ID of a version on its machines, which may have ten digits."""
        return str(int(storage.fingerprint([self._model(share), *astuple(self._settings)])[:12], 16) % 10**10)


def _id(name: str) -> str:
    """Return the last part of a resource's name, whose project may be a number; a model's without its version."""
    return name.rpartition("/")[2].partition("@")[0]


def _plain(message: Any) -> Any:
    """Return what is set in a message, as JSON has it."""
    return MessageToDict(type(message).pb(message))


def _deployed_models(endpoint: Endpoint | None) -> dict[str, str]:
    """Return the IDs of what is deployed, and of which models."""
    return {deployed.id: _id(deployed.model) for deployed in endpoint.deployed_models} if endpoint else {}


def _percentages(endpoint: Endpoint | None) -> dict[str, int]:
    return {key: percent for key, percent in endpoint.traffic_split.items() if percent} if endpoint else {}
