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
from dataclasses import astuple, dataclass
from typing import Any

from components.release.targets import BadVersionError, Part, files, holds, on_gpu, percents, signin
from nightshift import storage
from nightshift.errors import UnavailableError, UserError, may_pass

LABEL = "nightshift"
PORT = 8080
POLL_SECONDS, POLLS, TIMEOUT_SECONDS = 10.0, 360, 60.0
ASK_SECONDS = 1.0  # after a request that failed
SURE = 20  # a share is asked as often as leaves it out by chance once in e^20 times


@dataclass(frozen=True)
class Place:
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
class Clients:
    """`EndpointServiceClient`, `ModelServiceClient` and `PredictionServiceClient` of `aiplatform_v1`."""

    endpoints: Any
    models: Any
    predictions: Any


class Vertex:
    """The endpoint of a use case."""

    splits = True

    def __init__(self, name: str, place: Place, clients: Clients, pause: Callable[[float], None] = time.sleep) -> None:
        """Call nothing.

        Args:
            name: the use case.
            place: what its versions run on.
            clients: of Vertex AI.
            pause: called with the seconds between two looks.
        """
        self._name, self._place, self._clients, self._pause = name, place, clients, pause
        self._parent = f"projects/{place.project}/locations/{place.region}"
        self._endpoint = f"{self._parent}/endpoints/{name}"

    def apply(self, parts: Sequence[Part]) -> None:
        """Deploy what is missing, then give each its percentage; see `Target`."""
        split = dict(zip(map(self._deployment, parts), percents(parts, "Vertex AI"), strict=True))
        found = self._standing() or self._created()
        missing = [part for part in parts if self._deployment(part) not in _deployed(found)]
        for part in missing:
            self._upload(part)
            self._deploy(part)
        self._divide(self._standing() if missing else found, split)

    def serving(self) -> dict[int, float]:
        """Return the percentages of the endpoint; see `Target`."""
        found = self._checked(_found(self._clients.endpoints.get_endpoint, self._endpoint))
        deployed = _deployed(found)
        return {self._version(deployed[key]): percent / 100 for key, percent in _split(found).items()}

    def ask(self, part: Part) -> Any:
        """Ask the endpoint until a version answers; see `Target`."""
        from google.cloud.aiplatform_v1.types import PredictRequest

        asked = {"endpoint": self._endpoint, "instances": part.request["instances"]}
        request = PredictRequest.from_json(json.dumps(asked))
        failed = ""
        for _ in range(math.ceil(SURE / part.traffic)):
            answer, why = self._predicted(request)
            if answer and answer.deployed_model_id == self._deployment(part):
                return _plain(answer)
            failed = why or failed
        raise BadVersionError(
            f"version {part.version.version} has not answered any of {math.ceil(SURE / part.traffic)} requests to "
            f"endpoint {self._name!r}{failed and f', which said: {failed}'}; look at its log"
        )

    def measured(self, *_: object) -> None:
        """Say nothing; see `Target`."""

    def clean(self, parts: Sequence[Part]) -> None:
        """Undeploy and delete what is ours and not needed; see `Target`."""
        found = self._standing()
        self._undeploy(found, {self._deployment(part) for part in parts})
        if found and not parts:
            self._finish(self._clients.endpoints.delete_endpoint, {"name": self._endpoint})
        needed = {self._model(part) for part in parts}
        for name in self._ours():
            if name not in needed:
                self._delete(name)

    def _predicted(self, request: Any) -> tuple[Any, str]:
        """Return what the endpoint answers, or why it does not; that names no version, and another may be next."""
        from google.api_core.exceptions import BadRequest, GoogleAPIError

        try:
            return _called(self._clients.predictions.predict, request, passing=GoogleAPIError), ""
        except GoogleAPIError as error:
            meant = _error(error)
            if not isinstance(error, BadRequest) and not isinstance(meant, UnavailableError):
                raise meant from None
            self._pause(ASK_SECONDS)
            return None, str(error)

    def _standing(self) -> Any:
        """Return the endpoint once nothing is changing it, None when there is none."""
        return self._checked(self._settled(self._clients.endpoints.get_endpoint, self._endpoint))

    def _checked(self, found: Any) -> Any:
        """Return an endpoint.

        Raises:
            UserError: when it is not ours, or somebody else's model is deployed there.
        """
        if found and found.labels.get(LABEL) != self._name:
            raise UserError(
                f"endpoint {self._name!r} exists and has no label {LABEL}={self._name}; delete it or give it this "
                "label, or give the use case another name"
            )
        for key, model in _deployed(found).items():
            if not self._version(model):
                raise UserError(f"endpoint {self._name!r} has model {model!r} deployed as {key}; undeploy it")
        return found

    def _created(self) -> Any:
        content = {"display_name": self._name, "labels": self._labels}
        request = {"parent": self._parent, "endpoint": content, "endpoint_id": self._name}
        endpoints = self._clients.endpoints
        return self._checked(self._made(endpoints.create_endpoint, request, endpoints.get_endpoint, self._endpoint))

    def _upload(self, part: Part) -> None:
        """Have a model of a version, unless it is there already.

        Raises:
            UserError: when something else bears its name.
        """
        content, models, name = self._content(part), self._clients.models, self._path(self._model(part))
        request = {"parent": self._parent, "model": content, "model_id": self._model(part)}
        found = self._settled(models.get_model, name) or self._made(
            models.upload_model, request, models.get_model, name
        )
        if not holds(_plain(found), _plain(type(found)(content))):
            raise UserError(f"model {self._model(part)!r} exists with other content; delete it and run it again")

    def _content(self, part: Part) -> dict[str, Any]:
        container = {
            "image_uri": self._place.image,
            "command": ["python", "-m", "nightshift.serving"],
            "args": ["--name", self._name, *on_gpu(self._place.accelerator)],
            "ports": [{"container_port": PORT}],
            "predict_route": "/score",
            "health_route": "/healthz",
        }
        return {
            "display_name": self._model(part),
            "artifact_uri": self._files(part),
            "container_spec": container,
            "labels": self._labels,
        }

    def _deploy(self, part: Part) -> None:
        """Start a version's containers; it gets no requests yet."""
        machine: dict[str, str | int] = {"machine_type": self._place.machine}
        if self._place.accelerator:
            machine |= {"accelerator_type": self._place.accelerator, "accelerator_count": 1}
        deployed = {
            "id": self._deployment(part),
            "model": self._path(self._model(part)),
            "display_name": self._model(part),
            "service_account": self._place.account,
            "dedicated_resources": {
                "machine_spec": machine,
                "min_replica_count": self._place.min_replicas,
                "max_replica_count": self._place.max_replicas,
            },
        }
        self._finish(self._clients.endpoints.deploy_model, {"endpoint": self._endpoint, "deployed_model": deployed})

    def _divide(self, found: Any, split: dict[str, int]) -> None:
        if _split(found) == split:
            return
        # with its etag it is refused when somebody else has changed the endpoint meanwhile
        wanted = {"name": self._endpoint, "traffic_split": split, "etag": found.etag}
        request = {"endpoint": wanted, "update_mask": {"paths": ["traffic_split"]}}
        _called(self._clients.endpoints.update_endpoint, request)

    def _undeploy(self, found: Any, needed: set[str]) -> None:
        unneeded = [key for key in _deployed(found) if key not in needed]
        if unneeded and not needed and len(_split(found)) > 1:
            self._divide(found, {unneeded[-1]: 100})  # only the last one may be undeployed while it gets requests
        for key in unneeded:
            request = {"endpoint": self._endpoint, "deployed_model_id": key}
            self._finish(self._clients.endpoints.undeploy_model, request)

    def _delete(self, model: str) -> None:
        if self._settled(self._clients.models.get_model, self._path(model)):
            self._finish(self._clients.models.delete_model, {"name": self._path(model)})

    def _ours(self) -> list[str]:
        """Return the IDs of our models."""
        request = {"parent": self._parent, "filter": f"labels.{LABEL}={self._name}"}
        found = _called(lambda **given: list(self._clients.models.list_models(**given)), request)
        return [_id(model.name) for model in found]

    def _settled(self, get: Callable[..., Any], name: str) -> Any:
        """Return what bears a name once nothing is changing it, None when nothing does."""
        found = _found(get, name)
        return _found(get, name) if found and self._awaited(name) else found

    def _made(self, create: Callable[..., Any], request: dict[str, Any], get: Callable[..., Any], name: str) -> Any:
        """Make something, or wait for what a process before this one has begun to make."""
        try:
            self._finish(create, request)
        except _TakenError:
            self._pause(POLL_SECONDS)
        for _ in range(POLLS):
            if found := _found(get, name):
                return found
            self._pause(POLL_SECONDS)
        raise UnavailableError(f"Vertex AI has not made {name} yet; run it again")

    def _finish(self, begin: Callable[..., Any], request: dict[str, Any]) -> None:
        """Begin an operation and wait for its end.

        Raises:
            BadVersionError: when a version does not start.
            UserError: when it fails otherwise.
        """
        operation = self._ended(_called(begin, request).operation)
        if operation.error.code:
            from google.api_core.exceptions import FailedPrecondition, from_grpc_status

            error = from_grpc_status(operation.error.code, operation.error.message)
            raise BadVersionError(str(_error(error))) if isinstance(error, FailedPrecondition) else _error(error)

    def _awaited(self, resource: str) -> bool:
        """Wait for what is changing a resource, and return whether anything was."""
        pending = [each for each in self._operations(resource) if not each.done]
        for each in pending:
            self._ended(each)
        return bool(pending)

    def _operations(self, resource: str) -> Iterator[Any]:
        request = {"name": resource}
        while True:
            page = _called(self._clients.endpoints.list_operations, request)
            yield from page.operations
            if not page.next_page_token:
                return
            request["page_token"] = page.next_page_token

    def _ended(self, operation: Any) -> Any:
        for _ in range(POLLS):
            if operation.done:
                return operation
            self._pause(POLL_SECONDS)
            operation = _called(self._clients.endpoints.get_operation, {"name": operation.name})
        raise UnavailableError(f"Vertex AI has not ended {operation.name} yet; run it again")

    @property
    def _labels(self) -> dict[str, str]:
        return {LABEL: self._name}

    def _model(self, part: Part) -> str:
        known = [part.version.sha256, self._files(part), self._place.image, bool(self._place.accelerator)]
        return f"{self._name}-v{part.version.version}-{storage.fingerprint(known)[:12]}"

    def _files(self, part: Part) -> str:
        return files(part.version, self._place.artifacts).rstrip("/")

    def _path(self, model: str) -> str:
        return f"{self._parent}/models/{model}"

    def _version(self, model: str) -> int:
        """Return the version of a model, 0 when it is not ours."""
        found = re.fullmatch(rf"{self._name}-v([1-9]\d*)-[0-9a-f]{{12}}", model)
        return int(found[1]) if found else 0

    def _deployment(self, part: Part) -> str:
        """Return the ID of a version on its machines, which may have ten digits."""
        return str(int(storage.fingerprint([self._model(part), *astuple(self._place)])[:12], 16) % 10**10)


