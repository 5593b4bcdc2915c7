"""moto's SageMaker with what it lacks: time that passes, UpdateEndpoint, refusals, and variants that really answer."""

import copy
import dataclasses
import io
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.sagemaker.models import FakeEndpoint, SageMakerModelBackend, sagemaker_backends
from moto.server import ThreadedMotoServer

from components.release.targets.sagemaker import SageMaker, SageMakerClients, SageMakerSettings
from tests.components.release.targets.platform import Platform
from tests.components.release.targets.versions import Fleet, page

SETTINGS = SageMakerSettings("arn:aws:iam::123456789012:role/serving", "example.com/nightshift/serving:0.3.0")
ACCOUNT, REGION = "123456789012", "us-east-1"
LOOKS = 3  # until a change has ended
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": REGION}


class _Body(io.BytesIO):
    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def _answer(status: int, body: bytes, headers: dict[str, str]) -> AWSResponse:
    return AWSResponse("", status, headers, _Body(body))


def _json(content: Any, status: int = 200) -> AWSResponse:
    return _answer(status, json.dumps(content).encode(), {"content-type": "application/x-amz-json-1.1"})


def _refused(message: str) -> AWSResponse:
    return _json({"__type": "ValidationException", "message": message}, 400)


def broken() -> bytes:
    error = {"Error": {"Code": "ModelError", "Message": "it answers 500"}}
    raise ClientError(error | {"ResponseMetadata": {"HTTPStatusCode": 424}}, "InvokeEndpoint")


