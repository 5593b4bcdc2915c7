"""What runs a pod's containers: an interface, and local processes for where no container engine is reachable."""

import contextlib
import os
import re
import signal
import subprocess
from dataclasses import dataclass, field
from typing import IO, Protocol

SIGNALED = 128  # added to a signal's number in an exit code
PATH = "/usr/local/bin:/usr/bin:/bin"


class StartError(Exception):
    """A container's command cannot be started."""


@dataclass(frozen=True)
class Mount:
    """A folder or file of this machine, and where a container has it."""

    source: str
    path: str
    read_only: bool = False


@dataclass
class Container:
    """What a runtime is asked to start."""

    name: str  # unique
    image: str
    command: list[str] = field(default_factory=list)
    args: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    mounts: list[Mount] = field(default_factory=list)
    folder: str | None = None  # where it starts
    user: int | None = None
    group: int | None = None
    groups: list[int] = field(default_factory=list)  # further ones
    memory: int | None = None  # bytes
    cpus: float | None = None
    capabilities: dict[str, list[str]] = field(default_factory=dict)
    escalation: bool = True
    read_only: bool = False


@dataclass(frozen=True)
class Ended:
    """How a container ended."""

    code: int
    out_of_memory: bool = False


class ContainerProcess(Protocol):
    """A container that has been started."""

    output: IO[bytes]  # what it prints, to its end

    def signal(self, number: int) -> None:
        """Send a signal to its first process."""

    def wait(self) -> Ended:
        """Wait for its end, and leave nothing of it."""


class Runtime(Protocol):
    """Runs containers."""

    def user(self, image: str) -> str | None:
        """The user that an image names, empty for root; None where there is no such image."""

    def start(self, container: Container) -> ContainerProcess:
        """Start a container.

        Raises:
            StartError: when its command is not there.
        """


class Started(Protocol):
    """A process with a session of its own, as `subprocess.Popen` has it."""

    pid: int
    stdout: IO[bytes] | None

    def wait(self) -> int:
        """Wait for its end, and return its exit code, negative for a signal."""


class LocalProcess:
    """A process of this machine, and what it has started."""

    def __init__(self, process: "Started") -> None:
        self._process = process
        assert process.stdout
        self.output: IO[bytes] = process.stdout

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, number)

    def wait(self) -> Ended:
        code = self._process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        return Ended(SIGNALED - code if code < 0 else code)


class ProcessRuntime:
    """Runs a container's command as a process; it has every image but those named here.

    Nothing is mounted: in the command and the environment, paths of mounts are replaced by those of their folders.
    Users, limits and capabilities are not applied.
    """

    def __init__(self, missing: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> None:
        self._missing = missing
        self._environment = {"PATH": os.environ.get("PATH", PATH)} | (environment or {})

    def user(self, image: str) -> str | None:
        return None if image in self._missing else "10001"

    def start(self, container: Container) -> LocalProcess:
        command = [_placed(word, container.mounts) for word in (*container.command, *container.args)]
        if not command:
            raise StartError("no command specified")
        environment = {name: _placed(value, container.mounts) for name, value in container.environment.items()}
        try:
            return LocalProcess(self._begin(command, self._environment | environment, container.folder))
        except OSError as error:
            raise StartError(f'exec: "{command[0]}": {error.strerror}') from None

    def _begin(self, command: list[str], environment: dict[str, str], folder: str | None) -> "Started":
        return subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _placed(text: str, mounts: list[Mount]) -> str:
    """Replace paths by their sources in one pass, as a source may contain another mount's path."""
    sources = {mount.path: mount.source for mount in mounts}
    paths = sorted(sources, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, paths)), lambda match: sources[match[0]], text) if paths else text
