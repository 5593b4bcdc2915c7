"""Buttons of a task's page: the report of its run and the model's page in the registry."""

from typing import Any

from airflow.sdk import BaseOperatorLink, get_current_context

from components.common import storage


class _Report(BaseOperatorLink):
    name = "Report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address of the run's report; it is there once the reporting step is done."""
        commands, reports = operator.rendering.commands(get_current_context()), operator.rendering.place.reports
        return storage.join(storage.join(reports, commands.name) if reports else commands.root, "report.html")


class _Model(BaseOperatorLink):
    name = "Model"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the page of the model, or of the version that this run has made, where the registry has pages."""
        commands = operator.rendering.commands(get_current_context())
        registry = str(commands.arguments.get("registry", ""))
        if not registry.startswith(("http://", "https://")):
            return ""
        page = storage.join(registry, "#/models", commands.arguments["config"]["name"])
        made = storage.join(commands.root, "deployment", "deployment")
        return storage.join(page, "versions", str(storage.read_json(made)["version"])) if storage.exists(made) else page


class _KubeflowRun(BaseOperatorLink):
    name = "Kubeflow run"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the run's page on Kubeflow."""
        return get_current_context()["ti"].xcom_pull(task_ids=ti_key.task_id, key="url") or ""


REPORT, MODEL, KUBEFLOW_RUN = _Report(), _Model(), _KubeflowRun()