class _TakenError(UserError):
    """What was to be made is there, or is being made."""


def _id(name: str) -> str:
    """Return the last part of a resource's name, whose project may be a number; a model's without its version."""
    return name.rpartition("/")[2].partition("@")[0]


def _plain(message: Any) -> Any:
    """Return what is set in a message, as JSON has it."""
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(type(message).pb(message))


def _deployed(endpoint: Any) -> dict[str, str]:
    """Return the IDs of what is deployed, and of which models."""
    return {each.id: _id(each.model) for each in endpoint.deployed_models} if endpoint else {}


def _split(endpoint: Any) -> dict[str, int]:
    return {key: percent for key, percent in endpoint.traffic_split.items() if percent} if endpoint else {}


def _found(get: Callable[..., Any], name: str) -> Any:
    """Return what a name stands for, None when there is nothing."""
    from google.api_core.exceptions import NotFound

    try:
        return _called(get, {"name": name}, passing=NotFound)
    except NotFound:
        return None


def _called(function: Callable[..., Any], request: Any, passing: Any = ()) -> Any:
    """Call Vertex AI.

    Raises:
        UserError: when it refuses.
        UnavailableError: when it does not answer, or may answer later.
        passing: as it comes.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError

    try:
        return function(request=request, timeout=TIMEOUT_SECONDS)
    except passing:
        raise
    except GoogleAPIError as error:
        raise _error(error) from None
    except GoogleAuthError as error:
        raise signin.failed(error, "Vertex AI cannot be asked") from None


def _error(error: Any) -> Exception:
    """Return what an error of the API means."""
    from google.api_core import exceptions

    if isinstance(error, exceptions.AlreadyExists):
        return _TakenError(f"Vertex AI: {error}")
    if isinstance(error, exceptions.RetryError | exceptions.Aborted) or may_pass(error.code or 500):
        return UnavailableError(f"Vertex AI: {error}; run it again")
    return UserError(f"Vertex AI refuses: {error}; look at its log")
