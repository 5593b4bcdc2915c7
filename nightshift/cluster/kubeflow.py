"""Runs on Kubeflow Pipelines, through its API (v2beta1).

Every attempt to create a resource first looks for its name, so that a request with a lost answer is not repeated.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Self, TypeVar

import kfp_server_api as api
import urllib3
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential

from nightshift.cluster import ACCOUNT
from nightshift.runtime import strict_yaml
from nightshift.runtime.argv import require_short
from nightshift.runtime.errors import UnavailableError, UserError, check_names, may_pass

# the token for this API in a pod; Kubeflow's own client reads the same variable and file
MOUNTED_VARIABLE, MOUNTED_FILE = "KF_PIPELINES_SA_TOKEN_PATH", "/var/run/secrets/kubeflow/pipelines/token"
ATTEMPTS = 4
TIMEOUT_SECONDS = 60
REFUSED = (301, 302, 303, 307, 308, 401, 403)  # redirects lead to a login page
Resource = TypeVar("Resource")


@dataclass(frozen=True)
class KubeflowTarget:
    """The Kubeflow and experiment of runs.

    Attributes:
        endpoint: URL of the API, without `/apis`.
        experiment: name of the experiment; created if it is missing.
        namespace: the profile's namespace on a multi-user Kubeflow, empty on others.
        service_account: default account of runs; empty: Kubeflow's own.
    """

    endpoint: str
    experiment: str
    namespace: str = ""
    service_account: str = ""

    def __post_init__(self) -> None:
        """Check the fields.

        Raises:
            UserError: when the endpoint is no URL, or the experiment has no name.
        """
        if not self.endpoint.startswith(("http://", "https://")):
            raise UserError(
                f"endpoint is {self.endpoint!r}; give the URL of Kubeflow Pipelines, http://... or https://..., "
                "with --endpoint or in KFP_ENDPOINT"
            )
        if not self.experiment:
            raise UserError("experiment is empty; give a name with --experiment; it is created if missing")

    @classmethod
    def parse(cls, value: Mapping[str, str]) -> Self:
        """Parse the output of `dataclasses.asdict`.

        Raises:
            UserError: when a field is unknown, or has no allowed value.
        """
        check_names("kubeflow", value, [field.name for field in fields(cls)])
        return cls(**{"endpoint": "", "experiment": "", **value})

    @property
    def url(self) -> str:
        """The endpoint without a trailing slash."""
        return self.endpoint.rstrip("/")


@dataclass(frozen=True)
class Definition:
    """A pipeline to run: a compiled one, or an uploaded version.

    Attributes:
        fields: fields of the API's run or recurring run that name it.
        parameters: name of a parameter -> whether it has a default.
        account: service account for all its steps, needed by one of them; empty: the target's.
    """

    fields: dict[str, Any]
    parameters: dict[str, bool]
    account: str = ""

    @classmethod
    def read(cls, compiled: bytes) -> Self:
        """Read a compiled pipeline's YAML; an optional second document has its Kubernetes settings."""
        spec, *platform = strict_yaml.load_documents(compiled)
        complete = {"pipeline_spec": spec, "platform_spec": platform[0]} if platform else spec
        return cls({"pipeline_spec": complete}, _read_parameters(spec), _find_account(complete))

    @classmethod
    def from_version(cls, version: api.V2beta1PipelineVersion) -> Self:
        """Refer to an uploaded version."""
        reference = api.V2beta1PipelineVersionReference(version.pipeline_id, version.pipeline_version_id)
        spec = version.pipeline_spec
        declared = _read_parameters(spec.get("pipeline_spec", spec))
        return cls({"pipeline_version_reference": reference}, declared, _find_account(spec))


@dataclass(frozen=True)
class SubmittedRun:
    """A run on the cluster.

    Attributes:
        name: its display name.
        run_id: its id.
        url: its page in Kubeflow's UI.
        new: whether it was started just now.
    """

    name: str
    run_id: str
    url: str
    new: bool


