"""A server that speaks Kubeflow Pipelines' API (v2beta1), its answers built with the models of kfp-server-api.

It refuses what the real one refuses: another token, parameters that are missing, unknown or of another type, a second
experiment or pipeline of the same name, a cron of five fields.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kfp_server_api as api

from nightshift.runtime import strict_yaml
from nightshift_testkit.servers import serving

TYPES: dict[str, tuple[type, ...]] = {
    "STRING": (str,), "STRUCT": (dict,), "LIST": (list,), "BOOLEAN": (bool,),
    "NUMBER_INTEGER": (int, float), "NUMBER_DOUBLE": (int, float),
}  # fmt: skip
CREATED = datetime(2026, 1, 1, tzinfo=UTC)
DESERIALIZER = api.ApiClient()


@dataclass
class KubeflowRequest:
    """What a client has sent."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    token: str | None


@dataclass
class Failure:
    """What happens to the next request of a method and path: an answer of this status, before or after it is done."""

    method: str
    path: str
    status: int = 503
    done: bool = False


class KubeflowError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Kubeflow:
    """The state of the server; `url` says where it is."""

    url: str = ""
    token: str | None = None
    page: bool = False  # answer everything with a page to log in
    states: list[str] = field(default_factory=list)  # a run's state at each look; the last one stays
    failures: list[Failure] = field(default_factory=list)
    requests: list[KubeflowRequest] = field(default_factory=list)
    experiments: list[Any] = field(default_factory=list)
    runs: list[Any] = field(default_factory=list)
    recurring: list[Any] = field(default_factory=list)
    pipelines: list[Any] = field(default_factory=list)
    versions: list[Any] = field(default_factory=list)
    count: int = 0
    execute: Callable[[Any], None] = lambda run: None  # is given each run that is created

    def bodies(self, path: str) -> list[Any]:
        """What has been posted to a path."""
        return [request.body for request in self.requests if (request.method, request.path) == ("POST", path)]

    def answer(self, request: KubeflowRequest) -> Any:
        if self.token and request.token != f"Bearer {self.token}":
            raise KubeflowError(401, "the token is not valid")
        failure = next((f for f in self.failures if (f.method, f.path) == (request.method, request.path)), None)
        if failure:
            self.failures.remove(failure)
        if failure and not failure.done:
            raise KubeflowError(failure.status, "out of order")
        answer = self._routed(request)
        if failure:
            raise KubeflowError(failure.status, "out of order")
        return answer

    def _routed(self, request: KubeflowRequest) -> Any:
        for pattern, function in ROUTES.items():
            method, _, path = pattern.partition(" ")
            match = re.fullmatch(path, request.path)
            if match and method == request.method:
                return function(self, request, *match.groups())
        raise KubeflowError(404, f"no {request.path}")

    def _id(self, kind: str) -> str:
        self.count += 1
        return f"{kind}-{self.count}"

    def _now(self) -> datetime:
        return CREATED + timedelta(seconds=self.count)

    def health(self, request: KubeflowRequest) -> Any:
        return api.V2beta1GetHealthzResponse(multi_user=False)

    def list_experiments(self, request: KubeflowRequest) -> Any:
        return api.V2beta1ListExperimentsResponse(experiments=_matching(self.experiments, request) or None)

    def create_experiment(self, request: KubeflowRequest) -> Any:
        experiment = _read(request.body, "V2beta1Experiment")
        _refuse_twice(self.experiments, experiment)
        experiment.experiment_id = self._id("experiment")
        self.experiments.append(experiment)
        return experiment

    def list_runs(self, request: KubeflowRequest) -> Any:
        return api.V2beta1ListRunsResponse(runs=_page(_matching(self.runs, request), request) or None)

    def create_run(self, request: KubeflowRequest) -> Any:
        run = _read(request.body, "V2beta1Run")
        self._check(run)
        return self._started(run)

    def trigger(self, name: str) -> Any:
        """Let the clock start what a recurring run names."""
        (recurring,) = [job for job in self.recurring if job.display_name == name]
        same = "experiment_id", "pipeline_spec", "pipeline_version_reference", "runtime_config", "service_account"
        values = {field: getattr(recurring, field) for field in same}
        name = f"{name}-{self.count}"
        return self._started(api.V2beta1Run(display_name=name, recurring_run_id=recurring.recurring_run_id, **values))

    def _started(self, run: Any) -> Any:
        run.run_id, run.state, run.created_at = self._id("run"), "PENDING", self._now()
        self.runs.append(run)
        self.execute(run)
        return run

    def get_run(self, request: KubeflowRequest, run_id: str) -> Any:
        run = next((run for run in self.runs if run.run_id == run_id), None)
        if run is None:
            raise KubeflowError(404, f"run {run_id} not found")
        if self.states:
            run.state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            task = api.V2beta1PipelineTaskDetail(run_id=run_id, display_name="ingestion", state=run.state)
            run.run_details = api.V2beta1RunDetails(task_details=[task])
        return run

    def list_recurring(self, request: KubeflowRequest) -> Any:
        page = _page(_matching(self.recurring, request), request)
        return api.V2beta1ListRecurringRunsResponse(recurring_runs=page or None)

    def create_recurring(self, request: KubeflowRequest) -> Any:
        run = _read(request.body, "V2beta1RecurringRun")
        self._check(run)
        if len(run.trigger.cron_schedule.cron.split()) != 6:
            raise KubeflowError(400, "cron has not six fields")
        run.recurring_run_id, run.status, run.created_at = self._id("recurring"), f"{run.mode}D", self._now()
        self.recurring.append(run)
        return run

    def delete_recurring(self, request: KubeflowRequest, recurring_run_id: str) -> Any:
        self.recurring = [run for run in self.recurring if run.recurring_run_id != recurring_run_id]
        return {}

    def list_pipelines(self, request: KubeflowRequest) -> Any:
        return api.V2beta1ListPipelinesResponse(pipelines=_matching(self.pipelines, request) or None)

    def upload_pipeline(self, request: KubeflowRequest) -> Any:
        described = {name: request.query.get(name) for name in ("description", "namespace")}
        pipeline = api.V2beta1Pipeline(display_name=request.query["name"], **described)
        _refuse_twice(self.pipelines, pipeline)
        pipeline.pipeline_id = self._id("pipeline")
        self.pipelines.append(pipeline)
        request.query["pipelineid"] = pipeline.pipeline_id
        self.upload_version(request)
        return pipeline

    def list_versions(self, request: KubeflowRequest, pipeline_id: str) -> Any:
        versions = [version for version in self.versions if version.pipeline_id == pipeline_id]
        return api.V2beta1ListPipelineVersionsResponse(pipeline_versions=_page(versions, request) or None)

    def upload_version(self, request: KubeflowRequest) -> Any:
        spec, *platform = strict_yaml.load_documents(request.body)
        version = api.V2beta1PipelineVersion(
            pipeline_id=request.query["pipelineid"],
            pipeline_version_id=self._id("version"),
            display_name=request.query["name"],
            description=request.query.get("description"),
            created_at=self._now(),
            pipeline_spec={"pipeline_spec": spec, "platform_spec": platform[0]} if platform else spec,
        )
        self.versions.append(version)
        return version

    def _check(self, run: Any) -> None:
        spec = run.pipeline_spec
        if spec is None:
            wanted = run.pipeline_version_reference
            (version,) = [v for v in self.versions if v.pipeline_version_id == wanted.pipeline_version_id]
            spec = version.pipeline_spec
        declared = spec.get("pipeline_spec", spec)["root"].get("inputDefinitions", {}).get("parameters", {})
        parameters = run.runtime_config.parameters
        if set(parameters) != {name for name in declared if "defaultValue" not in declared[name]} | set(
            parameters
        ) & set(declared):
            raise KubeflowError(400, f"parameters {sorted(parameters)} are not {sorted(declared)}")
        for name, value in parameters.items():
            if not isinstance(value, TYPES[declared[name]["parameterType"]]):
                raise KubeflowError(400, f"input parameter {name} has another type")


