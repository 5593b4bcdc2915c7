"""Notifies people of runs that failed on Kubeflow, from outside: there no step starts after one that failed.

A step that ignores failures would be none either: Kubeflow makes of it a hook of each step that it depends on, and the
exit task of a `dsl.ExitHandler` gets no artifacts (kubeflow/pipelines, argocompiler/dag.go and `block_if_final`).
"""

from collections.abc import Callable
from datetime import date
from typing import Any

import kfp_server_api as api

from nightshift.cluster.kubeflow import KubeflowApi
from nightshift.config import Config, parse
from nightshift.config.notify import NightEvent
from nightshift.contracts.notification import Notification
from nightshift.contracts.state import DeploymentTarget, State
from nightshift.data.dates import parse_date
from nightshift.data.splits import last_complete_day
from nightshift.notify.delivery import Notifier
from nightshift.notify.outbox import Night
from nightshift.runtime.errors import UserError
from pipelines.engines.kubeflow.exporter import Runs, read_parameter

FAILED = "FAILED"
INTERNAL = ("root", "executor", "iteration")  # how nodes of Kubeflow's own begin, which are no step


def add_failures(server: KubeflowApi, say: Callable[[str], None]) -> list[Notifier]:
    """Add the newest run of each pipeline and use case to the outbox of its state if it failed.

    Args:
        server: where the runs are; it is only read.
        say: is given a line for each run whose parameters this version does not read.

    Returns:
        the outbox of each use case that has receivers.

    Raises:
        UserError, UnavailableError: when Kubeflow, or a state, refuses or is down.
    """
    notifiers: dict[str, Notifier] = {}
    for (pipeline, use_case), runs in Runs(server, say).group().items():
        if (newest := next(filter(_is_live, runs), None)) is None:
            continue
        try:
            config, state = parse(read_parameter(newest, "config")), State.from_mapping(read_parameter(newest, "state"))
        except UserError as error:
            say(f"{newest.display_name}: {error}")
            continue
        if config.notify.receivers:
            notifier = notifiers.setdefault(use_case, Notifier(state.audit, config.notify))
            notifier.add(derive(server, newest, pipeline, config))
    return list(notifiers.values())


def derive(server: KubeflowApi, run: api.V2beta1Run, pipeline: str, config: Config) -> Night:
    """Return what is to be reported of a run that has ended: that it failed, or that an earlier failure is over."""
    day = _day(run)
    notifications = []
    if run.state == FAILED:
        steps = " and ".join(_list_failed(server.run(run.run_id)))
        sentence = f"The run failed{f' in {steps}' if steps else ''}. The step's log on Kubeflow says why."
        subject, link = steps or "incomplete", server.page(run.run_id)
        common = {"use_case": config.name, "pipeline": pipeline, "run": run.display_name, "logical_date": day}
        notifications = [Notification(event=NightEvent.FAILED, subject=subject, sentence=sentence, link=link, **common)]
    return Night(config.name, pipeline, day, is_complete=False, notifications=notifications)


def _is_live(run: api.V2beta1Run) -> bool:
    """Return whether a run has ended and is no past day's, which changes nothing that is live."""
    target = read_parameter(run, "state").get("target")
    return run.state in ("SUCCEEDED", FAILED) and target != DeploymentTarget.RECORD_ONLY


def _day(run: api.V2beta1Run) -> date:
    """Return the logical date, which a run of `nightly` finds out itself."""
    text: Any = read_parameter(run, "date")
    return parse_date(text) if text else last_complete_day(run.created_at)


def _list_failed(run: api.V2beta1Run) -> list[str]:
    """Return the steps that failed; Kubeflow lists its drivers and pods with them, and says of none why."""
    tasks = (run.run_details and run.run_details.task_details) or []
    names = [task.display_name.removesuffix("-driver") for task in tasks if task.state == FAILED and task.display_name]
    return [name for name in dict.fromkeys(names) if not name.startswith(INTERNAL)]
