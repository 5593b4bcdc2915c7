"""Vertex AI as far as releases go: a gRPC server that takes its real messages, and versions that really answer.

What a request may hold is read off the comments of the published messages (`aiplatform_v1.types`). A change is an
operation that ends when time passes, and while it is under way another one of the same resource is refused. As the
real one, it says projects by their number, whatever they were asked by.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import grpc
from google.cloud import aiplatform_v1 as api
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict

from components.release.targets.vertex import Vertex, VertexClients, VertexSettings
from tests.components.release.targets import google_server
from tests.components.release.targets.google_server import (
    IMPATIENT,
    POLLING,
    Effect,
    Methods,
    Operations,
    last,
    need,
    paged,
    unavailable,
)
from tests.components.release.targets.platform import Platform
from tests.components.release.targets.versions import Fleet

PARENT = "projects/123456789012/locations/us-central1"
SETTINGS = VertexSettings(
    "shop", "us-central1", "registry.example.com/nightshift/serving:0.3.0", "serving@shop.example.com"
)
KINDS = (api.EndpointServiceClient, api.ModelServiceClient, api.PredictionServiceClient)


def _own(name: str) -> str:
    """A resource's name as the server says it."""
    return re.sub(r"^projects/[^/]+", "projects/123456789012", name)