class KubeflowApi:
    """The API of one Kubeflow.

    Every method raises `UserError` when the API refuses, and `UnavailableError` when every attempt fails or stays
    unanswered.
    """

    def __init__(self, target: KubeflowTarget, token_file: str = "", pause: float = 0.5) -> None:
        """Contact nothing yet.

        Args:
            target: Kubeflow and experiment of the runs.
            token_file: file with the bearer token; empty: a pod's own, if there is one.
            pause: seconds before the second attempt; doubled before each further one.

        Raises:
            UserError: when there is no such file.
        """
        if token_file and not Path(token_file).is_file():
            raise UserError(f"--token-file is {token_file!r}, and there is no such file; give the one with the token")
        self.target = target
        self.client = _Client(target.url, token_file or os.environ.get(MOUNTED_VARIABLE, MOUNTED_FILE))
        self.inside = {"namespace": target.namespace} if target.namespace else {}
        self._runs = api.RunServiceApi(self.client)
        self._retrying = Retrying(
            stop=stop_after_attempt(ATTEMPTS),
            wait=wait_exponential(multiplier=pause),
            retry=retry_if_exception(_passes),
            reraise=True,
        )

    def submit(self, name: str, definition: Definition, parameters: dict[str, Any]) -> SubmittedRun:
        """Start a run, unless the experiment has one of that name, in any state.

        Raises:
            UserError: when the parameters are too long for a container's arguments.
        """
        require_short(parameters, "Kubeflow")
        config = api.V2beta1RuntimeConfig(parameters=parameters)
        run = api.V2beta1Run(
            experiment_id=self.experiment,
            display_name=name,
            runtime_config=config,
            service_account=definition.account or self.target.service_account or None,
            **definition.fields,
        )
        resource, new = self.find_or_create(
            lambda: self.find_named(self._runs.run_service_list_runs, "runs", name, experiment_id=self.experiment),
            lambda: self._runs.run_service_create_run(run),
        )
        return SubmittedRun(name, resource.run_id, self.page(resource.run_id), new)

    def page(self, run_id: str) -> str:
        """Return the URL of a run's page in Kubeflow's UI."""
        return f"{self.target.url}/#/runs/details/{run_id}"

    def run(self, run_id: str) -> api.V2beta1Run:
        """Return the current state of a run."""
        return self.call(lambda: self._runs.run_service_get_run(run_id))

    def find_newest(self, pipeline: str) -> Definition:
        """Return the newest version of an uploaded pipeline.

        Raises:
            UserError: also when the pipeline has no version.
        """
        pipelines = api.PipelineServiceApi(self.client)
        listing = pipelines.pipeline_service_list_pipelines
        entries = self.call(lambda: self.find_named(listing, "pipelines", pipeline, **self.inside))
        versions = self.call(lambda: find_newest_version(pipelines, entries[0].pipeline_id)) if entries else []
        if not versions:
            raise UserError(f"{self.target.url} has no pipeline {pipeline!r}; upload it with: nightshift schedule")
        return Definition.from_version(versions[0])

    @cached_property
    def experiment(self) -> str:
        """Id of the target's experiment, created if it is missing."""
        experiments = api.ExperimentServiceApi(self.client)
        wanted = api.V2beta1Experiment(display_name=self.target.experiment, **self.inside)
        listing = experiments.experiment_service_list_experiments
        experiment, _ = self.find_or_create(
            lambda: self.find_named(listing, "experiments", self.target.experiment, **self.inside),
            lambda: experiments.experiment_service_create_experiment(wanted),
        )
        return str(experiment.experiment_id)

    def find_or_create(self, find: Callable[[], list[Resource]], make: Callable[[], Resource]) -> tuple[Resource, bool]:
        """Return the first resource of `find`, or the new one of `make`; and whether it is new."""

        def attempt() -> tuple[Resource, bool]:
            existing = find()
            return (existing[0], False) if existing else (make(), True)

        return self.call(attempt)

    def call(self, request: Callable[[], Resource]) -> Resource:
        """Send a request, again while the server fails or does not answer."""
        try:
            return self._retrying(request)
        except urllib3.exceptions.HTTPError as error:
            raise UnavailableError(f"{self.target.url} does not answer ({error}); check --endpoint") from None
        except api.ApiException as error:
            raise self._explain(error) from None

    def find_named(self, listing: Callable[..., Any], field: str, name: str, **where: str) -> list[Any]:
        """Find resources by their display name.

        Args:
            listing: method of the API that lists them.
            field: field of its answer with the resources.
            name: their display name.
            where: further arguments of the method.
        """
        predicate = {"operation": "EQUALS", "key": "display_name", "stringValue": name}
        entries = getattr(listing(filter=json.dumps({"predicates": [predicate]}), **where), field)
        return list(entries or [])

    def _explain(self, error: api.ApiException) -> Exception:
        message = f"{self.target.url} answers {error.status} {error.reason}{_read_message(error)}"
        if error.status in REFUSED:
            return UserError(f"{message}; give the file of a token that may do this with --token-file")
        if _passes(error):
            return UnavailableError(f"{message}, {ATTEMPTS} times; try again later")
        return UserError(f"{message}; check --endpoint and the options")


