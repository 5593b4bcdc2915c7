"""Buttons of a task's page: the report of its run, the model's page in the registry, the run on Kubeflow."""

from typing import Any

from airflow.sdk import BaseOperatorLink

from nightshift import storage

# rendered with the command line, since a link is asked for when the context of the task is gone
TEMPLATES = {"root": "{{ root() }}", "model_page": "{{ model_page() }}"}


class _Report(BaseOperatorLink):
    name = "Report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address of the run's report; it is there once the reporting step is done."""
        root, reports = operator.links["root"], operator.rendering.settings.reports
        return storage.join(reports, root.rsplit("/", 1)[-1], "report.html") if reports else f"{root}/report.html"


class _Model(BaseOperatorLink):
    name = "Model"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the page of the model, or of the version that the task has made, where the registry has pages."""
        page, version = operator.links["model_page"], operator.output_metadata.get("version")
        return storage.join(page, "versions", str(version)) if page and version else str(page)


class _KubeflowRun(BaseOperatorLink):
    name = "Kubeflow run"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the run's page on Kubeflow, empty when it has not been started."""
        return str(operator.url)


REPORT, MODEL, KUBEFLOW_RUN = _Report(), _Model(), _KubeflowRun()
