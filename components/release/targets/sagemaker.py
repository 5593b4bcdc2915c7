"""Amazon SageMaker: an endpoint named after the use case, a variant a version, a model a version.

Models and endpoint configurations cannot be changed, so their names say what is in them. A share changes in place, by
the weights of the variants; another set of versions is another configuration, which SageMaker brings up beside the old
one and drops again where it does not become healthy.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from components.release.core import Slo
from components.release.targets import BadVersionError, NoAnswerError, Part, holds, insist, parsed
from nightshift import storage
from nightshift.errors import UnavailableError, UserError, may_pass
from nightshift.serving.options import DEVICE

TAG = "nightshift"
READY, FAILED = "InService", ("Failed", "OutOfService", "UpdateRollbackFailed")
POLL_SECONDS, POLLS = 10.0, 180
PERIOD_SECONDS = 3600  # over which CloudWatch sums up
GPU = re.compile(r"ml\.[gp]\d")  # families with NVIDIA GPUs
AMI = "al2023-ami-sagemaker-inference-gpu-4-1"  # has the driver that the CUDA of the image needs
PASSING = ("ThrottlingException", "ResourceInUse", "RequestLimitExceeded", "ModelError")


@dataclass(frozen=True)
class Place:
    """What a variant runs on.

    Attributes:
        role: ARN of the role that the container acts under.
        image: of `containers/serving`, in a registry that SageMaker can reach; of `serving-gpu` for a GPU.
        instance: its type; one with a GPU has the server use it.
        count: how many of them a variant has.
    """

    role: str
    image: str
    instance: str = "ml.m5.large"
    count: int = 1

    @property
    def has_gpu(self) -> bool:
        """Whether the server calls the model on a GPU."""
        return bool(GPU.match(self.instance))


@dataclass(frozen=True)
class Clients:
    """boto3's clients of `sagemaker`, `sagemaker-runtime` and `cloudwatch`."""

    sagemaker: Any
    runtime: Any
    cloudwatch: Any