class _Client(api.ApiClient):  # type: ignore[misc]  # it ships no annotations
    """Reads the token anew for each request, since it is rotated, and limits the wait to a minute."""

    def __init__(self, endpoint: str, token_file: str) -> None:
        configuration = api.Configuration(host=endpoint)
        configuration.retries = False
        configuration.ssl_ca_cert = os.environ.get("SSL_CERT_FILE")
        super().__init__(configuration)
        self.token_file = Path(token_file)

    def request(self, method: str, url: str, headers: dict[str, str], **options: Any) -> Any:
        if self.token_file.is_file():
            headers = headers | {"authorization": f"Bearer {self.token_file.read_text().strip()}"}
        try:
            response = super().request(method, url, headers=headers, **options | {"_request_timeout": TIMEOUT_SECONDS})
        except api.ApiException as error:
            if error.status:
                raise
            reason = " ".join(error.reason.split())
            raise UserError(f"{url}: {reason}; name its certificate authority's file in SSL_CERT_FILE") from None
        if "json" not in response.getheader("content-type", ""):
            raise UserError(f"{url} does not answer with JSON, but perhaps with a login page; check --endpoint")
        return response


def find_newest_version(pipelines: api.PipelineServiceApi, pipeline_id: str) -> list[api.V2beta1PipelineVersion]:
    """Return a list of a pipeline's newest version; empty without versions."""
    page = pipelines.pipeline_service_list_pipeline_versions(pipeline_id, sort_by="created_at desc", page_size=1)
    return list(page.pipeline_versions or [])


def _read_parameters(spec: dict[str, Any]) -> dict[str, bool]:
    declared = spec["root"].get("inputDefinitions", {}).get("parameters", {})
    return {name: bool(parameter.get("isOptional")) for name, parameter in declared.items()}


def _find_account(spec: dict[str, Any]) -> str:
    kubernetes = spec.get("platform_spec", {}).get("platforms", {}).get("kubernetes", {})
    pods = kubernetes.get("deploymentSpec", {}).get("executors", {}).values()
    accounts = {pod.get("podMetadata", {}).get("annotations", {}).get(ACCOUNT) for pod in pods} - {None}
    if len(accounts) > 1:
        raise UserError(f"steps need the service accounts {', '.join(sorted(accounts))}, and a run on Kubeflow has one")
    return next(iter(accounts), "")


def _passes(error: BaseException) -> bool:
    """Return whether an error is transient."""
    if isinstance(error, api.ApiException):
        return may_pass(error.status)
    return isinstance(error, urllib3.exceptions.HTTPError)


def _read_message(error: api.ApiException) -> str:
    """Return the API's message beside the status: the first line of a Google RPC status."""
    try:
        lines = str(json.loads(error.body)["message"]).splitlines()
    except (ValueError, TypeError, KeyError):
        return ""
    return f": {lines[0]}" if lines else ""
