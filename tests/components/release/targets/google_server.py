"""What the stand-ins of Google's APIs share: a gRPC server of the real messages, and operations that take time."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.api_core.future.polling import DEFAULT_POLLING
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from google.rpc import status_pb2

from tests.components.release.targets.platform import Counted, Platform

POLLING = DEFAULT_POLLING.with_delay(0.001, 0.001).with_timeout(60)
IMPATIENT = POLLING.with_timeout(0.05)
LOOKS = 3  # until a change has ended
Methods = Mapping[str, tuple[Any, Any, Callable[[Any], Any]]]  # what each takes, what it answers, and how
Effect = Callable[[], Any]  # makes a change and returns what the operation answers, or why it has failed


class RefusedError(Exception):
    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def need(is_right: bool, text: str, code: grpc.StatusCode = grpc.StatusCode.INVALID_ARGUMENT) -> None:
    if not is_right:
        raise RefusedError(code, text)


def unavailable() -> bytes:
    raise RefusedError(grpc.StatusCode.UNAVAILABLE, "the container answers 503")


def save(server: Platform, *kinds: tuple[Any, dict[str, Any]]) -> Callable[[], None]:
    """Remember the resources of each kind of message, and return what brings them back, and nothing else."""
    before = [{name: kind.serialize(value) for name, value in resources.items()} for kind, resources in kinds]

    def restore() -> None:
        server.clear()
        for (kind, resources), content in zip(kinds, before, strict=True):
            resources.update({name: kind.deserialize(value) for name, value in content.items()})

    return restore


def last(name: str) -> str:
    return name.rpartition("/")[2]


class Operations:
    """Changes that are under way: each ends when it, or what it changes, is looked at for the third time."""

    def __init__(self) -> None:
        self.stands_still = False
        self._operations: dict[str, operations_pb2.Operation] = {}
        self._pending: dict[str, Effect] = {}
        self._looks: Counter[str] = Counter()

    def clear(self) -> None:
        for kind in (self._operations, self._pending, self._looks):
            kind.clear()

    def is_busy(self, resource: str) -> bool:
        return any(name.startswith(f"{resource}/operations/") for name in self._pending)

    def begin(self, resource: str, effect: Effect) -> operations_pb2.Operation:
        name = f"{resource}/operations/{len(self._operations)}"
        self._operations[name], self._pending[name] = operations_pb2.Operation(name=name), effect
        return self._operations[name]

    def look(self) -> None:
        """Time passes."""
        if self.stands_still:
            return
        self._looks.update(self._pending.keys())
        for name in [name for name in self._pending if self._looks[name] == LOOKS]:
            operation, answer = self._operations[name], self._pending.pop(name)()
            operation.done = True
            if isinstance(answer, str):
                code = grpc.StatusCode.FAILED_PRECONDITION.value[0]
                operation.error.CopyFrom(status_pb2.Status(code=code, message=answer))
            else:
                operation.response.Pack(answer if isinstance(answer, empty_pb2.Empty) else type(answer).pb(answer))

    @property
    def methods(self) -> Methods:
        get, several = operations_pb2.GetOperationRequest, operations_pb2.ListOperationsRequest
        return {
            "GetOperation": (get, operations_pb2.Operation, self._get),
            "ListOperations": (several, operations_pb2.ListOperationsResponse, self._list),
        }

    def _get(self, request: operations_pb2.GetOperationRequest) -> operations_pb2.Operation:
        self.look()
        return self._operations[request.name]

    def _list(self, request: operations_pb2.ListOperationsRequest) -> operations_pb2.ListOperationsResponse:
        """A page holds one operation."""
        self.look()
        resource = re.sub(r"^projects/[^/]+", "projects/123456789012", request.name)
        page, following = paged(self._operations, f"{resource}/operations/", request.page_token)
        return operations_pb2.ListOperationsResponse(operations=page, next_page_token=following)


def paged(resources: Mapping[str, Any], prefix: str, token: str) -> tuple[list[Any], str]:
    """A page that holds one resource, and the token of the next one."""
    matching = [value for name, value in sorted(resources.items()) if name.startswith(prefix)]
    number = int(token or 0)
    return matching[number : number + 1], str(number + 1) if number + 1 < len(matching) else ""


class Counts(grpc.UnaryUnaryClientInterceptor):
    """Counts a client's calls."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    def intercept_unary_unary(self, continuation: Any, details: Any, request: Any) -> Any:
        self._counted.count(details.method.rpartition("/")[2])
        return continuation(details, request)


def _handler(takes: Any, answers: Any, function: Callable[[Any], Any]) -> grpc.RpcMethodHandler:
    def handle(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            return function(request)
        except RefusedError as error:
            context.abort(error.code, str(error))

    return grpc.unary_unary_rpc_method_handler(
        handle,
        request_deserializer=takes.deserialize if hasattr(takes, "pb") else takes.FromString,
        response_serializer=answers.serialize if hasattr(answers, "pb") else answers.SerializeToString,
    )


@contextmanager
def served(services: Mapping[str, Methods], counted: Counted) -> Iterator[grpc.Channel]:
    """A channel to a server of these services, whose calls are counted."""
    server = grpc.server(ThreadPoolExecutor(1))
    for service, methods in services.items():
        handlers = {name: _handler(*method) for name, method in methods.items()}
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield grpc.intercept_channel(channel, Counts(counted))
    finally:
        server.stop(None).wait()


def clients(channel: grpc.Channel, *kinds: Any) -> list[Any]:
    """The library's own clients, on a channel."""
    return [kind(transport=kind.get_transport_class("grpc")(channel=channel)) for kind in kinds]
