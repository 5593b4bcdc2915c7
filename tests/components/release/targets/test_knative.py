"""What is peculiar to KServe on Knative; the rest is in `test_targets.py` and `test_kserve.py`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.release.targets import rollout
from tests.components.release.targets.knative import KnativeControllers, platform
from tests.components.release.targets.versions import Fleet


@pytest.fixture
def cluster(fleet: Fleet, tmp_path: Path) -> Iterator[KnativeControllers]:
    with platform(fleet, tmp_path) as controllers:
        yield controllers


def test_a_larger_share_makes_no_new_revision(cluster: KnativeControllers, fleet: Fleet) -> None:
    rollout(cluster.target(), fleet.split(v1=0.95, v2=0.05))
    before = cluster.objects[0]["status"]["components"]["predictor"]["latestCreatedRevision"]
    for split in (fleet.split(v1=0.75, v2=0.25), fleet.split(v2=1)):
        rollout(cluster.target(), split)
    assert cluster.objects[0]["status"]["components"]["predictor"]["latestCreatedRevision"] == before
    assert "canaryTrafficPercent" not in cluster.objects[0]["spec"]["predictor"]


def test_replicas_are_added_at_the_rate_that_the_load_test_measured(cluster: KnativeControllers, fleet: Fleet) -> None:
    rollout(cluster.target(), fleet.split(v1=1))
    assert "scaleMetric" not in cluster.objects[0]["spec"]["predictor"]  # Knative has a target of its own
    rollout(cluster.target(requests_per_second=699.6), fleet.split(v1=1))
    predictor = cluster.objects[0]["spec"]["predictor"]
    assert (predictor["scaleMetric"], predictor["scaleTarget"]) == ("rps", 700)
