"""Where Airflow runs a pipeline, and its command lines in one DAG run."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowFailException
from jinja2 import pass_context

from nightshift import storage
from nightshift.contracts.state import DeploymentTarget
from nightshift.data.dates import parse_date
from nightshift.data.splits import last_complete_day
from nightshift.runtime.errors import UserError, check_names
from pipelines import arguments, configs, environments, ir
from pipelines.arguments import run_name
from pipelines.commands import Commands

EXPERIMENT = "nightshift"
OPENLINEAGE = "openlineage"  # in the conf of a run that another DAG has started, by OpenLineage's provider
NAMESPACE = "kubeflow"  # where the accounts, the claims and the secrets of the steps are, whoever starts them


@dataclass(frozen=True)
class AirflowSettings:
    """Where the runs of a use case go and what their form says by default.

    docs/guides/integrations/airflow.md lists the variables.

    Attributes:
        environment: `local`, where a step is a process, or a cluster, where it is a pod.
        workspace: folder of everything a local environment keeps.
        python: the interpreter of the project's own environment, for processes.
        kubeflow: URL of Kubeflow's API, when a cluster's runs are to be its; else empty.
        namespace: of the pods; of the runs on a multi-user Kubeflow.
        reports: URL under which the folder of the runs is served; empty when it is not.
        data: where the raw events lie.
        config: of the use case, a name or a file.
        use_case: its name; empty for a pipeline of none.
    """

    environment: str
    workspace: Path
    python: Path
    kubeflow: str
    namespace: str
    reports: str
    data: str
    config: str = configs.DEFAULT
    use_case: str = ""

    @classmethod
    def from_environment(cls, variables: Mapping[str, str] = os.environ) -> "AirflowSettings":
        """Read the environment variables.

        Raises:
            UserError: when they name an environment that does not exist.
        """
        environment = environments.site(variables.get("NIGHTSHIFT_ENVIRONMENT", environments.LOCAL.name)).name
        is_cluster = environment != environments.LOCAL.name
        kubeflow = variables.get("KFP_ENDPOINT", "") if is_cluster else ""
        return cls(
            environment=environment,
            workspace=Path(variables.get("NIGHTSHIFT_WORKSPACE", ".")),
            python=Path(variables.get("NIGHTSHIFT_PYTHON", sys.executable)),
            kubeflow=kubeflow,
            namespace=variables.get("KFP_NAMESPACE", "")
            if kubeflow
            else variables.get("NIGHTSHIFT_NAMESPACE", NAMESPACE),
            reports=variables.get("NIGHTSHIFT_REPORTS", "").rstrip("/"),
            data=variables.get("NIGHTSHIFT_DATA", arguments.SIMULATOR),
        )

    @property
    def is_cluster(self) -> bool:
        """Whether steps are pods."""
        return self.environment != environments.LOCAL.name

    @property
    def device(self) -> str:
        """The device by default: the one the image of the GPU steps is for."""
        return str(environments.site(self.environment).parameters.get("device", "cpu"))

    @property
    def target(self) -> str:
        """Where models are deployed by default."""
        return str(self.state["target"])

    @property
    def inside(self) -> dict[str, str]:
        """Where a step on Kubeflow starts a retraining; elsewhere none does, since Airflow follows the request."""
        if not self.kubeflow:
            return {}
        cluster = {"endpoint": environments.KUBEFLOW_INSIDE, "experiment": EXPERIMENT}
        return cluster | {"namespace": self.namespace, "service_account": environments.SERVICE_ACCOUNT}

    @property
    def state(self) -> dict[str, Any]:
        """The state in this environment; on a cluster, with the Kubeflow of its steps."""
        if self.is_cluster:
            return {**environments.site(self.environment).parameters["state"], "kubeflow": self.inside}
        return environments.local(self.workspace).dump()


@dataclass(frozen=True)
class Rendering:
    """Gives the values of a pipeline in a DAG run, whose context is Airflow's."""

    pipeline: ir.Pipeline
    settings: AirflowSettings

    @pass_context
    def fill(self, context: Any, step: str, kind: str, name: str) -> str:
        """Return the value of a placeholder in a step's command line; a macro of Jinja."""
        (task,) = [task for task in self.pipeline.tasks if task.name == step]
        return self.commands(context).fill(task, kind, name)

    @pass_context
    def root(self, context: Any) -> str:
        """Return the URI of the run's folder; a macro of Jinja."""
        return self.commands(context).root

    @pass_context
    def model_page(self, context: Any) -> str:
        """Return the model's page in the registry, empty where that has none; a macro of Jinja."""
        arguments = self.commands(context).arguments
        registry = str(arguments.get("state", {}).get("registry", ""))
        return storage.join(registry, "#/models", arguments["config"]["name"]) if registry.startswith("http") else ""

    @property
    def macros(self) -> dict[str, Any]:
        """What templates may call."""
        return {"fill": self.fill, "root": self.root, "model_page": self.model_page}

    def commands(self, context: Any) -> Commands:
        """Return the command lines of a DAG run.

        Raises:
            AirflowFailException: when a value is not allowed, which another try would not change.
        """
        try:
            arguments = self._arguments(context)
        except UserError as error:
            raise AirflowFailException(str(error)) from None
        run = run_name(self.pipeline, arguments, _slug(context["dag_run"].run_id))
        root = storage.join(self.settings.state["runs"], run)
        return Commands(root, arguments, partial(self._pull_metadata, context) if self.settings.is_cluster else None)

    def _pull_metadata(self, context: Any, step: str) -> dict[str, Any]:
        """Return the metadata that a step's pod wrote at its end; see `kubernetes.PodOperator`."""
        (task,) = [task for task in self.pipeline.tasks if task.name == step]
        mapped = {"map_indexes": int(step.removeprefix(f"{task.loop}-"))} if task.loop else {}
        return context["ti"].xcom_pull(task_ids=task.loop or step, **mapped) or {}

    def _arguments(self, context: Any) -> dict[str, Any]:
        check_form(context)
        options = {name: value for name, value in context["params"].items() if name in self.pipeline.parameters}
        options["date"] = logical_date(context)
        if "by" in self.pipeline.parameters:
            options["by"] = context["dag_run"].triggering_user_name or ""
        # Airflow's own backfill runs a day in the past, whose model never goes live
        if "state" in self.pipeline.parameters:
            is_past = context["dag_run"].run_type == "backfill"
            options["state.target"] = DeploymentTarget.RECORD_ONLY if is_past else context["params"]["target"]
        if "data" in options and not self.settings.is_cluster:
            options["data"] = arguments.absolute(options["data"])
        return arguments.gather_arguments(self.pipeline, options, self.settings.state)


def check_form(context: Any) -> None:
    """Refuse what a run's conf has and its DAG's form has not; Airflow takes it as one more parameter.

    Raises:
        UserError: naming it and what the form has.
    """
    check_names("conf", set(context["params"]) - {OPENLINEAGE}, context["dag"].params)


def logical_date(context: Any) -> str:
    """Return the day a DAG run is about: the form's, the asset event's, or the last complete one when it was due.

    Raises:
        UserError: when it is no date.
    """
    run = context["dag_run"]
    date = context["params"].get("date") or run.partition_key
    return str(parse_date(date) if date else last_complete_day(run.logical_date or run.run_after))


def _slug(run_id: str) -> str:
    """Return an id that is one part of a path."""
    return re.sub(r"[^A-Za-z0-9]+", "-", run_id).strip("-")