class Aws(Platform):
    """An account, and what happens in it while somebody looks.

    boto3 checks and writes every request and reads every answer; the operations below are answered before they are
    sent, from moto's own state.
    """

    failure = "does not serve .*: .*did not pass the ping health check"
    silences = (broken, page)
    late = "endpoint 'fraud' is still Creating"
    gpu: ClassVar = {"instance": "ml.g4dn.xlarge"}

    def __init__(self, url: str, fleet: Fleet) -> None:
        super().__init__(fleet)
        self.stands_still = False
        self._pending: dict[str, str] = {}  # endpoint -> the configuration that is coming, or "" for none
        self._looks: Counter[str] = Counter()  # since each of them began
        self.client, runtime, self.cloudwatch = (
            boto3.client(service, endpoint_url=url, **KEYS)
            for service in ("sagemaker", "sagemaker-runtime", "cloudwatch")
        )
        self.clients = SageMakerClients(self.client, runtime, self.cloudwatch, {"Delay": 0, "MaxAttempts": 5})
        for client in (self.client, runtime):
            name = client.meta.service_model.service_id.hyphenize()
            client.meta.events.register_first(f"before-send.{name}", self._count)
        for operation in ("CreateModel", "CreateEndpointConfig", "CreateEndpoint", "UpdateEndpoint", "DeleteEndpoint",
                          "DeleteEndpointConfig", "DeleteModel", "UpdateEndpointWeightsAndCapacities",
                          "DescribeEndpoint"):  # fmt: skip
            self._on(self.client, "sagemaker", operation)
        self._on(runtime, "sagemaker-runtime", "InvokeEndpoint")

    def target(self, name: str = "fraud", **settings: Any) -> SageMaker:
        return SageMaker(name, dataclasses.replace(SETTINGS, **settings), self.clients, lambda _: None)

    def nowhere(self) -> SageMaker:
        once = Config(retries={"total_max_attempts": 1})
        client = boto3.client("sagemaker", endpoint_url="http://127.0.0.1:9", config=once, **KEYS)
        return SageMaker("fraud", SETTINGS, SageMakerClients(client, None, None), lambda _: None)

    @contextmanager
    def standing_still(self) -> Iterator[SageMaker]:
        self.stands_still = True
        yield self.target()
        self.stands_still = False

    @property
    def backend(self) -> SageMakerModelBackend:
        return sagemaker_backends[ACCOUNT][REGION]

    def clear(self) -> None:
        for kind in ("_models", "endpoint_configs", "endpoints"):
            getattr(self.backend, kind).clear()
        self._pending = {}
        self._looks.clear()

    def state(self) -> dict[str, Any]:
        backend = self.backend
        return {
            "models": sorted(backend._models),
            "configs": sorted(backend.endpoint_configs),
            "endpoints": {
                name: (endpoint.endpoint_status, endpoint.endpoint_config_name, self._weights(name))
                for name, endpoint in backend.endpoints.items()
            },
        }

    def versions(self) -> set[int]:
        return {int(name.split("-v")[1].split("-")[0]) for name in self.backend._models}

    def shares(self) -> dict[int, float]:
        return {int(name.lstrip("v")): weight for name, weight in self._weights("fraud").items()}

    def _weights(self, name: str) -> dict[str, float]:
        return {
            variant["VariantName"]: variant["CurrentWeight"]
            for variant in self.backend.endpoints[name].production_variants
        }

    def saved(self) -> Callable[[], None]:
        kinds = ("_models", "endpoint_configs", "endpoints")
        before = copy.deepcopy({kind: getattr(self.backend, kind) for kind in kinds})

        def restore() -> None:
            for kind, content in copy.deepcopy(before).items():
                setattr(self.backend, kind, content)
            self._pending = {}
            self._looks.clear()

        return restore

    @property
    def foreign(self) -> Sequence[tuple[Callable[[], None], str]]:
        def relabel() -> None:
            self.backend.endpoints["fraud"].tags = []

        return ((relabel, "endpoint 'fraud' exists and has no tag nightshift=fraud"),)

    def _on(self, client: Any, service: str, operation: str) -> None:
        handler = getattr(self, f"_{operation}")

        def answer(request: AWSPreparedRequest, **_: Any) -> AWSResponse | None:
            return handler(request if operation == "InvokeEndpoint" else json.loads(request.body))

        client.meta.events.register(f"before-send.{service}.{operation}", answer)

    def _count(self, event_name: str, **_: Any) -> None:
        self.counted.count(event_name.rpartition(".")[2])

    def _DescribeEndpoint(self, _: dict[str, Any]) -> None:
        """Time passes: what has been looked at often enough becomes what it was asked to."""
        self._looks = Counter({name: 0 if self.stands_still else self._looks[name] + 1 for name in self._pending})
        for name in [name for name in self._pending if self._looks[name] == LOOKS]:
            self._settle(self.backend.endpoints[name], self._pending.pop(name))
            del self._looks[name]

    def _settle(self, endpoint: FakeEndpoint, config: str) -> None:
        if not config:
            del self.backend.endpoints[endpoint.endpoint_name]
            return
        wanted = self.backend.endpoint_configs[config]
        if all(self.fleet.starts(self._uri(variant["ModelName"])) for variant in wanted.production_variants):
            endpoint.endpoint_config_name, endpoint.endpoint_status = config, "InService"
            endpoint.production_variants = endpoint._process_production_variants(wanted.production_variants)
            return
        endpoint.endpoint_status = "Failed" if endpoint.endpoint_status == "Creating" else "InService"
        endpoint.failure_reason = "The primary container did not pass the ping health check."

    def _uri(self, model: str) -> str:
        source = self.backend._models[model].primary_container["ModelDataSource"]["S3DataSource"]
        return str(source["S3Uri"]).rstrip("/")

    def _CreateModel(self, body: dict[str, Any]) -> AWSResponse | None:
        taken = body["ModelName"] in self.backend._models
        return _refused("Cannot create already existing model") if taken else None

    def _CreateEndpointConfig(self, body: dict[str, Any]) -> AWSResponse | None:
        taken = body["EndpointConfigName"] in self.backend.endpoint_configs
        return _refused("Cannot create already existing endpoint configuration") if taken else None

    def _CreateEndpoint(self, body: dict[str, Any]) -> AWSResponse | None:
        name, config = body["EndpointName"], body["EndpointConfigName"]
        if name in self.backend.endpoints:
            return _refused("Cannot create already existing endpoint")
        endpoint = self.backend.create_endpoint(name, config, body.get("Tags", []))
        endpoint.endpoint_status, self._pending[name] = "Creating", config
        return _json({"EndpointArn": endpoint.arn})

    def _UpdateEndpoint(self, body: dict[str, Any]) -> AWSResponse:
        name, config = body["EndpointName"], body["EndpointConfigName"]
        endpoint = self.backend.endpoints.get(name)
        if endpoint is None or config not in self.backend.endpoint_configs:
            return _refused(f'Could not find "{name}" or "{config}".')
        if endpoint.endpoint_status != "InService":
            return _refused(f"Cannot update in-progress endpoint {name}")
        endpoint.endpoint_status, self._pending[name] = "Updating", config
        endpoint.failure_reason = None
        return _json({"EndpointArn": endpoint.arn})

    def _UpdateEndpointWeightsAndCapacities(self, body: dict[str, Any]) -> AWSResponse | None:
        busy = self.backend.endpoints[body["EndpointName"]].endpoint_status != "InService"
        return _refused("Cannot update in-progress endpoint") if busy else None

    def _DeleteEndpoint(self, body: dict[str, Any]) -> AWSResponse:
        self.backend.endpoints[body["EndpointName"]].endpoint_status = "Deleting"
        self._pending[body["EndpointName"]] = ""
        return _json({})

    def _DeleteEndpointConfig(self, body: dict[str, Any]) -> AWSResponse | None:
        used = {endpoint.endpoint_config_name for endpoint in self.backend.endpoints.values()} | set(
            self._pending.values()
        )
        return _refused("The configuration is in use") if body["EndpointConfigName"] in used else None

    def _DeleteModel(self, body: dict[str, Any]) -> AWSResponse | None:
        used = {
            variant["ModelName"]
            for config in self.backend.endpoint_configs.values()
            for variant in config.production_variants
        }
        return _refused("The model is in use") if body["ModelName"] in used else None

    def _InvokeEndpoint(self, request: AWSPreparedRequest) -> AWSResponse:
        name = request.url.split("/endpoints/")[1].split("/")[0]
        endpoint = self.backend.endpoints[name]
        header = request.headers["X-Amzn-SageMaker-Target-Variant"]
        variant = header.decode() if isinstance(header, bytes) else header
        variants = self.backend.endpoint_configs[endpoint.endpoint_config_name].production_variants
        model = next(entry["ModelName"] for entry in variants if entry["VariantName"] == variant)
        body = request.body if isinstance(request.body, bytes) else request.body.encode()
        headers = {"content-type": "application/json", "x-Amzn-Invoked-Production-Variant": variant}
        return _answer(200, self.fleet.answer(self._uri(model), body), headers)


@contextmanager
def platform(fleet: Fleet, _: Path) -> Iterator[Aws]:
    """An account without anything in it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    account = Aws(f"http://{host}:{port}", fleet)
    account.clear()
    try:
        yield account
    finally:
        server.stop()
