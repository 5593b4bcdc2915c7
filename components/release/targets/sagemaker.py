"""Amazon SageMaker: an endpoint named after the use case, a variant a version, a model a version.

Models and endpoint configurations cannot be changed, so their names say what is in them. A share changes in place, by
the weights of the variants; another set of versions is another configuration, which SageMaker brings up beside the old
one and drops again where it does not become healthy.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from components.release.targets import (
    TOLERANCE,
    BadVersionError,
    NoAnswerError,
    VersionShare,
    ask_until_valid,
    is_superset,
    parse_answer,
)
from components.release.verdicts import RequestFigures
from nightshift import storage
from nightshift.runtime.errors import UnavailableError, UserError, may_pass
from nightshift.serving.options import DEVICE

TAG = "nightshift"
READY, FAILED = "InService", ("Failed", "OutOfService", "UpdateRollbackFailed")
PERIOD_SECONDS = 3600  # over which CloudWatch sums up
GPU = re.compile(r"ml\.[gp]\d")  # families with NVIDIA GPUs
AMI = "al2023-ami-sagemaker-inference-gpu-4-1"  # has the driver that the CUDA of the image needs
PASSING = ("ThrottlingException", "ResourceInUse", "RequestLimitExceeded", "ModelError")


@dataclass(frozen=True)
class SageMakerSettings:
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
class SageMakerClients:
    """How SageMaker is reached.

    Attributes:
        sagemaker, runtime, cloudwatch: boto3's clients of `sagemaker`, `sagemaker-runtime` and `cloudwatch`.
        polling: `WaiterConfig` of boto3's waiters: how often a change is looked at, in seconds, and how many times.
    """

    sagemaker: Any
    runtime: Any
    cloudwatch: Any
    polling: Mapping[str, float] = field(default_factory=lambda: {"Delay": 10, "MaxAttempts": 180})


class SageMaker:
    """The endpoint of a use case."""

    splits, tolerance = True, TOLERANCE

    def __init__(
        self,
        name: str,
        settings: SageMakerSettings,
        clients: SageMakerClients,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Makes no calls.

        Args:
            name: the use case.
            settings: what its variants run on.
            clients: of AWS.
            pause: called with the seconds between two requests to a version.
        """
        self._name, self._settings, self._clients, self._pause = name, settings, clients, pause

    def apply(self, split: Sequence[VersionShare]) -> None:
        """Make models and a configuration, and point the endpoint at it; see `ReleaseTarget`."""
        endpoint = self._await_settled()
        if endpoint and endpoint["EndpointStatus"] in FAILED:
            endpoint = self._delete_endpoint()
        if endpoint and self._has(endpoint, split):
            self._weigh(endpoint, split)
            return
        for share in split:
            self._make_model(share)
        config = {"EndpointName": self._name, "EndpointConfigName": self._make_config(split)}
        if endpoint:
            self._call("update_endpoint", **config)
        else:
            self._call("create_endpoint", **config, Tags=self._tags)
        self._check_served(config["EndpointConfigName"])

    def serving(self) -> dict[int, float]:
        """Return the weights of the variants; see `ReleaseTarget`."""
        endpoint = self._find("describe_endpoint", EndpointName=self._name)
        if not endpoint or endpoint["EndpointStatus"] != READY:
            return {}
        weights = _weights(endpoint)
        return {int(name.lstrip("v")): weight / sum(weights.values()) for name, weight in weights.items()}

    def ask(self, share: VersionShare) -> Any:
        """Ask a version's variant; see `ReleaseTarget`."""
        return ask_until_valid(share, lambda: self._invoke(share), self._pause)

    def measure(self, share: VersionShare, since: datetime, until: datetime) -> RequestFigures:
        """Return what CloudWatch has of a variant; see `ReleaseTarget`."""
        requests, errors = (
            sum(datapoint["Sum"] for datapoint in self._figures(share, (since, until), name, Statistics=["Sum"]))
            for name in ("Invocations", "Invocation5XXErrors")
        )
        slowest = self._figures(share, (since, until), "ModelLatency", ExtendedStatistics=["p99"])
        microseconds = max((datapoint["ExtendedStatistics"]["p99"] for datapoint in slowest), default=None)
        return RequestFigures(int(requests), int(errors), None if microseconds is None else microseconds / 1000)

    def clean(self, split: Sequence[VersionShare]) -> None:
        """Delete configurations and models of ours that nothing needs; see `ReleaseTarget`."""
        endpoint = self._await_settled() if split else self._delete_endpoint()
        configs = {endpoint["EndpointConfigName"]} if endpoint else set()
        for name in self._leftovers("endpoint_config", configs):
            self._call("delete_endpoint_config", EndpointConfigName=name)
        for name in self._leftovers("model", {self._model(share) for share in split}):
            self._call("delete_model", ModelName=name)

    def _invoke(self, share: VersionShare) -> Any:
        try:
            answer = _call_aws(
                self._clients.runtime.invoke_endpoint,
                EndpointName=self._name,
                TargetVariant=_variant(share),
                ContentType="application/json",
                Body=json.dumps(share.request),
            )
        except UnavailableError as error:
            raise NoAnswerError(str(error)) from None
        assert answer["InvokedProductionVariant"] == _variant(share)
        return parse_answer(f"variant {_variant(share)}", answer["Body"].read())

    def _figures(
        self, share: VersionShare, span: tuple[datetime, datetime], name: str, **which: list[str]
    ) -> list[Any]:
        variant = {"EndpointName": self._name, "VariantName": _variant(share)}
        statistics = _call_aws(
            self._clients.cloudwatch.get_metric_statistics,
            Namespace="AWS/SageMaker",
            MetricName=name,
            Dimensions=[{"Name": key, "Value": value} for key, value in variant.items()],
            StartTime=span[0],
            EndTime=span[1],
            Period=PERIOD_SECONDS,
            **which,
        )
        return list(statistics["Datapoints"])

    def _await_settled(self) -> dict[str, Any] | None:
        """Return the endpoint once it is not about to change, None when there is none.

        Raises:
            UserError: when it is not ours.
            UnavailableError: when it changes for too long.
        """
        endpoint = self._find("describe_endpoint", EndpointName=self._name)
        if endpoint and not self._is_ours(endpoint["EndpointArn"]):
            raise UserError(
                f"endpoint {self._name!r} exists and has no tag {TAG}={self._name}; delete it or give it this tag, "
                "or give the use case another name"
            )
        return self._await_change(endpoint) if endpoint and _is_changing(endpoint) else endpoint

    def _await_change(self, endpoint: dict[str, Any]) -> dict[str, Any] | None:
        from botocore.exceptions import WaiterError

        kind = "endpoint_deleted" if endpoint["EndpointStatus"] == "Deleting" else "endpoint_in_service"
        waiter = self._clients.sagemaker.get_waiter(kind)
        with suppress(WaiterError):  # whichever way the change ends, the endpoint says it
            _call_aws(waiter.wait, EndpointName=self._name, WaiterConfig=self._clients.polling)
        after = self._find("describe_endpoint", EndpointName=self._name)
        if after and _is_changing(after):
            raise UnavailableError(f"endpoint {self._name!r} is still {after['EndpointStatus']}; run it again")
        return after

    def _delete_endpoint(self) -> dict[str, Any] | None:
        if self._await_settled():
            self._call("delete_endpoint", EndpointName=self._name)
        return self._await_settled()

    def _check_served(self, config: str) -> None:
        """Check that the endpoint has become what a configuration says.

        Raises:
            BadVersionError: when it has not.
        """
        endpoint = self._await_settled() or {}
        if (endpoint.get("EndpointStatus"), endpoint.get("EndpointConfigName")) != (READY, config):
            reason = endpoint.get("FailureReason", "it gave no reason")
            raise BadVersionError(
                f"endpoint {self._name!r} does not serve {config}: {reason}; look at its log in CloudWatch"
            )

    def _has(self, endpoint: dict[str, Any], split: Sequence[VersionShare]) -> bool:
        """Return whether an endpoint runs these versions, at any weights."""
        config = self._find("describe_endpoint_config", EndpointConfigName=endpoint["EndpointConfigName"])
        if not config or len(config["ProductionVariants"]) != len(split):
            return False
        wanted = [_without_weight(variant) for variant in self._variants(split)]
        return all(any(is_superset(actual, variant) for actual in config["ProductionVariants"]) for variant in wanted)

    def _weigh(self, endpoint: dict[str, Any], split: Sequence[VersionShare]) -> None:
        wanted = {_variant(share): share.traffic for share in split}
        if _weights(endpoint) == wanted:
            return
        weights = [{"VariantName": name, "DesiredWeight": weight} for name, weight in wanted.items()]
        self._call(
            "update_endpoint_weights_and_capacities", EndpointName=self._name, DesiredWeightsAndCapacities=weights
        )
        self._await_settled()

    def _make_model(self, share: VersionShare) -> None:
        source = {"S3Uri": f"{share.version.uri.rstrip('/')}/", "S3DataType": "S3Prefix", "CompressionType": "None"}
        container = {"Image": self._settings.image, "ModelDataSource": {"S3DataSource": source}} | self._environment
        content = {"PrimaryContainer": container, "ExecutionRoleArn": self._settings.role}
        self._make("model", {"ModelName": self._model(share)}, content)

    def _make_config(self, split: Sequence[VersionShare]) -> str:
        content = {"ProductionVariants": self._variants(split)}
        name = f"{self._name}-{storage.fingerprint(content)[:12]}"
        self._make("endpoint_config", {"EndpointConfigName": name}, content)
        return name

    def _make(self, kind: str, named: dict[str, str], content: dict[str, Any]) -> None:
        """Make what cannot be changed, unless it is there already.

        Raises:
            UserError: when something else bears its name.
        """
        existing = self._find(f"describe_{kind}", **named)
        if not existing:
            self._call(f"create_{kind}", **named, **content, Tags=self._tags)
        elif not is_superset(existing, content):
            raise UserError(
                f"{kind} {next(iter(named.values()))!r} exists with other content; delete it and run it again"
            )

    def _leftovers(self, kind: str, needed: set[str]) -> Iterator[str]:
        """Yield the names of ours that nothing needs."""
        prefix = {"endpoint_config": "EndpointConfig", "model": "Model"}[kind]
        pages = self._clients.sagemaker.get_paginator(f"list_{kind}s").paginate(NameContains=f"{self._name}-")
        for summary in _call_aws(lambda: [entry for page in pages for entry in page[f"{prefix}s"]]):
            name = summary[f"{prefix}Name"]
            if name.startswith(f"{self._name}-") and name not in needed and self._is_ours(summary[f"{prefix}Arn"]):
                yield name

    def _is_ours(self, arn: str) -> bool:
        return self._tags[0] in self._call("list_tags", ResourceArn=arn)["Tags"]

    @property
    def _tags(self) -> list[dict[str, str]]:
        return [{"Key": TAG, "Value": self._name}]

    @property
    def _environment(self) -> dict[str, dict[str, str]]:
        return {"Environment": {DEVICE: "cuda"}} if self._settings.has_gpu else {}

    def _model(self, share: VersionShare) -> str:
        known = [share.version.sha256, share.version.uri, self._settings.image, self._settings.role, self._environment]
        return f"{self._name}-v{share.version.version}-{storage.fingerprint(known)[:12]}"

    def _variants(self, split: Sequence[VersionShare]) -> list[dict[str, Any]]:
        size = {"InstanceType": self._settings.instance, "InitialInstanceCount": self._settings.count}
        size |= {"InferenceAmiVersion": AMI} if self._settings.has_gpu else {}
        return [
            {"VariantName": _variant(share), "ModelName": self._model(share), "InitialVariantWeight": share.traffic}
            | size
            for share in split
        ]

    def _call(self, operation: str, **arguments: Any) -> Any:
        return _call_aws(getattr(self._clients.sagemaker, operation), **arguments)

    def _find(self, operation: str, **named: str) -> dict[str, Any] | None:
        """Describe something, None when there is nothing."""
        try:
            description: dict[str, Any] = self._call(operation, **named)
        except _MissingError:
            return None
        return description


