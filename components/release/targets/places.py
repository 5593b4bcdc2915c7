"""Which target a state means, and what its versions can be asked."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import urllib3

from components.common.contracts.state import State
from components.common.contracts.state import Target as Kind
from components.common.errors import UnavailableError, UserError, check_names, may_pass
from components.common.registry import Version
from components.deployment import endpoint
from components.release.targets import Part, Target

TIMEOUT_SECONDS = 10
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


def _managed(serving: Mapping[str, Any], name: str) -> Target:
    kinds = {"sagemaker": _sagemaker, "kserve": _kserve}
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


def _kserve(given: dict[str, Any], name: str) -> Target:
    import kubernetes

    from components.release.targets import kserve

    token = Path(given.pop("token_file", "")) if "token_file" in given else None
    place = _place(kserve.Place, given)
    try:
        kubernetes.config.load_config()
    except kubernetes.config.ConfigException as error:
        raise UserError(f"no cluster to reach KServe on: {error}; set KUBECONFIG, or run it in the cluster") from None
    return kserve.KServe(name, place, kubernetes.client.CustomObjectsApi(), _asker(token))


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


def _asker(token: Path | None) -> Any:
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token.read_text().strip()}"

    def ask(url: str, body: bytes) -> bytes:
        try:
            answer = urllib3.request("POST", url, body=body, headers=headers, timeout=TIMEOUT_SECONDS)
        except urllib3.exceptions.HTTPError as error:
            raise UnavailableError(f"{url} does not answer: {error}; run it again") from None
        if may_pass(answer.status):
            raise UnavailableError(f"{url} answers {answer.status}; run it again")
        return answer.data

    return ask
