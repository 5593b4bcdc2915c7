"""Jobs on the cluster."""

from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.kinds import EVENT, JOB, Json
from tests.cluster.problems import RefusedError
from tests.cluster.samples import gpu, named, pod
from tests.processes import wait_until


def job(template: Json, **spec: Any) -> Json:
    return named("Job", "migrate", "batch/v1", spec={"template": {"spec": template["spec"]}} | spec)


def ended(cluster: Cluster) -> tuple[str, Json]:
    """Wait until the job has ended; return how, and its status."""

    def look() -> Any:
        status = cluster.api.store.get(JOB, "migrate", "default").get("status", {})
        return [(item["type"], status) for item in status.get("conditions", [])]

    return wait_until(look, "the job ends")[0]


def test_a_job_completes_when_enough_of_its_pods_have_succeeded(cluster: Cluster) -> None:
    cluster.apply(job(pod(), completions=2))

    how, status = ended(cluster)

    assert (how, status["succeeded"]) == ("Complete", 2)


def test_a_job_fails_when_more_of_its_pods_do_than_it_allows(cluster: Cluster) -> None:
    cluster.apply(job(pod("exit 1"), backoffLimit=1))

    how, status = ended(cluster)

    assert (how, status["failed"]) == ("Failed", 2)


def test_a_job_over_the_quota_waits(cluster: Cluster) -> None:
    cluster.add_node("gpu", gpus=1)
    cluster.apply(named("ResourceQuota", "runs", spec={"hard": {"requests.nvidia.com/gpu": "0"}}), job(gpu()))
    wait_until(
        lambda: [event for event in cluster.api.store.each(EVENT) if event["reason"] == "FailedCreate"], "it waits"
    )

    cluster.apply(named("ResourceQuota", "runs", spec={"hard": {"requests.nvidia.com/gpu": "1"}}))

    assert ended(cluster)[0] == "Complete"


def test_a_job_whose_pods_would_start_for_ever_is_refused(cluster: Cluster) -> None:
    with pytest.raises(RefusedError, match=r"restartPolicy: Required value"):
        cluster.apply(job(pod(restartPolicy="Always")))
