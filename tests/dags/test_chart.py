"""The commands that Airflow's chart is given, as processes of the environment that the image holds."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.processes import started, wait_until

VALUES: dict[str, Any] = yaml.safe_load((Path(__file__).parents[2] / "infra/cluster/values/airflow.yaml").read_text())
CORE = VALUES["config"]["core"]
LOGIN, HOME = VALUES["apiServer"]["extraVolumeMounts"][0]["mountPath"], VALUES["airflowHome"]
PASSWORD = "of the secret"
ENTER = """
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

SimpleAuthManager().init()
print(SimpleAuthManager.get_passwords())
"""
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Airflow's home, and beside it what a secret of its login is mounted as."""
    (tmp_path / "login").mkdir()
    (tmp_path / "login" / "passwords.json").write_text(json.dumps({"admin": PASSWORD}))
    return tmp_path


@pytest.fixture
def options(home: Path) -> dict[str, Any]:
    settings = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__AUTH_MANAGER": CORE["auth_manager"],
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": there(CORE["simple_auth_manager_passwords_file"], home),
    }
    return {"env": os.environ | settings, "text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


def there(text: str, home: Path) -> str:
    """A command or path of a pod, in folders of the test."""
    return text.replace(LOGIN, f"{home}/login").replace(HOME, str(home))


@pytest.fixture
def run(home: Path, options: dict[str, Any]) -> Run:
    return lambda *command: subprocess.run([there(word, home) for word in command], check=False, **options)


def test_airflow_starts_with_the_pool_the_login_and_the_probes_that_its_chart_is_given(
    home: Path, run: Run, options: dict[str, Any]
) -> None:
    migrated = run(*VALUES["migrateDatabaseJob"]["args"])
    assert migrated.returncode == 0, migrated.stdout
    with contextlib.closing(sqlite3.connect(home / "airflow.db")) as database:
        assert database.execute("select slots from slot_pool where pool = 'gpu'").fetchall() == [(8,)]

    before, served = VALUES["apiServer"]["args"][-1].split(" && exec ")
    assert served == "airflow api-server" and run("bash", "-c", before).returncode == 0
    assert run(sys.executable, "-c", ENTER).stdout.splitlines()[-1] == str({"admin": PASSWORD})

    probe = VALUES["scheduler"]["startupProbe"]["command"]
    assert "No alive jobs found" in run(*probe).stdout
    alone = options | {"stdout": subprocess.DEVNULL, "start_new_session": True}
    with started(["airflow", "scheduler", "--skip-serve-logs"], **alone) as scheduler:
        try:
            wait_until(lambda: run(*probe).returncode == 0, "the scheduler is alive")
        finally:
            os.killpg(scheduler.pid, signal.SIGKILL)
