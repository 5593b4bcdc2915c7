"""A night of the smallest cluster, which has no shared file system: all that outlives a step is in a bucket."""

from pathlib import Path

import pytest
import yaml

from nightshift import storage
from nightshift.contracts.state import ROOTS
from nightshift_testkit import s3
from pipelines import arguments
from pipelines.environments import AWS_TRY, GCP_TRY, Site
from tests.e2e.command import newest, nightshift
from tests.e2e.nights import config as small_world


@pytest.mark.parametrize("site", [AWS_TRY, GCP_TRY], ids=lambda site: site.name)
def test_no_step_of_the_smallest_cluster_mounts_a_volume_and_its_state_is_in_one_bucket(site: Site) -> None:
    state = arguments.load_compiled("training", site.name).parameters["state"].default
    roots = {state[name].removesuffix(f"/{name}") for name in ROOTS if name != "registry"}

    assert [placement.volumes for placement in site.placements.values()] == [()] * len(site.placements)
    assert len(roots) == 1 and roots.pop().startswith(("s3://", "gs://"))


@pytest.mark.slow
def test_a_model_is_trained_and_promoted_without_a_shared_file_system(tmp_path: Path) -> None:
    config = tmp_path / "fraud.yaml"
    config.write_text(yaml.safe_dump(small_world()))
    roots = [name for name in ROOTS if name not in ("registry", "runs")]  # a server's, and those of this machine

    with s3.bucket() as url, s3.reached_at(url):
        words = [word for name in roots for word in ("--set", f"state.{name}=s3://lake/state/{name}")]
        nightshift(
            tmp_path, "run", "--config", str(config), "--date", "2025-06-30", "--target", "register-only", *words
        )

        assert newest(tmp_path)["verdicts"]["deployment"]["decision"] == "promoted"
        assert {name for name in roots if storage.names(f"s3://lake/state/{name}")} >= {"lake"}
    assert {path.name for path in tmp_path.iterdir()} & set(roots) == set()
