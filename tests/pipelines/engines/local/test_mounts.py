"""What a step's container sees of this machine."""

from pathlib import Path

import pytest

from nightshift.runtime.errors import UserError
from pipelines import arguments
from pipelines.engines.local import mounts, runs
from pipelines.engines.local.run import Run
from pipelines.environments import local


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A training from a folder whose audit log lies in a bucket, and whose config has a text that looks like a path."""
    options = {"date": "2025-06-30", "data": str(tmp_path / "raw"), "state.audit": "s3://bucket/audit"}
    new = runs.new(arguments.load_compiled("training"), options, local(tmp_path / "here", "register-only"))
    new.arguments["device"] = "/etc"
    return new


def seen(run: Run, step: str) -> dict[str, str]:
    (task,) = [task for task in run.pipeline.tasks if task.name == step]
    return mounts.volumes(task, run.arguments, run.folder)


def test_a_step_that_takes_the_state_writes_to_its_local_roots_and_only_reads_the_raw_data(
    run: Run, tmp_path: Path
) -> None:
    here = tmp_path / "here"
    roots = {str(here / root): "rw" for root in ("lake", "runs", "registry", "checkpoints")}
    own = {str(run.folder / "ingestion"): "rw"}

    assert seen(run, "ingestion") == roots | own | {str(tmp_path / "raw"): "ro"}


def test_a_step_without_the_state_writes_to_its_own_folder_alone(run: Run, tmp_path: Path) -> None:
    volumes = seen(run, "profiling")

    assert [path for path, mode in volumes.items() if mode == "rw"] == [str(run.folder / "profiling")]
    assert volumes[str(tmp_path / "here" / "lake")] == "ro"
    assert str(tmp_path / "raw") not in volumes


def test_the_simulator_and_buckets_are_no_folders(run: Run) -> None:
    run.arguments["data"] = "simulator"
    run.arguments["state"] |= {"lake": "gs://bucket/lake"}

    assert all(Path(path).is_relative_to(run.folder.parents[1]) for path in seen(run, "ingestion"))


def test_of_a_database_in_a_file_a_step_sees_the_folder(run: Run, tmp_path: Path) -> None:
    run.arguments["data"] = f"duckdb://{tmp_path}/raw/shop.duckdb"

    assert seen(run, "ingestion")[str(tmp_path / "raw")] == "ro"


def test_the_password_of_a_database_reaches_the_steps(tmp_path: Path) -> None:
    variables = {"HOME": str(tmp_path), "NIGHTSHIFT_DATABASE_PASSWORD": "s", "NIGHTSHIFT_DATABASE": "x"}

    assert mounts.credentials(variables) == {"NIGHTSHIFT_DATABASE_PASSWORD": "s"}


def test_the_logins_of_mlflow_and_the_hub_reach_the_steps_and_the_hubs_cache_does_not(tmp_path: Path) -> None:
    passed = {"MLFLOW_TRACKING_URI": "http://mlflow", "MLFLOW_TRACKING_PASSWORD": "p", "HF_TOKEN": "t"}

    assert mounts.credentials({"HOME": str(tmp_path), "HF_HOME": "/models"} | passed) == passed


def test_a_login_to_google_and_to_aws_reaches_the_steps(tmp_path: Path) -> None:
    key, profiles = tmp_path / "key.json", tmp_path / ".aws" / "credentials"
    profiles.parent.mkdir()
    key.touch()
    profiles.touch()
    variables = {"GOOGLE_APPLICATION_CREDENTIALS": str(key), "HOME": str(tmp_path), "AWS_PROFILE": "me", "OTHER": "x"}

    files = {"GOOGLE_APPLICATION_CREDENTIALS": str(key), "AWS_SHARED_CREDENTIALS_FILE": str(profiles)}
    assert mounts.logins(variables) == files
    assert mounts.credentials(variables) == files | {"AWS_PROFILE": "me"}


def test_the_logins_to_brokers_catalogs_and_databases_reach_the_steps() -> None:
    names = ["NIGHTSHIFT_DATABASE_PASSWORD", "NIGHTSHIFT_KAFKA", "PYICEBERG_CATALOG__PROD__URI"]
    variables = dict.fromkeys(names, "one")
    assert mounts.credentials(variables | {"HOME": "/nowhere"}) == variables


def test_a_login_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="GOOGLE_APPLICATION_CREDENTIALS is '/nowhere', and there is no such file"):
        mounts.logins({"GOOGLE_APPLICATION_CREDENTIALS": "/nowhere", "HOME": str(tmp_path)})
