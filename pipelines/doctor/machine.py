"""This machine: what a run on it needs."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from nightshift import DISTRIBUTION
from nightshift.contracts.health import HealthCheck, HealthReport
from nightshift.local.endpoint import PORT
from nightshift.runtime.errors import UnavailableError, suggest_install
from nightshift.runtime.image import image
from pipelines.doctor.findings import Checks, judge, skip, success
from pipelines.doctor.nodes import check_driver
from pipelines.doctor.services import MAX_SKEW

MIN_DISK_BYTES, MIN_MEMORY_BYTES = 5e9, 4e9  # needs of a run on the simulator's data, with room
ROOT_VARIABLES = ("KFP_ENDPOINT", "MLFLOW_TRACKING_URI")  # servers whose clock is looked at
SECONDS = 5
EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")
Dates = Callable[[str], datetime]  # URL -> the server's time; raises UnavailableError


def diagnose_machine(
    workspace: Path, read_date: Dates, ping: Callable[[], str], variables: Mapping[str, str] = os.environ
) -> HealthReport:
    """Return the state of this machine, within seconds.

    Args:
        workspace: folder of lake, registry and runs.
        read_date: returns a server's time.
        ping: returns the container engine's version, and raises UnavailableError.
        variables: of the environment, of which some name servers.
    """
    checks = [
        *check_packages(metadata.requires(DISTRIBUTION) or ()),
        check_disk(workspace, shutil.disk_usage(_existing(workspace)).free),
        check_memory(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")),
        check_port(PORT),
        check_docker(ping),
        check_gpu(_read_driver()),
        *check_clock(read_date, [variables[name] for name in ROOT_VARIABLES if name in variables]),
    ]
    return HealthReport(environment="local", in_pod=False, checks=checks)


def check_packages(requirements: Sequence[str]) -> Checks:
    """Check the libraries that every run needs, and name the extras that are installed.

    Args:
        requirements: as in a distribution's metadata.
    """
    extras = dict[str, list[str]]()
    for requirement in requirements:
        match = EXTRA.search(requirement)
        extras.setdefault(match[1] if match else "", []).append(requirement)
    version = ".".join(map(str, sys.version_info[:3]))
    problems = [text for requirement in extras.pop("", []) for text in _list_problems(requirement)]
    fix = f"run {suggest_install('cpu')}"
    yield judge("packages", f"Python {version}, all there", problems, "what pyproject.toml requires", fix)
    complete = [extra for extra, texts in extras.items() if not any(map(_list_problems, texts))]
    missing = [] if {"cpu", "gpu"} & set(complete) else ["neither the extra cpu nor gpu is complete"]
    yield judge("extras", ", ".join(sorted(complete)), missing, "cpu or gpu", fix)


def check_disk(workspace: Path, free: float) -> HealthCheck:
    """Check the free bytes of the workspace's file system."""
    text = f"{free / 1e9:.1f} GB free"
    fix = "nightshift gc --delete removes what no model needs; or choose another folder with --workspace"
    least = f"{MIN_DISK_BYTES / 1e9:.0f} GB or more"
    return judge(f"disk of {workspace}", text, [text] if free < MIN_DISK_BYTES else [], least, fix)


def check_memory(installed: float) -> HealthCheck:
    """Check the bytes of memory."""
    text = f"{installed / 1e9:.1f} GB"
    least = f"{MIN_MEMORY_BYTES / 1e9:.0f} GB or more"
    return judge("memory", text, [text] if installed < MIN_MEMORY_BYTES else [], least, "use a larger machine")


def check_port(port: int) -> HealthCheck:
    """Check that the endpoint can listen, or does already."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return skip(f"port {port}", "in use, as by the endpoint; nightshift stop frees it, or lsof -i names who")
    return success(f"port {port}", "free for the endpoint")


def check_docker(ping: Callable[[], str]) -> HealthCheck:
    """Check the container engine; `ping` returns its version and raises UnavailableError."""
    try:
        return success("container engine", ping())
    except UnavailableError as error:
        return skip("container engine", f"{error}; only steps in containers need one")


def check_gpu(version: str) -> HealthCheck:
    """Check the version of NVIDIA's driver, empty without one, against the CUDA of our GPU image."""
    if not version:
        return skip("GPU driver", "no nvidia-smi answers; runs use the CPU")
    return check_driver("GPU driver", image("rapids"), version)


def check_clock(read_date: Dates, urls: Sequence[str]) -> Checks:
    """Check this machine's clock against the first server that answers."""
    for url in urls:
        try:
            skew = abs(datetime.now(UTC) - read_date(url))
        except UnavailableError:
            continue
        text = f"{skew.total_seconds():.0f} s from {url}"
        fix = "set the clock: timedatectl set-ntp true"
        yield judge("clock", text, [text] if skew > MAX_SKEW else [], f"at most {MAX_SKEW.seconds} s", fix)
        return
    yield skip("clock", f"no server to compare with; {' or '.join(ROOT_VARIABLES)} may name one")


def ping_docker() -> str:
    """Return the container engine's version.

    Raises:
        UnavailableError: when none answers.
    """
    version = _run("docker", "version", "--format", "{{.Server.Version}}")
    if not version:
        raise UnavailableError("docker version names no server")
    return f"version {version}"


def _list_problems(text: str) -> list[str]:
    """Return why a requirement is not fulfilled; empty if it is, or if its marker excludes this machine."""
    from packaging.requirements import Requirement

    requirement = Requirement(text)
    extra = EXTRA.search(text)
    if requirement.marker and not requirement.marker.evaluate({"extra": extra[1] if extra else ""}):
        return []
    try:
        installed = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return [f"{requirement.name} is missing"]
    return [] if requirement.specifier.contains(installed, prereleases=True) else [f"{requirement.name} is {installed}"]


def _existing(folder: Path) -> Path:
    """Return a folder, or the first above it that exists."""
    return next(path for path in (folder, *folder.resolve().parents) if path.exists())


def _read_driver() -> str:
    return _run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


def _run(*command: str) -> str:
    """Return the first line that a program prints; empty if there is no such program, or it fails."""
    if not shutil.which(command[0]):
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout.partition("\n")[0].strip() if done.returncode == 0 else ""