class SageMaker:
    """The endpoint of a use case."""

    splits = True

    def __init__(self, name: str, place: Place, clients: Clients, pause: Callable[[float], None] = time.sleep) -> None:
        """Call nothing.

        Args:
            name: the use case.
            place: what its variants run on.
            clients: of AWS.
            pause: called with the seconds between two looks.
        """
        self._name, self._place, self._clients, self._pause = name, place, clients, pause

    def apply(self, parts: Sequence[Part]) -> None:
        """Make models and a configuration, and point the endpoint at it; see `Target`."""
        found = self._settled()
        if found and found["EndpointStatus"] in FAILED:
            self._call("delete_endpoint", EndpointName=self._name)
            found = self._settled()
        if found and self._has(found, parts):
            self._weigh(found, parts)
            return
        for part in parts:
            self._make_model(part)
        config = self._make_config(parts)
        self._call(
            "update_endpoint" if found else "create_endpoint",
            EndpointName=self._name,
            EndpointConfigName=config,
            **({} if found else {"Tags": self._tags}),
        )
        self._await(config)

    def serving(self) -> dict[int, float]:
        """Return the weights of the variants; see `Target`."""
        found = self._find("describe_endpoint", EndpointName=self._name)
        if not found or found["EndpointStatus"] != READY:
            return {}
        weights = {int(each["VariantName"].lstrip("v")): each["CurrentWeight"] for each in found["ProductionVariants"]}
        return {version: weight / sum(weights.values()) for version, weight in weights.items()}

    def ask(self, part: Part) -> Any:
        """Ask a version's variant; see `Target`."""
        return insist(part, lambda: self._invoked(part), self._pause)

    def measured(self, part: Part, since: datetime, until: datetime) -> Slo:
        """Return what CloudWatch has of a variant; see `Target`."""
        requests, errors = (
            sum(each["Sum"] for each in self._figures(part, (since, until), name, Statistics=["Sum"]))
            for name in ("Invocations", "Invocation5XXErrors")
        )
        slowest = self._figures(part, (since, until), "ModelLatency", ExtendedStatistics=["p99"])
        microseconds = max((each["ExtendedStatistics"]["p99"] for each in slowest), default=None)
        return Slo(int(requests), int(errors), None if microseconds is None else microseconds / 1000)

    def clean(self, parts: Sequence[Part]) -> None:
        """Delete configurations and models of ours that nothing needs; see `Target`."""
        found = self._settled()
        if found and not parts:
            self._call("delete_endpoint", EndpointName=self._name)
            found = self._settled()
        configs = {found["EndpointConfigName"]} if found else set()
        for name in self._leftovers("endpoint_config", configs):
            self._call("delete_endpoint_config", EndpointConfigName=name)
        for name in self._leftovers("model", {self._model(part) for part in parts}):
            self._call("delete_model", ModelName=name)

    def _invoked(self, part: Part) -> Any:
        try:
            answer = _called(
                self._clients.runtime.invoke_endpoint,
                EndpointName=self._name,
                TargetVariant=_variant(part),
                ContentType="application/json",
                Body=json.dumps(part.request),
            )
        except UnavailableError as error:
            raise NoAnswerError(str(error)) from None
        assert answer["InvokedProductionVariant"] == _variant(part)
        return parsed(f"variant {_variant(part)}", answer["Body"].read())

    def _figures(self, part: Part, span: tuple[datetime, datetime], name: str, **which: list[str]) -> list[Any]:
        variant = {"EndpointName": self._name, "VariantName": _variant(part)}
        found = _called(
            self._clients.cloudwatch.get_metric_statistics,
            Namespace="AWS/SageMaker",
            MetricName=name,
            Dimensions=[{"Name": key, "Value": value} for key, value in variant.items()],
            StartTime=span[0],
            EndTime=span[1],
            Period=PERIOD_SECONDS,
            **which,
        )
        return list(found["Datapoints"])

    def _settled(self) -> dict[str, Any] | None:
        """Return the endpoint once it is not about to change, None when there is none.

        Raises:
            UserError: when it is not ours.
        """
        found = self._find("describe_endpoint", EndpointName=self._name)
        if found and not self._is_ours(found["EndpointArn"]):
            raise UserError(
                f"endpoint {self._name!r} exists and has no tag {TAG}={self._name}; delete it or give it this tag, "
                "or give the use case another name"
            )
        for _ in range(POLLS):
            if not found or found["EndpointStatus"] in (READY, *FAILED):
                return found
            self._pause(POLL_SECONDS)
            found = self._find("describe_endpoint", EndpointName=self._name)
        raise UnavailableError(f"endpoint {self._name!r} is still {found and found['EndpointStatus']}; run it again")

    def _await(self, config: str) -> None:
        found = self._settled()
        if not found or found["EndpointStatus"] != READY or found["EndpointConfigName"] != config:
            why = (found or {}).get("FailureReason", "it gave no reason")
            raise BadVersionError(
                f"endpoint {self._name!r} does not serve {config}: {why}; look at its log in CloudWatch"
            )

    def _has(self, found: dict[str, Any], parts: Sequence[Part]) -> bool:
        """Return whether an endpoint runs these versions, at any weights."""
        config = self._find("describe_endpoint_config", EndpointConfigName=found["EndpointConfigName"])
        if not config or len(config["ProductionVariants"]) != len(parts):
            return False
        wanted = [_without_weight(each) for each in self._variants(parts)]
        return all(any(holds(each, variant) for each in config["ProductionVariants"]) for variant in wanted)

    def _weigh(self, found: dict[str, Any], parts: Sequence[Part]) -> None:
        now = {each["VariantName"]: each["CurrentWeight"] for each in found["ProductionVariants"]}
        wanted = {_variant(part): part.traffic for part in parts}
        if now == wanted:
            return
        weights = [{"VariantName": name, "DesiredWeight": weight} for name, weight in wanted.items()]
        self._call(
            "update_endpoint_weights_and_capacities", EndpointName=self._name, DesiredWeightsAndCapacities=weights
        )
        self._settled()

    def _make_model(self, part: Part) -> None:
        source = {"S3Uri": f"{part.version.uri.rstrip('/')}/", "S3DataType": "S3Prefix", "CompressionType": "None"}
        container = {"Image": self._place.image, "ModelDataSource": {"S3DataSource": source}} | self._environment
        content = {"PrimaryContainer": container, "ExecutionRoleArn": self._place.role}
        self._make("model", {"ModelName": self._model(part)}, content)

    def _make_config(self, parts: Sequence[Part]) -> str:
        content = {"ProductionVariants": self._variants(parts)}
        name = f"{self._name}-{storage.fingerprint(content)[:12]}"
        self._make("endpoint_config", {"EndpointConfigName": name}, content)
        return name

    def _make(self, kind: str, named: dict[str, str], content: dict[str, Any]) -> None:
        """Make what cannot be changed, unless it is there already.

        Raises:
            UserError: when something else bears its name.
        """
        found = self._find(f"describe_{kind}", **named)
        if not found:
            self._call(f"create_{kind}", **named, **content, Tags=self._tags)
        elif not holds(found, content):
            raise UserError(
                f"{kind} {next(iter(named.values()))!r} exists with other content; delete it and run it again"
            )

    def _leftovers(self, kind: str, needed: set[str]) -> Iterator[str]:
        """Yield the names of ours that nothing needs."""
        word = {"endpoint_config": "EndpointConfig", "model": "Model"}[kind]
        pages = self._clients.sagemaker.get_paginator(f"list_{kind}s").paginate(NameContains=f"{self._name}-")
        for found in _called(lambda: [each for page in pages for each in page[f"{word}s"]]):
            name = found[f"{word}Name"]
            if name.startswith(f"{self._name}-") and name not in needed and self._is_ours(found[f"{word}Arn"]):
                yield name

    def _is_ours(self, arn: str) -> bool:
        return self._tags[0] in self._call("list_tags", ResourceArn=arn)["Tags"]

    @property
    def _tags(self) -> list[dict[str, str]]:
        return [{"Key": TAG, "Value": self._name}]

    @property
    def _environment(self) -> dict[str, dict[str, str]]:
        return {"Environment": {DEVICE: "cuda"}} if self._place.has_gpu else {}

    def _model(self, part: Part) -> str:
        known = [part.version.sha256, part.version.uri, self._place.image, self._place.role, self._environment]
        return f"{self._name}-v{part.version.version}-{storage.fingerprint(known)[:12]}"

    def _variants(self, parts: Sequence[Part]) -> list[dict[str, Any]]:
        size = {"InstanceType": self._place.instance, "InitialInstanceCount": self._place.count}
        size |= {"InferenceAmiVersion": AMI} if self._place.has_gpu else {}
        return [
            {"VariantName": _variant(part), "ModelName": self._model(part), "InitialVariantWeight": part.traffic} | size
            for part in parts
        ]

    def _call(self, operation: str, **given: Any) -> Any:
        return _called(getattr(self._clients.sagemaker, operation), **given)

    def _find(self, operation: str, **named: str) -> dict[str, Any] | None:
        """Describe something, None when there is nothing."""
        try:
            found: dict[str, Any] = self._call(operation, **named)
        except _MissingError:
            return None
        return found


class _MissingError(UserError):
    """What was asked for is not there."""


def _variant(part: Part) -> str:
    return f"v{part.version.version}"


def _without_weight(variant: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in variant.items() if name != "InitialVariantWeight"}


def _called(function: Callable[..., Any], **given: Any) -> Any:
    """Call AWS.

    Raises:
        UserError: when it refuses.
        UnavailableError: when it does not answer, or may answer later.
    """
    from botocore import exceptions as aws

    try:
        return function(**given)
    except aws.ClientError as error:
        code, text = error.response["Error"]["Code"], error.response["Error"]["Message"]
        if code == "ValidationException" and text.startswith("Could not find"):
            raise _MissingError(text) from None
        if code in PASSING or may_pass(error.response["ResponseMetadata"]["HTTPStatusCode"]):
            raise UnavailableError(f"SageMaker: {text} ({code}); run it again") from None
        raise UserError(f"SageMaker refuses {error.operation_name}: {text} ({code})") from None
    except (aws.ConnectionError, aws.HTTPClientError) as error:
        raise UnavailableError(f"SageMaker does not answer: {error}; run it again") from None
    except aws.BotoCoreError as error:
        raise UserError(f"SageMaker cannot be asked: {error}") from None
