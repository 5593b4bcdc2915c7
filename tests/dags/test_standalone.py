from pathlib import Path

import pytest

from components.common.errors import UnavailableError, UserError
from pipelines.engines.airflow import standalone


def test_a_start_that_fails_says_why_and_leaves_nothing_running(tmp_path: Path) -> None:
    nowhere = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/nowhere/airflow.db"}

    with pytest.raises(UnavailableError, match=r"(?s)has not started.*unable to open database file"):
        standalone.start(tmp_path / "home", tmp_path, nowhere | {"NIGHTSHIFT_WORKSPACE": str(tmp_path)})

    assert standalone.running(tmp_path / "home") is None


def test_its_folder_which_gets_the_password_is_for_nobody_else(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="azure"):
        standalone.start(tmp_path / "home", tmp_path, {"NIGHTSHIFT_ENVIRONMENT": "azure"})

    assert (tmp_path / "home").stat().st_mode & 0o077 == 0
