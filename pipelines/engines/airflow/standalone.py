"""Airflow on this machine, for one person: every part a process of its own, all of them in one session.

`airflow standalone` leaves processes behind when it is ended, and serves its tasks' logs to the network.
"""

import argparse
import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import URL

from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.interpreter import isolate
from nightshift.storage import locks
from pipelines import configs
from pipelines.engines.airflow.operators.context import AirflowSettings
from pipelines.logs import last_lines

ROOT = Path(__file__).parents[3]
# one that ends takes the others along
LEADER = 'airflow db migrate || exit; for part; do { eval "$part"; kill -TERM 0; } & done; wait'
PARTS = (
    "airflow api-server --apps core",
    "airflow dag-processor",
    "airflow scheduler --skip-serve-logs",
    "airflow triggerer --skip-serve-logs",
)
USE_CASE = """\"\"\"The DAGs of {name}; see docs/guides/integrations/airflow.md.\"\"\"

from pipelines.engines.airflow.dags import use_case

use_case({config})
"""
USER = "admin"
PORTS = (8080, 8082, 8081)  # ports of the page, of the API for tasks, and of the reports, where they are free
START_SECONDS, STOP_SECONDS = 300, 5  # a triggerer told to end waits for ever for its child, which was told too


@dataclass(frozen=True)
class Standalone:
    """A running Airflow.

    Attributes:
        home: its folder, with the database, the logs and the password.
        session: id of the session of all its processes.
        url: of the UI and the API.
        tasks: URL of the API that tasks call, a process of its own: with SQLite, a write blocks another one of the same
            process until that fails.
        reports: URL under which the folder of the runs is served.
    """

    home: str
    session: int
    url: str
    tasks: str
    reports: str

    @property
    def password(self) -> str:
        """The password of the user `admin`, which Airflow has made up."""
        file = Path(self.home) / "simple_auth_manager_passwords.json.generated"
        return str(json.loads(file.read_text())[USER])

    def client(self) -> httpx.Client:
        """Return a client of the REST API that has logged in."""
        return client(self.url, self.password)

    def stop(self) -> None:
        """End all of its processes."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + STOP_SECONDS
            if running(Path(self.home)):
                self._signal(number)
            while running(Path(self.home)) and time.monotonic() < deadline:
                time.sleep(0.2)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.session, 0)

    def _signal(self, number: int) -> None:
        # by session: Airflow gives each task a process group
        for pid in map(int, subprocess.check_output(["ps", "-A", "-o", "pid="], text=True).split()):
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(pid) == self.session:
                    os.kill(pid, number)


def client(url: str, password: str) -> httpx.Client:
    """Return a client of the REST API of an Airflow, logged in as `admin`."""
    login = {"username": USER, "password": password}
    token = httpx.post(f"{url}/auth/token", json=login).raise_for_status().json()["access_token"]
    return httpx.Client(base_url=f"{url}/api/v2", headers={"Authorization": f"Bearer {token}"}, timeout=30)


def start(home: Path, dags: Path, variables: Mapping[str, str]) -> Standalone:
    """Start Airflow and wait until each of its parts is healthy.

    Args:
        home: its folder, made when it is not there.
        dags: folder of the DAGs.
        variables: environment variables for Airflow and the tasks, which go before those set here.

    Raises:
        UserError: when it is running already.
        UnavailableError: when it does not start; nothing of it is left running.
    """
    home = home.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)  # the password lies in it
    if airflow := running(home):
        raise UserError(f"Airflow is already running at {airflow.url}; use it, or stop it first: make airflow-stop")
    with contextlib.ExitStack() as until_started:
        url, tasks, reports = (f"http://127.0.0.1:{_reserve_port(until_started, port)}" for port in PORTS)
        return _launch(home, dags, variables, (url, tasks, reports))


def _launch(home: Path, dags: Path, variables: Mapping[str, str], urls: tuple[str, str, str]) -> Standalone:
    url, tasks, reports = urls
    settings = _settings(home, dags, url, tasks)
    environment = isolate({**os.environ, **settings, "NIGHTSHIFT_REPORTS": reports, **variables})
    served = AirflowSettings.from_environment(environment).workspace.resolve() / "runs"
    served.mkdir(parents=True, exist_ok=True)
    # all processes inherit the lock: as long as it is held, the session is theirs
    with locks.hold(_lock(home), seconds=0) as lock, _log(home).open("w") as log:
        leader = subprocess.Popen(
            ["sh", "-c", LEADER, "airflow", *PARTS, _task_server(tasks), _file_server(served, reports)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[lock.fileno()],
        )
        airflow = Standalone(str(home), leader.pid, url, tasks, reports)
        lock.truncate(0)
        lock.write(json.dumps(asdict(airflow)).encode())
    try:
        _wait(airflow, leader)
    except BaseException:
        airflow.stop()
        raise
    return airflow


def running(home: Path) -> Standalone | None:
    """Return the Airflow of a folder, None when there is none."""
    return Standalone(**json.loads(_lock(home).read_text())) if locks.is_held(_lock(home)) else None


def _lock(home: Path) -> Path:
    return home / "running.json"


def _log(home: Path) -> Path:
    return home / "log.txt"


def _reserve_port(until_started: contextlib.ExitStack, port: int) -> int:
    """Return a port that is free and that no other start of this user is about to use, the given one if it is."""
    lock = Path(tempfile.gettempdir()) / f"nightshift-{os.getuid()}-port-{port}"
    try:
        if port:
            until_started.enter_context(locks.hold(lock, seconds=0))
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind(("127.0.0.1", port))
            return int(tried.getsockname()[1])
    except OSError:
        return _reserve_port(until_started, 0)


def _database_uri(file: Path) -> str:
    """Return SQLAlchemy's URI of a SQLite database, whatever its path holds."""
    return URL.create("sqlite", database=str(file.absolute())).render_as_string()


