"""Vertex AI as far as releases go: a gRPC server that takes its real messages, and versions that really answer.

What a request may hold is read off the comments of the published messages (`aiplatform_v1.types`). A change is an
operation that ends when time passes, and while it is under way another one of the same resource is refused. As the
real one, it says projects by their number, whatever they were asked by.
"""

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.cloud import aiplatform_v1 as api
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from google.protobuf.json_format import MessageToDict

from components.release.targets.vertex import Clients
from tests.components.release.targets.versions import Counted, Fleet

PARENT = "projects/123456789012/locations/us-central1"
Effect = Callable[[], Any]  # makes a change and returns what the operation answers, or why it has failed


class _RefusedError(Exception):
    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def _check(is_right: bool, text: str, code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT) -> None:
    if not is_right:
        raise _RefusedError(code, text)


def _own(name: str) -> str:
    """A resource's name as the server says it."""
    return re.sub(r"^projects/[^/]+", "projects/123456789012", name)


class Counts(grpc.UnaryUnaryClientInterceptor):
    """Counts a client's calls."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        self._counted.count(details.method.rpartition("/")[2])
        return continuation(details, request)


class VertexAI:
    """What there is, and what is changing it."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.counted = fleet, Counted()
        self.endpoints: dict[str, api.Endpoint] = {}
        self.models: dict[str, api.Model] = {}
        self._operations: dict[str, operations_pb2.Operation] = {}
        self._pending: dict[str, Effect] = {}
        self._seen: set[str] = set()  # which of them are older than the last look
        self.answered: dict[str, int] = {}

    @property
    def calls(self) -> dict[str, dict[str, tuple[Any, Any, Callable[[Any], Any]]]]:
        """Service -> method -> what it takes, what it answers, and how."""
        operation, of = operations_pb2.Operation, "google.cloud.aiplatform.v1"
        return {
            f"{of}.EndpointService": {
                "GetEndpoint": (api.GetEndpointRequest, api.Endpoint, lambda asked: self._get(self.endpoints, asked)),
                "CreateEndpoint": (api.CreateEndpointRequest, operation, self._create_endpoint),
                "UpdateEndpoint": (api.UpdateEndpointRequest, api.Endpoint, self._update_endpoint),
                "DeleteEndpoint": (api.DeleteEndpointRequest, operation, self._delete_endpoint),
                "DeployModel": (api.DeployModelRequest, operation, self._deploy),
                "UndeployModel": (api.UndeployModelRequest, operation, self._undeploy),
            },
            f"{of}.ModelService": {
                "GetModel": (api.GetModelRequest, api.Model, lambda asked: self._get(self.models, asked)),
                "ListModels": (api.ListModelsRequest, api.ListModelsResponse, self._list_models),
                "UploadModel": (api.UploadModelRequest, operation, self._upload),
                "DeleteModel": (api.DeleteModelRequest, operation, self._delete_model),
            },
            f"{of}.PredictionService": {"Predict": (api.PredictRequest, api.PredictResponse, self._predict)},
            "google.longrunning.Operations": {
                "GetOperation": (
                    operations_pb2.GetOperationRequest, operation, lambda asked: self._get(self._operations, asked),
                ),
                "ListOperations": (
                    operations_pb2.ListOperationsRequest, operations_pb2.ListOperationsResponse, self._list_operations,
                ),
            },
        }  # fmt: skip

    def pause(self, _: float) -> None:
        """Time passes: what was under way at the last look ends."""
        for name in self._seen:
            found, answer = self._operations[name], self._pending.pop(name)()
            found.done = True
            if isinstance(answer, str):
                found.error.code, found.error.message = grpc.StatusCode.FAILED_PRECONDITION.value[0], answer
            else:
                found.response.Pack(answer if isinstance(answer, empty_pb2.Empty) else type(answer).pb(answer))
        self._seen = set(self._pending)

    def state(self) -> dict[str, Any]:
        """All that there is."""
        endpoints = {
            _id(name): {
                _id(each.model): (each.display_name, found.traffic_split.get(each.id, 0))
                for each in found.deployed_models
            }
            for name, found in self.endpoints.items()
        }
        return {"models": sorted(map(_id, self.models)), "endpoints": endpoints}

    def clear(self) -> None:
        for kind in (self.endpoints, self.models, self._operations, self._pending, self._seen, self.answered):
            kind.clear()
        self.counted.calls.clear()

    def saved(self) -> Callable[[], None]:
        """A function that makes everything as it is now."""
        kinds = (api.Endpoint, self.endpoints), (api.Model, self.models)
        before = [{name: kind.serialize(value) for name, value in found.items()} for kind, found in kinds]

        def restore() -> None:
            self.clear()
            for (kind, found), content in zip(kinds, before, strict=True):
                found.update({name: kind.deserialize(value) for name, value in content.items()})

        return restore

    def _get(self, kind: dict[str, Any], asked: Any) -> Any:
        name = _own(asked.name)
        _check(name in kind, f"{name} is not found.", grpc.StatusCode.NOT_FOUND)
        return kind[name]

    def _begun(self, resource: str, effect: Effect) -> operations_pb2.Operation:
        busy = any(name.startswith(f"{resource}/operations/") for name in self._pending)
        _check(not busy, f"There are other operations running on {resource}", grpc.StatusCode.FAILED_PRECONDITION)
        name = f"{resource}/operations/{len(self._operations)}"
        self._operations[name], self._pending[name] = operations_pb2.Operation(name=name), effect
        return self._operations[name]

    def _made(self, kind: dict[str, Any], value: Any) -> operations_pb2.Operation:
        """Begin to make something."""
        taken = value.name in kind or any(name.startswith(f"{value.name}/operations/") for name in self._pending)
        _check(not taken, f"{value.name} already exists", grpc.StatusCode.ALREADY_EXISTS)

        def effect() -> Any:
            kind[value.name] = value
            if kind is self.endpoints:
                return value
            return api.UploadModelResponse(model=value.name, model_version_id="1")

        return self._begun(value.name, effect)

    def _create_endpoint(self, asked: api.CreateEndpointRequest) -> operations_pb2.Operation:
        _check(_own(asked.parent) == PARENT, f"no location {asked.parent}")
        _check(bool(re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", asked.endpoint_id)), asked.endpoint_id)
        _check_said(asked.endpoint)
        asked.endpoint.name, asked.endpoint.etag = f"{PARENT}/endpoints/{asked.endpoint_id}", "0"
        return self._made(self.endpoints, asked.endpoint)

    def _upload(self, asked: api.UploadModelRequest) -> operations_pb2.Operation:
        model, spec = asked.model, asked.model.container_spec
        _check(_own(asked.parent) == PARENT and not asked.parent_model, f"no location {asked.parent}")
        _check(bool(re.fullmatch(r"[a-z_][a-z0-9_-]{0,62}", asked.model_id)), asked.model_id)
        _check_said(model)
        _check(bool(spec.image_uri and model.artifact_uri), "what is it?")
        routes = (spec.predict_route, spec.health_route)
        _check(all(route.startswith("/") for route in routes), f"routes {routes}")
        _check([port.container_port for port in spec.ports] == [8080], "our server listens on 8080 by itself")
        model.name, model.version_id = f"{PARENT}/models/{asked.model_id}", "1"
        return self._made(self.models, model)

    def _deploy(self, asked: api.DeployModelRequest) -> operations_pb2.Operation:
        endpoint, wanted, name = self._endpoint(asked.endpoint), asked.deployed_model, _own(asked.endpoint)
        _check(bool(re.fullmatch("[0-9]{1,10}", wanted.id)), f"ID {wanted.id}")
        taken = wanted.id in [each.id for each in endpoint.deployed_models]
        _check(not taken, f"{wanted.id} is deployed", grpc.StatusCode.ALREADY_EXISTS)
        _check(_own(wanted.model) in self.models, f"no model {wanted.model}", grpc.StatusCode.NOT_FOUND)
        machines = wanted.dedicated_resources
        _check(bool(machines.machine_spec.machine_type), "no type of machine")
        _check(1 <= machines.min_replica_count <= machines.max_replica_count, f"replicas {machines}")
        _check(not asked.traffic_split, "a version gets no requests before it has started")

        def effect() -> Any:
            wanted.model = _own(wanted.model)
            if not self.fleet.starts(self.models[wanted.model].artifact_uri):
                return "Model server terminated: model server container terminated: exit_code: 2"
            endpoint.deployed_models.append(wanted)
            _changed(endpoint)
            return api.DeployModelResponse(deployed_model=wanted)

        return self._begun(name, effect)

    def _undeploy(self, asked: api.UndeployModelRequest) -> operations_pb2.Operation:
        endpoint, key = self._endpoint(asked.endpoint), asked.deployed_model_id
        left = [each for each in endpoint.deployed_models if each.id != key]
        _check(len(left) < len(endpoint.deployed_models), f"{key} is not deployed", grpc.StatusCode.NOT_FOUND)
        _check(not left or not endpoint.traffic_split.get(key), f"{key} gets requests")

        def effect() -> Any:
            endpoint.deployed_models, endpoint.traffic_split = left, endpoint.traffic_split if left else {}
            _changed(endpoint)
            return api.UndeployModelResponse()

        return self._begun(_own(asked.endpoint), effect)

    def _update_endpoint(self, asked: api.UpdateEndpointRequest) -> api.Endpoint:
        endpoint, split = self._endpoint(asked.endpoint.name), dict(asked.endpoint.traffic_split)
        _check(list(asked.update_mask.paths) == ["traffic_split"], f"mask {asked.update_mask}")
        _check(sum(split.values()) == 100 and min(split.values()) >= 0, f"the percentages {split} do not make 100")
        _check(set(split) <= {each.id for each in endpoint.deployed_models}, f"{split} is not deployed")
        _check(asked.endpoint.etag == endpoint.etag, "the endpoint has changed", grpc.StatusCode.ABORTED)
        endpoint.traffic_split = split
        self.answered.clear()
        _changed(endpoint)
        return endpoint

    def _delete_endpoint(self, asked: api.DeleteEndpointRequest) -> operations_pb2.Operation:
        empty = not self._endpoint(asked.name).deployed_models
        _check(empty, "models are deployed", grpc.StatusCode.FAILED_PRECONDITION)
        return self._removed(self.endpoints, _own(asked.name))

    def _delete_model(self, asked: api.DeleteModelRequest) -> operations_pb2.Operation:
        name = _id(self._get(self.models, asked).name)
        deployed = [_id(each.model) for found in self.endpoints.values() for each in found.deployed_models]
        _check(name not in deployed, f"{name} is deployed", grpc.StatusCode.FAILED_PRECONDITION)
        return self._removed(self.models, _own(asked.name))

    def _removed(self, kind: dict[str, Any], name: str) -> operations_pb2.Operation:
        def effect() -> empty_pb2.Empty:
            del kind[name]
            return empty_pb2.Empty()

        return self._begun(name, effect)

    def _list_models(self, asked: api.ListModelsRequest) -> api.ListModelsResponse:
        """A page holds one model."""
        (wanted,) = re.findall(r"^labels\.nightshift=([a-z0-9-]+)$", asked.filter)
        found = [model for _, model in sorted(self.models.items()) if model.labels.get("nightshift") == wanted]
        number = int(asked.page_token or 0)
        more = str(number + 1) if number + 1 < len(found) else ""
        return api.ListModelsResponse(models=found[number : number + 1], next_page_token=more)

    def _list_operations(self, asked: operations_pb2.ListOperationsRequest) -> operations_pb2.ListOperationsResponse:
        """A page holds one operation."""
        of = f"{_own(asked.name)}/operations/"
        found = [operation for name, operation in self._operations.items() if name.startswith(of)]
        number = int(asked.page_token or 0)
        more = str(number + 1) if number + 1 < len(found) else ""
        return operations_pb2.ListOperationsResponse(operations=found[number : number + 1], next_page_token=more)

    def _predict(self, asked: api.PredictRequest) -> api.PredictResponse:
        """Each version answers as often as its percentage says, in turn."""
        endpoint = self._endpoint(asked.endpoint)
        split = {key: percent for key, percent in endpoint.traffic_split.items() if percent}
        _check(bool(split), "nothing is deployed", grpc.StatusCode.FAILED_PRECONDITION)
        key = min(sorted(split), key=lambda each: (self.answered.get(each, 0) + 1) / split[each])
        self.answered[key] = self.answered.get(key, 0) + 1
        name = next(each.model for each in endpoint.deployed_models if each.id == key)
        instances = [MessageToDict(value) for value in api.PredictRequest.pb(asked).instances]
        body = json.dumps({"instances": instances}).encode()
        answer = json.loads(self.fleet.answer(self.models[name].artifact_uri, body))
        said = {"predictions": answer["predictions"], "deployedModelId": key, "model": name}
        return api.PredictResponse.from_json(json.dumps(said))

    def _endpoint(self, name: str) -> api.Endpoint:
        return self._get(self.endpoints, api.GetEndpointRequest(name=name))


def _id(name: str) -> str:
    return name.rpartition("/")[2]


def _changed(endpoint: api.Endpoint) -> None:
    endpoint.etag = str(int(endpoint.etag) + 1)


def _check_said(value: Any) -> None:
    _check(0 < len(value.display_name) <= 128, f"display name {value.display_name}")
    for key, label in value.labels.items():
        _check(bool(re.fullmatch("[a-z0-9_-]{0,64}", key + label)), f"label {key}={label}")


def _handler(kinds: tuple[Any, Any, Callable[[Any], Any]]) -> grpc.RpcMethodHandler:
    takes, answers, function = kinds
    is_plus = hasattr(answers, "pb")

    def handle(asked: Any, context: grpc.ServicerContext) -> Any:
        try:
            return function(asked)
        except _RefusedError as error:
            context.abort(error.code, str(error))

    return grpc.unary_unary_rpc_method_handler(
        handle,
        request_deserializer=takes.deserialize if hasattr(takes, "pb") else takes.FromString,
        response_serializer=answers.serialize if is_plus else answers.SerializeToString,
    )


@contextmanager
def vertex_ai(fleet: Fleet) -> Iterator[tuple[VertexAI, Clients]]:
    """A project without anything in it, and clients of it."""
    found = VertexAI(fleet)
    server = grpc.server(ThreadPoolExecutor(1))
    for service, methods in found.calls.items():
        handlers = {name: _handler(kinds) for name, kinds in methods.items()}
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield found, clients(grpc.intercept_channel(channel, Counts(found.counted)))
    finally:
        server.stop(None).wait()


def clients(channel: grpc.Channel) -> Clients:
    """The library's own clients, on a channel."""
    kinds = (api.EndpointServiceClient, api.ModelServiceClient, api.PredictionServiceClient)
    return Clients(*(kind(transport=kind.get_transport_class("grpc")(channel=channel)) for kind in kinds))
