"""What the command line does on Kubeflow: submit a run and watch it, upload pipelines, schedule them."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import kfp_server_api as api

from nightshift import storage
from nightshift.cluster.kubeflow import Definition, KubeflowApi, find_newest_version
from nightshift.runtime.argv import require_short
from nightshift.runtime.errors import UserError
from pipelines import ir

SUCCEEDED = ("SUCCEEDED", "SKIPPED")
ENDED = (*SUCCEEDED, "FAILED", "CANCELED")
# why a pipeline has no clock, see `configs.clocks`
UNSCHEDULED = {"training": "controller.retrain is on_drift", "release": "release.gradual is false"}


def watch(server: KubeflowApi, run_id: str, say: Callable[[str], None], every: float = 5.0) -> bool:
    """Wait for a run to end, telling each change of a step's state and of its own.

    Args:
        server: where it runs.
        run_id: the run.
        say: is given a line at a time.
        every: seconds between two looks.

    Returns:
        whether it succeeded.
    """
    reported: dict[str, str] = {}
    while True:
        run = server.run(run_id)
        for name, state in _states(run).items():
            if reported.get(name) != state:
                say(f"{name} {state.lower()}")
                reported[name] = state
        if run.state in ENDED:
            return run.state in SUCCEEDED
        time.sleep(every)


def upload(server: KubeflowApi, name: str, compiled: bytes) -> bool:
    """Make a compiled pipeline the newest version of the pipeline of that name.

    Returns:
        whether it was not yet.
    """
    service, uploads = api.PipelineServiceApi(server.client), api.PipelineUploadServiceApi(server.client)
    content = storage.sha256(compiled)[:12]
    mark = f"nightshift {content}"

    def there() -> list[Any]:
        return server.find_named(service.pipeline_service_list_pipelines, "pipelines", name, **server.inside)

    def same() -> list[Any]:
        newest = [version for pipeline in there() for version in find_newest_version(service, pipeline.pipeline_id)]
        return [version for version in newest if version.description == mark]

    def make() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, f"{name}.yaml")
            file.write_bytes(compiled)
            return send(str(file))

    def send(file: str) -> Any:
        for pipeline in there():
            # the time keeps it apart from an older version of the same content, to which one may go back
            version = f"{content}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
            options = {"name": version, "pipelineid": pipeline.pipeline_id, "description": mark}
            return uploads.upload_pipeline_version(file, **options)
        return uploads.upload_pipeline(file, name=name, description=mark, **server.inside)

    return server.find_or_create(same, make)[1]


def recurring(name: str, pipeline: ir.Pipeline, parameters: dict[str, Any], cron: str) -> api.V2beta1RecurringRun:
    """Describe a recurring run: enabled, one at a time, without making up for missed ones.

    Args:
        name: its display name.
        pipeline: what it runs.
        parameters: with which parameters.
        cron: five fields, in the time zone of the cluster's scheduler (UTC unless set otherwise).

    Raises:
        UserError: when the parameters are too long for a container's arguments.
    """
    require_short(parameters, "Kubeflow")
    fingerprint = storage.fingerprint([storage.sha256(pipeline.yaml), parameters, cron])
    definition = Definition.read(pipeline.yaml)
    return api.V2beta1RecurringRun(
        display_name=name,
        description=f"nightshift schedule {fingerprint}",
        runtime_config=api.V2beta1RuntimeConfig(parameters=parameters),
        # Kubeflow's cron begins with seconds
        trigger=api.V2beta1Trigger(cron_schedule=api.V2beta1CronSchedule(cron=f"0 {cron}")),
        mode=api.RecurringRunMode.ENABLE,
        max_concurrency="1",
        no_catchup=True,
        service_account=definition.account or None,
        **definition.fields,
    )


@dataclass(frozen=True)
class ScheduleChange:
    """A change to the recurring runs of a name.

    Attributes:
        name: their display name.
        wanted: the one that is to be there alone; None for nothing.
        others: those that are there instead.
    """

    name: str
    wanted: api.V2beta1RecurringRun | None
    others: list[api.V2beta1RecurringRun]

    @property
    def when(self) -> str:
        """When it will start, in words."""
        cron = self.wanted and self.wanted.trigger.cron_schedule.cron.removeprefix("0 ")
        return f"at {cron} UTC" if cron else f"not scheduled, since {UNSCHEDULED[self.name.rpartition('-')[2]]}"


def change(server: KubeflowApi, name: str, wanted: api.V2beta1RecurringRun | None, replace: bool) -> ScheduleChange:
    """Find what is there instead of the wanted recurring run, and change nothing yet.

    Raises:
        UserError: when there is another one, and `replace` does not allow to delete it.
    """
    others = [run for run in server.call(lambda: _find_recurring(server, name)) if not _is_same(run, wanted)]
    if others and not replace:
        raise UserError(f"there is another recurring run {name!r} ({others[0].recurring_run_id}); --replace deletes it")
    return ScheduleChange(name, wanted, others)


def schedule(server: KubeflowApi, change: ScheduleChange) -> bool:
    """Carry a change out.

    Returns:
        whether anything had to be changed.
    """
    service, wanted, new = api.RecurringRunServiceApi(server.client), change.wanted, False
    if wanted is not None:
        wanted.experiment_id = server.experiment
        wanted.service_account = wanted.service_account or server.target.service_account or None
        _, new = server.find_or_create(
            lambda: [run for run in _find_recurring(server, change.name) if _is_same(run, wanted)],
            lambda: service.recurring_run_service_create_recurring_run(wanted),
        )
    # only now, so that at no moment there is none
    for run in change.others:
        server.call(partial(service.recurring_run_service_delete_recurring_run, run.recurring_run_id))
    return new or bool(change.others)


def _find_recurring(server: KubeflowApi, name: str) -> list[api.V2beta1RecurringRun]:
    listing = api.RecurringRunServiceApi(server.client).recurring_run_service_list_recurring_runs
    return server.find_named(listing, "recurring_runs", name, experiment_id=server.experiment)


def _is_same(run: api.V2beta1RecurringRun, wanted: api.V2beta1RecurringRun | None) -> bool:
    """Return whether a run is as wanted, by its fingerprint: the server writes a definition in its own way."""
    return wanted is not None and run.description == wanted.description and run.status != "DISABLED"


def _states(run: api.V2beta1Run) -> dict[str, str]:
    tasks = (run.run_details and run.run_details.task_details) or []
    return {task.display_name: task.state for task in tasks if task.state} | {"run": run.state or "PENDING"}