class _MissingError(UserError):
    """What was asked for is not there."""


def _variant(share: VersionShare) -> str:
    return f"v{share.version.version}"


def _weights(endpoint: dict[str, Any]) -> dict[str, float]:
    return {variant["VariantName"]: variant["CurrentWeight"] for variant in endpoint["ProductionVariants"]}


def _is_changing(endpoint: dict[str, Any]) -> bool:
    return endpoint["EndpointStatus"] not in (READY, *FAILED)


def _without_weight(variant: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in variant.items() if name != "InitialVariantWeight"}


def _call_aws(function: Callable[..., Any], **arguments: Any) -> Any:
    """Call AWS.

    Raises:
        UserError: when it refuses.
        UnavailableError: when it does not answer, or may answer later.
        WaiterError: as a waiter raises it.
    """
    from botocore import exceptions as aws

    try:
        return function(**arguments)
    except aws.ClientError as error:
        code, text = error.response["Error"]["Code"], error.response["Error"]["Message"]
        if code == "ValidationException" and text.startswith("Could not find"):
            raise _MissingError(text) from None
        if code in PASSING or may_pass(error.response["ResponseMetadata"]["HTTPStatusCode"]):
            raise UnavailableError(f"SageMaker: {text} ({code}); run it again") from None
        raise UserError(f"SageMaker refuses {error.operation_name}: {text} ({code})") from None
    except (aws.ConnectionError, aws.HTTPClientError) as error:
        raise UnavailableError(f"SageMaker does not answer: {error}; run it again") from None
    except aws.WaiterError:
        raise
    except aws.BotoCoreError as error:
        raise UserError(f"SageMaker cannot be asked: {error}") from None
