"""Which target a state means, and what its versions can be asked."""

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import urllib3

from components.common.contracts.state import State
from components.common.contracts.state import Target as Kind
from components.common.errors import UnavailableError, UserError, check_names, may_pass
from components.common.registry import Version
from components.deployment import endpoint
from components.release.targets import Part, Target

TIMEOUT_SECONDS = 10
TOKEN = "NIGHTSHIFT_SERVING_TOKEN"  # noqa: S105 the name of the variable that holds it
Place = TypeVar("Place")


def of(state: State, name: str) -> Target | None:
    """Return where a use case's versions answer, None where nothing is served.

    Raises:
        UserError: when `state.serving` is not a place.
    """
    if state.serving:
        return _managed(state.serving, name)
    if state.target is not Kind.LOCAL:
        return None
    from components.release.targets.local import Local

    return Local(state, name)


def part(version: Version, traffic: float) -> Part:
    """Return what a target needs of a version, scored by its own files."""
    found = endpoint.example(version.uri)
    return Part(version, traffic, found.request, found.score)


def ask(url: str, body: bytes) -> bytes:
    """Return what a served model answers to a body.

    Raises:
        UnavailableError: when it does not.
    """
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get(TOKEN):
        headers["Authorization"] = f"Bearer {token}"
    try:
        answer = urllib3.request("POST", url, body=body, headers=headers, timeout=TIMEOUT_SECONDS)
    except urllib3.exceptions.HTTPError as error:
        raise UnavailableError(f"{url} does not answer: {error}; run it again") from None
    if may_pass(answer.status):
        raise UnavailableError(f"{url} answers {answer.status}; run it again")
    return answer.data


def _managed(serving: Mapping[str, Any], name: str) -> Target:
    kinds = {"sagemaker": _sagemaker, "kserve": _standard, "knative": _knative}
    kind = serving.get("kind")
    if kind not in kinds:
        raise UserError(f"state.serving.kind is {kind!r}; allowed: {', '.join(kinds)}")
    return kinds[kind]({key: value for key, value in serving.items() if key != "kind"}, name)


def _sagemaker(given: dict[str, Any], name: str) -> Target:
    import boto3

    from components.release.targets import sagemaker

    place = _place(sagemaker.Place, given)
    clients = [boto3.client(service) for service in ("sagemaker", "sagemaker-runtime", "cloudwatch")]
    return sagemaker.SageMaker(name, place, sagemaker.Clients(*clients))


def _standard(given: dict[str, Any], name: str) -> Target:
    from components.release.targets import standard

    return standard.Standard(name, _place(standard.Scaled, given), _cluster(), ask)


def _knative(given: dict[str, Any], name: str) -> Target:
    from components.release.targets import knative, kserve

    return knative.Knative(name, _place(kserve.Place, given), _cluster(), ask)


def _cluster() -> Any:
    """Return a client of the cluster that a kubeconfig names, or that this runs in.

    Raises:
        UserError: when there is none.
    """
    import kubernetes

    try:
        kubernetes.config.load_config()
    except kubernetes.config.ConfigException as error:
        raise UserError(f"no cluster to reach KServe on: {error}; set KUBECONFIG, or run it in the cluster") from None
    return kubernetes.client.CustomObjectsApi()


def _place(kind: type[Place], given: dict[str, Any]) -> Place:
    known = fields(kind)  # type: ignore[arg-type]
    check_names("state.serving", given, [each.name for each in known])
    # numbers in a pipeline's parameters are floats
    typed = {
        each.name: int(given[each.name]) if each.type is int else given[each.name]
        for each in known
        if each.name in given
    }
    try:
        return kind(**typed)
    except TypeError as error:
        raise UserError(f"state.serving: {error}; see docs/release.md") from None
