from pathlib import Path

import pytest

from components.common.errors import UnavailableError
from pipelines import standalone


def test_a_start_that_fails_says_why_and_leaves_nothing_running(tmp_path: Path) -> None:
    nowhere = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/nowhere/airflow.db"}

    with pytest.raises(UnavailableError, match=r"(?s)has not started.*unable to open database file"):
        standalone.start(tmp_path / "home", tmp_path, nowhere | {"NIGHTSHIFT_WORKSPACE": str(tmp_path)})

    assert standalone.running(tmp_path / "home") is None