def _settings(home: Path, dags: Path, url: str, tasks: str) -> dict[str, str]:
    return {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "AIRFLOW_HOME": str(home),
        # its own defaults are made of the home's name, in which `?`, `#` and `%` would mean something else
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": _database_uri(home / "airflow.db"),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "AIRFLOW__LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": str(home / "logs" / "dag_processor"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(home / "plugins"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags.resolve()),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{tasks}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "4",  # so many processes wait for tasks
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": _port(url),
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": "60",  # seconds; the default, 5, is short for busy cores
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }


def _task_server(url: str) -> str:
    return f"airflow api-server --apps execution --port {_port(url)}"


def _file_server(folder: Path, url: str) -> str:
    argv = [sys.executable, "-m", "http.server", _port(url), "--bind", "127.0.0.1", "--directory", str(folder)]
    return shlex.join(argv)


def _port(url: str) -> str:
    return url.rsplit(":", 1)[-1]


def _wait(airflow: Standalone, leader: "subprocess.Popen[bytes]") -> None:
    """Wait for the health of all parts, each of which is named once it is healthy."""
    deadline = time.monotonic() + START_SECONDS
    healthy: set[str] = set()
    print("Starting Airflow, which takes up to a minute. Healthy:", flush=True)
    while leader.poll() is None and time.monotonic() < deadline:
        parts = _health(airflow.url)
        for part in sorted({name for name, status in parts.items() if status == "healthy"} - healthy):
            print(f"  {part}", flush=True)
            healthy.add(part)
        # the API for tasks is made on its first request, for which a task would not wait long enough
        if parts and healthy >= set(parts) and _answer(f"{airflow.tasks}/execution/health"):
            return
        time.sleep(1)
    log = _log(Path(airflow.home))
    raise UnavailableError(f"Airflow has not started. The end of {log}:\n{last_lines(log, 15)}")


def _health(url: str) -> dict[str, str | None]:
    """Return the status of each part, nothing while the API does not answer."""
    answer = _answer(f"{url}/api/v2/monitor/health")
    return {name: part["status"] for name, part in answer.items()}


def _answer(url: str) -> dict[str, Any]:
    try:
        return dict(httpx.get(url, timeout=START_SECONDS).raise_for_status().json())
    except httpx.HTTPError:
        return {}


def main(argv: list[str] | None = None) -> int:
    """Start or stop the Airflow of this repository."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.engines.airflow.standalone", description=__doc__)
    parser.add_argument("action", choices=["start", "stop"])
    parser.add_argument(
        "--config",
        default=configs.DEFAULT,
        help="use case of the DAGs, by its name in pipelines/configs/ or a YAML file",
    )
    args = parser.parse_args(argv)
    try:
        _start(ROOT / ".airflow", args.config) if args.action == "start" else _stop(ROOT / ".airflow")
    except (UserError, UnavailableError) as error:
        print(f"airflow: {error}", file=sys.stderr)
        return 2 if isinstance(error, UserError) else 1
    return 0


def add_use_case(config: str, dags: Path) -> str:
    """Write the file that makes a use case's DAGs, unless it is there, and return the use case's name.

    Raises:
        UserError: when the config is not valid, or the file that is there names another one.
    """
    name = configs.load(config)["name"]
    reference = json.dumps(config if config in configs.names() else str(Path(config).resolve()))
    path = dags / f"{name}.py"
    if not path.exists():
        path.write_text(USE_CASE.format(name=name, config=reference))
    if reference not in path.read_text():
        raise UserError(f"{path} makes the DAGs of {name!r} from another config than {reference}; change one of them")
    return str(name)


def _start(home: Path, config: str) -> None:
    name = add_use_case(config, ROOT / "dags").replace("-", "_")
    airflow = start(home, ROOT / "dags", {})
    print(f"{airflow.url}  user {USER}, password {airflow.password}  (log: {_log(home)})")
    print(
        f"A first run: {airflow.url}/dags/{name}_training, then the button Trigger. To stop Airflow: make airflow-stop"
    )


def _stop(home: Path) -> None:
    airflow = running(home)
    if airflow:
        airflow.stop()
    print("Airflow has ended" if airflow else "Airflow was not running")


if __name__ == "__main__":
    sys.exit(main())
