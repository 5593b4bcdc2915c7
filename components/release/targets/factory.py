"""Builds the target of a state, and the requests to its versions."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import datetime
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import urllib3

from components.release.targets import BadVersionError, NoAnswerError, ReleaseTarget, VersionShare
from nightshift import entry_points
from nightshift.contracts.state import DeploymentTarget as Kind
from nightshift.contracts.state import State
from nightshift.local import examples
from nightshift.registry import Version
from nightshift.runtime.errors import UnavailableError, UserError, check_names, may_pass

TIMEOUT_SECONDS = 10
TOKEN = "NIGHTSHIFT_SERVING_TOKEN"  # noqa: S105 the name of the variable that holds it
Settings = TypeVar("Settings")


def find_target(state: State, name: str) -> ReleaseTarget | None:
    """Return where a use case's versions answer, None where nothing is served.

    Raises:
        UserError: when `state.serving` is not a place.
    """
    if state.serving:
        return _build_managed(state.serving, name)
    if state.target is not Kind.LOCAL:
        return None
    from components.release.targets.local import Local

    return Local(state, name)


def build_share(lake: str, version: Version, traffic: float) -> VersionShare:
    """Return a version's share with a request that its own files have scored.

    Args:
        lake: root of the tables, from which a version of images or texts is asked an item of the newest day.
        version: as it is registered.
        traffic: its share of the requests.

    Raises:
        BadVersionError: when its files do not score.
    """
    try:
        example = examples.build_stateless(lake, version.name, version.uri)
    except UserError as error:
        raise BadVersionError(str(error)) from None
    return VersionShare(version, traffic, example.request, example.score)


def ask(url: str, body: bytes) -> bytes:
    """Return the response of a served model to a request.

    Raises:
        UserError: when it refuses the token.
        NoAnswerError: when it does not answer.
    """
    wanted = f"{TOKEN} has to hold what the key `token` of the Secret state.serving.secret holds"
    return _post(url, body, os.environ.get(TOKEN, ""), wanted)


def _build_managed(serving: Mapping[str, Any], name: str) -> ReleaseTarget:
    kinds: dict[str, Callable[[dict[str, Any], str], ReleaseTarget]] = {
        "sagemaker": _sagemaker,
        "kserve": _kserve_raw,
        "llm": _llm,
        "vertex": _vertex,
        "cloudrun": _cloudrun,
    }
    third_party = entry_points.find(entry_points.TARGETS)
    kind = str(serving.get("kind"))
    if kind not in {*kinds, *third_party}:
        raise UserError(f"state.serving.kind is {serving.get('kind')!r}; allowed: {', '.join([*kinds, *third_party])}")
    build = kinds[kind] if kind in kinds else third_party[kind].load()
    target: ReleaseTarget = build({key: value for key, value in serving.items() if key != "kind"}, name)
    return target


def _sagemaker(serving: dict[str, Any], name: str) -> ReleaseTarget:
    import boto3

    from components.release.targets.sagemaker import SageMaker, SageMakerClients, SageMakerSettings

    settings = _settings(SageMakerSettings, serving)
    clients = [boto3.client(service) for service in ("sagemaker", "sagemaker-runtime", "cloudwatch")]
    return SageMaker(name, settings, SageMakerClients(*clients))


def _kserve_raw(serving: dict[str, Any], name: str) -> ReleaseTarget:
    from components.release.targets.kserve_raw import KServeRawDeployment, RawDeploymentSettings

    return KServeRawDeployment(name, _settings(RawDeploymentSettings, serving), _cluster(), ask)


def _llm(serving: dict[str, Any], name: str) -> ReleaseTarget:
    from components.release.targets.llm_inference_service import Connections, LLMInferenceServices, LLMSettings

    settings = _settings(LLMSettings, serving)
    query = partial(query_prometheus, settings.prometheus) if settings.prometheus else None
    return LLMInferenceServices(name, settings, Connections(_cluster(), ask, time.sleep, query))


def query_prometheus(url: str, query: str, at: datetime) -> Any:
    """Return an instant vector of Prometheus, a list.

    Raises:
        UnavailableError: when it does not answer with one.
    """
    fields = {"query": query, "time": str(at.timestamp())}
    try:
        answer = urllib3.request("GET", f"{url}/api/v1/query", fields=fields, timeout=TIMEOUT_SECONDS)
        return answer.json()["data"]["result"]
    except (urllib3.exceptions.HTTPError, ValueError, LookupError, TypeError) as error:
        raise UnavailableError(f"Prometheus at {url} does not answer {query}: {error!r}; run it again") from None


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


def _vertex(serving: dict[str, Any], name: str) -> ReleaseTarget:
    from google.cloud import aiplatform_v1 as api

    from components.release.targets.google_cloud import find_credentials
    from components.release.targets.vertex import Vertex, VertexClients, VertexSettings

    settings, credentials = _settings(VertexSettings, serving), find_credentials()
    options = {"api_endpoint": f"{settings.region}-aiplatform.googleapis.com"}
    kinds = (api.EndpointServiceClient, api.ModelServiceClient, api.PredictionServiceClient)
    return Vertex(
        name, settings, VertexClients(*(kind(credentials=credentials, client_options=options) for kind in kinds))
    )


def _cloudrun(serving: dict[str, Any], name: str) -> ReleaseTarget:
    from google.cloud import run_v2 as api

    from components.release.targets.cloudrun import CloudRun, CloudRunClients, CloudRunSettings
    from components.release.targets.google_cloud import find_credentials

    settings, credentials = _settings(CloudRunSettings, serving), find_credentials()
    services, revisions = (kind(credentials=credentials) for kind in (api.ServicesClient, api.RevisionsClient))
    return CloudRun(name, settings, CloudRunClients(services, revisions, _ask_with_identity))


def _ask_with_identity(url: str, audience: str, body: bytes) -> bytes:
    """Ask with a token that says to a service of Cloud Run who asks."""
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request
    from google.oauth2 import id_token

    from components.release.targets.google_cloud import auth_error

    try:
        token = id_token.fetch_id_token(Request(), audience)
    except GoogleAuthError as error:
        raise auth_error(error, f"no identity of a service account to ask {audience} with") from None
    return _post(url, body, token, "the service account that asks needs roles/run.invoker")


def _settings(kind: type[Settings], serving: dict[str, Any]) -> Settings:
    known = fields(kind)  # type: ignore[arg-type]
    check_names("state.serving", serving, [field.name for field in known])
    # numbers in a pipeline's parameters are floats
    typed = {
        field.name: int(serving[field.name]) if field.type is int else serving[field.name]
        for field in known
        if field.name in serving
    }
    try:
        return kind(**typed)
    except TypeError as error:
        raise UserError(f"state.serving: {error}; see docs/guides/release.md") from None


def _post(url: str, body: bytes, token: str, wanted: str) -> bytes:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    try:
        answer = urllib3.request("POST", url, body=body, headers=headers, timeout=TIMEOUT_SECONDS)
    except urllib3.exceptions.HTTPError as error:
        raise NoAnswerError(f"{url} does not answer: {error}") from None
    if answer.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        raise UserError(f"{url} answers {answer.status}; {wanted}")
    if may_pass(answer.status):
        raise NoAnswerError(f"{url} answers {answer.status}")
    return answer.data