ROUTES: dict[str, Any] = {
    r"GET /healthz": Kubeflow.health,
    r"GET /experiments": Kubeflow.list_experiments,
    r"POST /experiments": Kubeflow.create_experiment,
    r"GET /runs": Kubeflow.list_runs,
    r"POST /runs": Kubeflow.create_run,
    r"GET /runs/([^/]+)": Kubeflow.get_run,
    r"GET /recurringruns": Kubeflow.list_recurring,
    r"POST /recurringruns": Kubeflow.create_recurring,
    r"DELETE /recurringruns/([^/]+)": Kubeflow.delete_recurring,
    r"GET /pipelines": Kubeflow.list_pipelines,
    r"POST /pipelines/upload": Kubeflow.upload_pipeline,
    r"GET /pipelines/([^/]+)/versions": Kubeflow.list_versions,
    r"POST /pipelines/upload_version": Kubeflow.upload_version,
}


class KubeflowServer(ThreadingHTTPServer):
    kubeflow: Kubeflow


class KubeflowHandler(BaseHTTPRequestHandler):
    """Speaks HTTP for the state that its server carries."""

    server: "KubeflowServer"

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def log_message(self, *_: Any) -> None:
        pass

    def _answer(self, method: str) -> None:
        kubeflow, url = self.server.kubeflow, urlsplit(self.path)
        assert url.path.startswith("/apis/v2beta1/")
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        path = url.path.removeprefix("/apis/v2beta1")
        request = KubeflowRequest(method, path, query, self._body(), self.headers["authorization"])
        kubeflow.requests.append(request)
        try:
            status, value = 200, kubeflow.answer(request)
        except KubeflowError as error:
            status, value = error.status, api.GoogleRpcStatus(code=2, message=str(error))
        content = b"<html>Log in" if kubeflow.page else json.dumps(_written(value)).encode()
        self.send_response(status)
        self.send_header("content-type", "text/html" if kubeflow.page else "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _body(self) -> Any:
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        kind = self.headers.get("content-type", "")
        if "multipart" not in kind:
            return json.loads(content) if content else None
        (part,) = message_from_bytes(b"content-type: " + kind.encode() + b"\r\n\r\n" + content).get_payload()
        return part.get_payload(decode=True).decode()


def serve(kubeflow: Kubeflow) -> Iterator[Kubeflow]:
    """Serve on a free port of the loopback interface."""

    server = KubeflowServer(("127.0.0.1", 0), KubeflowHandler)
    server.kubeflow = kubeflow
    kubeflow.url = f"http://127.0.0.1:{server.server_port}"
    with serving(server):
        yield kubeflow


def _matching(items: list[Any], request: KubeflowRequest) -> list[Any]:
    """Apply the filter by display name, and the experiment, as the API does."""
    predicates = json.loads(request.query.get("filter", "{}")).get("predicates", [])
    for predicate in predicates:
        assert predicate["operation"] == "EQUALS"
        items = [item for item in items if getattr(item, predicate["key"]) == predicate["stringValue"]]
    experiment = request.query.get("experiment_id")
    return [item for item in items if experiment is None or item.experiment_id == experiment]


def _page(items: list[Any], request: KubeflowRequest) -> list[Any]:
    """Return the first page, which is of ten unless more are asked for."""
    newest_first = request.query.get("sort_by") == "created_at desc"
    newest = sorted(items, key=lambda item: item.created_at, reverse=newest_first)
    return newest[: int(request.query.get("page_size", 10))]


def _refuse_twice(items: list[Any], wanted: Any) -> None:
    if any(item.display_name == wanted.display_name for item in items):
        raise KubeflowError(409, f"{wanted.display_name} already exists")


def _read(value: dict[str, Any], model: str) -> Any:
    class Response:
        data = json.dumps(value)

    return DESERIALIZER.deserialize(Response, model)


def _written(value: Any) -> Any:
    return DESERIALIZER.sanitize_for_serialization(value)
