import os
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from nightshift.runtime.errors import UnavailableError, UserError
from pipelines import configs
from pipelines.engines.airflow import standalone
from tests.dags.samples import DAGS, Load


def test_a_use_case_gets_a_file_of_dags_and_one_that_is_there_stays(tmp_path: Path, load: Load) -> None:
    folder = tmp_path / "dags"
    folder.mkdir()
    shipped = (DAGS / "fraud.py").read_text()
    (folder / "fraud.py").write_text(shipped)

    assert [standalone.add_use_case(config, folder) for config in ("fraud", "leads", "leads")] == [
        *("fraud", "leads", "leads"),
    ]
    assert (folder / "fraud.py").read_text() == shipped
    assert {name for name in load(folder) if name.endswith("_training")} == {"fraud_training", "leads_training"}


def test_another_config_of_the_same_name_is_refused(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text((configs.FOLDER / "leads.yaml").read_text())
    standalone.add_use_case("leads", tmp_path)

    with pytest.raises(UserError, match=r"leads.py makes the DAGs of 'leads' from another config than .*mine.yaml"):
        standalone.add_use_case(str(mine), tmp_path)


def test_make_airflow_runs_the_shipped_dags() -> None:
    assert standalone.ROOT / "dags" == DAGS


def test_a_start_that_fails_says_why_and_leaves_nothing_running(tmp_path: Path) -> None:
    nowhere = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/nowhere/airflow.db"}

    with pytest.raises(UnavailableError, match=r"(?s)has not started.*unable to open database file"):
        standalone.start(tmp_path / "home", tmp_path, nowhere | {"NIGHTSHIFT_WORKSPACE": str(tmp_path)})

    assert standalone.running(tmp_path / "home") is None


def test_two_that_start_at_the_same_moment_have_ports_of_their_own() -> None:
    with socket.socket() as tried, ExitStack() as one, ExitStack() as another:
        tried.bind(("127.0.0.1", 0))
        port = tried.getsockname()[1]
        tried.close()

        assert standalone._reserve_port(one, port) == port
        assert standalone._reserve_port(another, port) not in (port, 0)
        one.close()
        assert standalone._reserve_port(another, port) == port


def test_its_folder_which_gets_the_password_is_for_nobody_else(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="azure"):
        standalone.start(tmp_path / "home", tmp_path, {"NIGHTSHIFT_ENVIRONMENT": "azure"})

    assert (tmp_path / "home").stat().st_mode & 0o077 == 0


def test_its_files_lie_in_its_folder_whatever_that_is_called(tmp_path: Path) -> None:
    home = tmp_path / "a?b#c%20d 日本"
    home.mkdir()
    settings = standalone._settings(home, tmp_path, "http://localhost:1", "http://localhost:2")

    done = subprocess.run(["airflow", "db", "migrate"], env=os.environ | settings, cwd=tmp_path, check=False)

    assert done.returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == [home.name]
    assert (home / "airflow.db").is_file()