class VertexAI(Platform):
    """A project: what there is, and what is changing it."""

    percentages = "Vertex AI"
    failure = "Vertex AI refuses: .*exit_code: 2"
    silences = (unavailable,)
    late = "Vertex AI: "
    gpu: ClassVar = {"machine": "g2-standard-4", "accelerator": "NVIDIA_L4"}

    def __init__(self, fleet: Fleet) -> None:
        super().__init__(fleet)
        self.endpoints: dict[str, api.Endpoint] = {}
        self.models: dict[str, api.Model] = {}
        self.operations = Operations()
        self.clients: VertexClients
        self._answered: dict[str, int] = {}

    def target(self, name: str = "fraud", **settings: Any) -> Vertex:
        return Vertex(name, dataclasses.replace(SETTINGS, **settings), self.clients, lambda _: None)

    def nowhere(self) -> Vertex:
        channel = grpc.insecure_channel("127.0.0.1:9")
        return Vertex("fraud", SETTINGS, VertexClients(*google_server.clients(channel, *KINDS)), lambda _: None)

    @contextmanager
    def standing_still(self) -> Iterator[Vertex]:
        self.operations.stands_still = True
        yield Vertex("fraud", SETTINGS, dataclasses.replace(self.clients, polling=IMPATIENT), lambda _: None)
        self.operations.stands_still = False

    def state(self) -> dict[str, Any]:
        endpoints = {
            last(name): {
                last(deployed.model): (deployed.display_name, endpoint.traffic_split.get(deployed.id, 0))
                for deployed in endpoint.deployed_models
            }
            for name, endpoint in self.endpoints.items()
        }
        return {"models": sorted(map(last, self.models)), "endpoints": endpoints}

    def versions(self) -> set[int]:
        return {int(name.split("-v")[1].split("-")[0]) for name in self.state()["models"]}

    def clear(self) -> None:
        for kind in (self.endpoints, self.models, self._answered):
            kind.clear()
        self.operations.clear()

    def saved(self) -> Callable[[], None]:
        kinds = (api.Endpoint, self.endpoints), (api.Model, self.models)
        return google_server.save(self, *kinds)

    def intrude(self) -> None:
        (endpoint,) = self.endpoints.values()
        endpoint.traffic_split = {deployed.id: 0 for deployed in endpoint.deployed_models}
        endpoint.traffic_split[endpoint.deployed_models[0].id] = 100
        _change(endpoint)

    @property
    def foreign(self) -> Sequence[tuple[Callable[[], None], str]]:
        def relabel() -> None:
            self.endpoint.labels = {"team": "somebody"}

        def deploy() -> None:
            self.endpoint.deployed_models.append(api.DeployedModel(id="7", model=f"{PARENT}/models/fraud-vendor"))

        return (
            (relabel, "endpoint 'fraud' exists and has no label nightshift=fraud"),
            (deploy, "endpoint 'fraud' has model 'fraud-vendor' deployed as 7; undeploy it"),
        )

    @property
    def endpoint(self) -> api.Endpoint:
        return self.endpoints[f"{PARENT}/endpoints/fraud"]

    def command(self) -> list[str]:
        (model,) = self.models.values()
        return list(model.container_spec.args)

    @property
    def services(self) -> dict[str, Methods]:
        operation, package = operations_pb2.Operation, "google.cloud.aiplatform.v1"
        return {
            f"{package}.EndpointService": {
                "GetEndpoint": (
                    api.GetEndpointRequest,
                    api.Endpoint,
                    partial(self._get, self.endpoints),
                ),
                "CreateEndpoint": (api.CreateEndpointRequest, operation, self._create_endpoint),
                "UpdateEndpoint": (api.UpdateEndpointRequest, api.Endpoint, self._update_endpoint),
                "DeleteEndpoint": (api.DeleteEndpointRequest, operation, self._delete_endpoint),
                "DeployModel": (api.DeployModelRequest, operation, self._deploy),
                "UndeployModel": (api.UndeployModelRequest, operation, self._undeploy),
            },
            f"{package}.ModelService": {
                "GetModel": (api.GetModelRequest, api.Model, partial(self._get, self.models)),
                "ListModels": (api.ListModelsRequest, api.ListModelsResponse, self._list_models),
                "UploadModel": (api.UploadModelRequest, operation, self._upload),
                "DeleteModel": (api.DeleteModelRequest, operation, self._delete_model),
            },
            f"{package}.PredictionService": {"Predict": (api.PredictRequest, api.PredictResponse, self._predict)},
            "google.longrunning.Operations": self.operations.methods,
        }

    def _get(self, kind: dict[str, Any], request: Any) -> Any:
        self.operations.look()
        name = _own(request.name)
        need(name in kind, f"{name} is not found.", grpc.StatusCode.NOT_FOUND)
        return kind[name]

    def _endpoint(self, request: Any) -> api.Endpoint:
        return self._get(self.endpoints, api.GetEndpointRequest(name=request.endpoint))

    def _begin(self, resource: str, effect: Effect) -> operations_pb2.Operation:
        text = f"There are other operations running on {resource}"
        need(not self.operations.is_busy(resource), text, grpc.StatusCode.FAILED_PRECONDITION)
        return self.operations.begin(resource, effect)

    def _create(self, kind: dict[str, Any], value: Any) -> operations_pb2.Operation:
        taken = value.name in kind or self.operations.is_busy(value.name)
        need(not taken, f"{value.name} already exists", grpc.StatusCode.ALREADY_EXISTS)

        def effect() -> Any:
            kind[value.name] = value
            if kind is self.endpoints:
                return value
            return api.UploadModelResponse(model=value.name, model_version_id="1")

        return self._begin(value.name, effect)

    def _create_endpoint(self, request: api.CreateEndpointRequest) -> operations_pb2.Operation:
        need(_own(request.parent) == PARENT, f"no location {request.parent}")
        need(bool(re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", request.endpoint_id)), request.endpoint_id)
        _check_texts(request.endpoint)
        request.endpoint.name, request.endpoint.etag = f"{PARENT}/endpoints/{request.endpoint_id}", "0"
        return self._create(self.endpoints, request.endpoint)

    def _upload(self, request: api.UploadModelRequest) -> operations_pb2.Operation:
        model, spec = request.model, request.model.container_spec
        need(_own(request.parent) == PARENT and not request.parent_model, f"no location {request.parent}")
        need(bool(re.fullmatch(r"[a-z_][a-z0-9_-]{0,62}", request.model_id)), request.model_id)
        _check_texts(model)
        need(bool(spec.image_uri and model.artifact_uri), "what is it?")
        routes = (spec.predict_route, spec.health_route)
        need(all(route.startswith("/") for route in routes), f"routes {routes}")
        need([port.container_port for port in spec.ports] == [8080], "our server listens on 8080 by itself")
        model.name, model.version_id = f"{PARENT}/models/{request.model_id}", "1"
        return self._create(self.models, model)

    def _deploy(self, request: api.DeployModelRequest) -> operations_pb2.Operation:
        endpoint, wanted, name = self._endpoint(request), request.deployed_model, _own(request.endpoint)
        need(bool(re.fullmatch("[0-9]{1,10}", wanted.id)), f"ID {wanted.id}")
        taken = wanted.id in [deployed.id for deployed in endpoint.deployed_models]
        need(not taken, f"{wanted.id} is deployed", grpc.StatusCode.ALREADY_EXISTS)
        need(_own(wanted.model) in self.models, f"no model {wanted.model}", grpc.StatusCode.NOT_FOUND)
        machines = wanted.dedicated_resources
        need(bool(machines.machine_spec.machine_type), "no type of machine")
        need(1 <= machines.min_replica_count <= machines.max_replica_count, f"replicas {machines}")
        need(not request.traffic_split, "a version gets no requests before it has started")

        def effect() -> Any:
            wanted.model = _own(wanted.model)
            if not self.fleet.starts(self.models[wanted.model].artifact_uri):
                return "Model server terminated: model server container terminated: exit_code: 2"
            endpoint.deployed_models.append(wanted)
            _change(endpoint)
            return api.DeployModelResponse(deployed_model=wanted)

        return self._begin(name, effect)

    def _undeploy(self, request: api.UndeployModelRequest) -> operations_pb2.Operation:
        endpoint, key = self._endpoint(request), request.deployed_model_id
        left = [deployed for deployed in endpoint.deployed_models if deployed.id != key]
        need(len(left) < len(endpoint.deployed_models), f"{key} is not deployed", grpc.StatusCode.NOT_FOUND)
        need(not left or not endpoint.traffic_split.get(key), f"{key} gets requests")

        def effect() -> Any:
            endpoint.deployed_models, endpoint.traffic_split = left, endpoint.traffic_split if left else {}
            _change(endpoint)
            return api.UndeployModelResponse()

        return self._begin(_own(request.endpoint), effect)

    def _update_endpoint(self, request: api.UpdateEndpointRequest) -> api.Endpoint:
        endpoint, split = self._get(self.endpoints, request.endpoint), dict(request.endpoint.traffic_split)
        need(list(request.update_mask.paths) == ["traffic_split"], f"mask {request.update_mask}")
        need(sum(split.values()) == 100 and min(split.values()) >= 0, f"the percentages {split} do not make 100")
        need(set(split) <= {deployed.id for deployed in endpoint.deployed_models}, f"{split} is not deployed")
        need(request.endpoint.etag == endpoint.etag, "the endpoint has changed", grpc.StatusCode.ABORTED)
        endpoint.traffic_split = split
        self._answered.clear()
        _change(endpoint)
        return endpoint

    def _delete_endpoint(self, request: api.DeleteEndpointRequest) -> operations_pb2.Operation:
        empty = not self._get(self.endpoints, request).deployed_models
        need(empty, "models are deployed", grpc.StatusCode.FAILED_PRECONDITION)
        return self._removed(self.endpoints, _own(request.name))

    def _delete_model(self, request: api.DeleteModelRequest) -> operations_pb2.Operation:
        name = last(self._get(self.models, request).name)
        deployed = [last(entry.model) for endpoint in self.endpoints.values() for entry in endpoint.deployed_models]
        need(name not in deployed, f"{name} is deployed", grpc.StatusCode.FAILED_PRECONDITION)
        return self._removed(self.models, _own(request.name))

    def _removed(self, kind: dict[str, Any], name: str) -> operations_pb2.Operation:
        def effect() -> empty_pb2.Empty:
            del kind[name]
            return empty_pb2.Empty()

        return self._begin(name, effect)

    def _list_models(self, request: api.ListModelsRequest) -> api.ListModelsResponse:
        (label,) = re.findall(r"^labels\.nightshift=([a-z0-9-]+)$", request.filter)
        labeled = {name: model for name, model in self.models.items() if model.labels.get("nightshift") == label}
        page, following = paged(labeled, "", request.page_token)
        return api.ListModelsResponse(models=page, next_page_token=following)

    def _predict(self, request: api.PredictRequest) -> api.PredictResponse:
        """Each version answers as often as its percentage says, in turn."""
        endpoint = self._endpoint(request)
        split = {key: percent for key, percent in endpoint.traffic_split.items() if percent}
        need(bool(split), "nothing is deployed", grpc.StatusCode.FAILED_PRECONDITION)
        key = min(sorted(split), key=lambda model_id: (self._answered.get(model_id, 0) + 1) / split[model_id])
        self._answered[key] = self._answered.get(key, 0) + 1
        name = next(deployed.model for deployed in endpoint.deployed_models if deployed.id == key)
        instances = [MessageToDict(value) for value in api.PredictRequest.pb(request).instances]
        body = json.dumps({"instances": instances}).encode()
        answer = json.loads(self.fleet.answer(self.models[name].artifact_uri, body))
        content = {"predictions": answer["predictions"], "deployedModelId": key, "model": name}
        return api.PredictResponse.from_json(json.dumps(content))


def _change(endpoint: api.Endpoint) -> None:
    endpoint.etag = str(int(endpoint.etag) + 1)


def _check_texts(value: Any) -> None:
    need(0 < len(value.display_name) <= 128, f"display name {value.display_name}")
    for key, label in value.labels.items():
        need(bool(re.fullmatch("[a-z0-9_-]{0,64}", key + label)), f"label {key}={label}")


@contextmanager
def platform(fleet: Fleet, _: Path) -> Iterator[VertexAI]:
    """A project without anything in it."""
    project = VertexAI(fleet)
    with google_server.served(project.services, project.counted) as channel:
        project.clients = VertexClients(*google_server.clients(channel, *KINDS), polling=POLLING)
        yield project
