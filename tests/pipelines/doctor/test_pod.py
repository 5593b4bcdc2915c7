"""The doctor in a pod: what the pod is given, and what becomes of it."""

from collections.abc import Callable
from typing import Any

import kubernetes_validate
import pytest

from nightshift.contracts.health import HealthReport
from nightshift.runtime.errors import UnavailableError, UserError
from pipelines.doctor import pod
from pipelines.environments import AWS, GCP, Site

REPORT = HealthReport(environment="aws", in_pod=True, checks=[])
WAITING = {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}]}
UNSCHEDULED = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}]}


class Cluster:
    """A Kubernetes API whose pod has one status after the other."""

    def __init__(self, *statuses: dict[str, Any], log: str = REPORT.model_dump_json()) -> None:
        self.statuses, self.log = list(statuses), log
        self.pods = list[dict[str, Any]]()
        self.deleted = list[str]()

    def create(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.pods.append(body)
        return body

    def get(self, path: str) -> dict[str, Any]:
        return {"status": self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]}

    def read_text(self, path: str) -> str:
        return self.log

    def delete(self, path: str) -> None:
        self.deleted.append(path)


def diagnose(cluster: Any, site: Site = AWS, pause: Callable[[float], None] = lambda _: None) -> HealthReport:
    return pod.diagnose_in_pod(cluster, site, pause)


def test_the_report_is_what_the_pod_has_printed_and_the_pod_is_deleted() -> None:
    cluster = Cluster({}, {"phase": "Running"}, {"phase": "Failed"})

    assert diagnose(cluster) == REPORT
    assert cluster.deleted == [f"{pod.PODS}/{cluster.pods[0]['metadata']['name']}"]


@pytest.mark.parametrize("site", [AWS, GCP], ids=lambda site: site.name)
def test_the_pod_is_one_that_kubernetes_takes_with_what_a_light_step_has(site: Site) -> None:
    cluster = Cluster({"phase": "Succeeded"})

    diagnose(cluster, site)

    (body,) = cluster.pods
    kubernetes_validate.validate(body, kubernetes_validate.latest_version(), strict=True)
    (container,) = body["spec"]["containers"]
    assert container["command"] == ["nightshift", "doctor", "--environment", site.name, "--inside", "--json"]
    assert {entry["name"] for entry in container["env"]} >= {"MLFLOW_TRACKING_USERNAME", "PROMETHEUS_PUSHGATEWAY_URL"}
    assert container["volumeMounts"] == [{"name": "nightshift-lustre", "mountPath": "/lustre"}]


@pytest.mark.parametrize(
    ("cluster", "error", "message"),
    [
        (Cluster(WAITING), UserError, "ErrImagePull: not found; push the image"),
        (Cluster(UNSCHEDULED), UnavailableError, "0/3 nodes are available"),
        (Cluster({"phase": "Failed"}, log="Traceback"), UserError, "printed no report but: 'Traceback'"),
    ],
)
def test_a_pod_that_reports_nothing_says_why_and_is_deleted(
    cluster: Cluster, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        diagnose(cluster)
    assert len(cluster.deleted) == 1
