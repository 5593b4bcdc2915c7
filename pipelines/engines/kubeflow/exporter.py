"""Shows Prometheus the runs on Kubeflow, from outside: what did not start, or was killed, cannot report itself."""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import kfp_server_api as api
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily

from nightshift.cluster.kubeflow import KubeflowApi
from nightshift.runtime.errors import UnavailableError, UserError
from pipelines.engines.kubeflow.submission import SUCCEEDED

MAX_RUNS = 200  # runs that are looked at, some two months of two pipelines a day
LABELS = ["pipeline", "use_case"]
UNDER_WAY = ("PENDING", "RUNNING", "CANCELING", "PAUSED")
Whose = tuple[str, str]
Grouped = dict[Whose, list[api.V2beta1Run]]


class Runs:
    """The runs of an experiment, asked for at every scrape. It changes nothing there."""

    def __init__(self, server: KubeflowApi, say: Callable[[str], None], now: Callable[[], float] = time.time) -> None:
        self._server = server
        self._say = say
        self._now = now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics; where the API does not answer only that it does not."""
        metrics = []
        try:
            metrics = [*self._schedules(), *self._runs()]
        except (UserError, UnavailableError) as error:
            self._say(str(error))
        yield GaugeMetricFamily("nightshift_kubeflow_up", "whether its API answers", float(bool(metrics)))
        yield from metrics

    def _schedules(self) -> Iterator[GaugeMetricFamily]:
        service = api.RecurringRunServiceApi(self._server.client)
        runs = self._list_newest(service.recurring_run_service_list_recurring_runs, "recurring_runs")
        since = {_starts(run): _begin(run) for run in runs if run.status == "ENABLED"}
        ours = {whose: value for whose, value in since.items() if all(whose)}
        yield _gauge("schedule_timestamp_seconds", "since when it is scheduled", ours)

    def _runs(self) -> Iterator[GaugeMetricFamily]:
        runs = self.group()
        ended = {"success": _select_states(SUCCEEDED, runs), "failure": _select_states(("FAILED",), runs)}
        for word, groups in ended.items():
            ends = {whose: _end(group[0]) for whose, group in groups.items()}
            yield _gauge(f"run_last_{word}_timestamp_seconds", f"when its last {word} ended", ends)
        took = {whose: _end(group[0]) - _begin(group[0]) for whose, group in ended["success"].items()}
        yield _gauge("run_seconds", "duration of its last success", took)
        since = {whose: self._now() - _begin(group[-1]) for whose, group in _select_states(UNDER_WAY, runs).items()}
        yield _gauge("run_under_way_seconds", "age of its oldest unfinished run", since)
        counts = Counter((*whose, run.state) for whose, group in runs.items() for run in group)
        yield _gauge("runs", f"its runs among the newest {MAX_RUNS}", counts, [*LABELS, "state"])

    def group(self) -> Grouped:
        """Return the runs of each pipeline and use case, newest first; what has no use case is not ours."""
        runs = self._list_newest(api.RunServiceApi(self._server.client).run_service_list_runs, "runs")
        groups, names = defaultdict(list), self._pipelines()
        for run in runs:
            reference = run.pipeline_version_reference
            name = names.get(reference.pipeline_id) if reference else _compiled_name(run.pipeline_spec)
            use_case = read_parameter(run, "config").get("name")
            if name and use_case:
                groups[name, use_case].append(run)
        return groups

    def _pipelines(self) -> dict[str, str]:
        """Return the names of the uploaded pipelines by id."""
        listing = api.PipelineServiceApi(self._server.client).pipeline_service_list_pipelines
        page = self._server.call(lambda: listing(page_size=MAX_RUNS, **self._server.inside))
        return {pipeline.pipeline_id: pipeline.display_name for pipeline in page.pipelines or []}

    def _list_newest(self, listing: Callable[..., Any], field: str) -> list[Any]:
        """Return the newest of the experiment, which is made by whoever starts the first run, not here."""
        server, experiments = self._server, api.ExperimentServiceApi(self._server.client)
        by_name = experiments.experiment_service_list_experiments
        matches = server.call(
            lambda: server.find_named(by_name, "experiments", server.target.experiment, **server.inside)
        )
        if not matches:
            return []
        options = {"page_size": MAX_RUNS, "sort_by": "created_at desc", "experiment_id": matches[0].experiment_id}
        return list(getattr(server.call(lambda: listing(**options)), field) or [])


def serve(server: KubeflowApi, host: str, port: int, say: Callable[[str], None]) -> None:
    """Answer scrapes until the process is ended.

    Raises:
        UserError: when the address is not to be had.
    """
    registry = CollectorRegistry()
    registry.register(Runs(server, say))
    try:
        listening, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise UserError(f"cannot listen on {host}:{port} ({error.strerror}); give others with --host, --port") from None
    say(f"http://{host}:{listening.server_port}/metrics shows the runs of {server.target.url}")
    threading.Event().wait()


def _gauge(name: str, text: str, values: Mapping[Any, float], labels: list[str] = LABELS) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"nightshift_{name}", text, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def _select_states(states: Iterable[str], runs: Grouped) -> Grouped:
    """Return the runs in some states, and only those of whom there are any."""
    selected = {whose: [run for run in group if run.state in states] for whose, group in runs.items()}
    return {whose: group for whose, group in selected.items() if group}


def _begin(run: api.V2beta1Run) -> float:
    return float(run.created_at.timestamp())


def _end(run: api.V2beta1Run) -> float:
    return float(run.finished_at.timestamp())


def _starts(run: api.V2beta1RecurringRun) -> Whose:
    """Return what a recurring run of `nightly` starts; it is not ours when either is empty."""
    return read_parameter(run, "pipeline") or "", read_parameter(run, "config").get("name", "")


def read_parameter(run: Any, name: str) -> Any:
    """Return a parameter of a run; empty where it has none of the name."""
    parameters = (run.runtime_config and run.runtime_config.parameters) or {}
    return parameters.get(name) or {}


def _compiled_name(spec: dict[str, Any] | None) -> str | None:
    whole = spec or {}
    name = whole.get("pipeline_spec", whole).get("pipelineInfo", {}).get("name")
    return name and str(name)
