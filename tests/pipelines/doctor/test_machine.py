"""What the doctor says of this machine."""

import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from nightshift.contracts.health import CheckStatus
from nightshift.runtime.errors import UnavailableError
from nightshift_testkit.servers import free_port
from pipelines.doctor import machine, web

OK, FAILED, SKIPPED = CheckStatus.OK, CheckStatus.FAILED, CheckStatus.SKIPPED


@pytest.mark.slow
def test_a_machine_on_which_these_tests_run_has_what_a_run_needs(tmp_path: Path) -> None:
    report = machine.diagnose_machine(tmp_path / "not yet" / "there", web.read_date, lambda: "version 29", {})

    statuses = {check.name: check.status for check in report.checks}
    assert statuses["packages"] == statuses["extras"] == OK
    assert statuses["clock"] == SKIPPED
    assert report.exit_code != 1


@pytest.mark.parametrize(
    ("requirement", "seen"),
    [
        ("no-such-package>=1", "no-such-package is missing"),
        ("numpy<1", "numpy is "),
        ('no-such-package; python_version < "3"', ""),
        ("numpy>=2", ""),
    ],
)
def test_a_package_that_is_missing_or_too_old_is_named(requirement: str, seen: str) -> None:
    packages, _ = machine.check_packages([requirement, 'numpy; extra == "cpu"'])

    assert packages.status == (FAILED if seen else OK)
    assert seen in packages.seen and bool(packages.fix) == bool(seen)


def test_a_machine_without_a_complete_extra_for_its_device_is_told_which_there_are() -> None:
    _, extras = machine.check_packages(['no-such-package; extra == "cpu"', 'numpy; extra == "aws"'])

    assert (extras.status, extras.allowed) == (FAILED, "cpu or gpu")
    assert "pip install 'nightshift-ml[cpu]'" in extras.fix


def test_too_little_disk_and_memory_are_faults() -> None:
    assert machine.check_disk(Path("work"), 4.9e9).status == FAILED
    assert "nightshift gc" in machine.check_disk(Path("work"), 4.9e9).fix
    assert machine.check_disk(Path("work"), 5.1e9).status == OK
    assert machine.check_memory(3.9e9).status == FAILED
    assert machine.check_memory(4.1e9).status == OK


@pytest.mark.parametrize(("version", "status"), [("", SKIPPED), ("470.57.02", FAILED), ("525.60.13", OK), ("580", OK)])
def test_a_driver_older_than_our_gpu_images_cuda_is_a_fault(version: str, status: CheckStatus) -> None:
    assert machine.check_gpu(version).status == status


def test_a_port_in_use_is_shown_and_no_fault_since_it_may_be_the_endpoint() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert machine.check_port(server.getsockname()[1]).status == SKIPPED
    assert machine.check_port(free_port()).status == OK


def test_a_machine_without_a_container_engine_runs_steps_as_processes() -> None:
    def ping() -> str:
        raise UnavailableError("none answers")

    assert machine.check_docker(ping).status == SKIPPED
    assert machine.check_docker(lambda: "version 29").status == OK


@pytest.mark.parametrize(("minutes", "status"), [(1, OK), (-6, FAILED), (6, FAILED)])
def test_the_clock_is_compared_with_the_first_server_that_answers(minutes: int, status: CheckStatus) -> None:
    def read_date(url: str) -> datetime:
        if url == "http://down.test":
            raise UnavailableError(url)
        return datetime.now(UTC) + timedelta(minutes=minutes)

    (clock,) = machine.check_clock(read_date, ["http://down.test", "http://up.test"])

    assert clock.status == status and "http://up.test" in clock.seen
