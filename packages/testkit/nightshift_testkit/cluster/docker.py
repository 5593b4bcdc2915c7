"""Containers of a container engine, through the `docker` command, which every environment of the project finds."""

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from typing import IO, Any

from nightshift_testkit.cluster.runtimes import Container, Ended, StartError

LABEL = "nightshift.test-cluster"
HOST_CHARACTERS = 63  # length of a pod's name, which is its host's


class DockerProcess:
    """A container, and the command that is attached to it."""

    def __init__(self, name: str) -> None:
        self._name = name
        command = ["docker", "start", "--attach", name]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert self._process.stdout
        self.output: IO[bytes] = self._process.stdout

    def signal(self, number: int) -> None:
        # one that has ended, or not begun, has no process to tell; `kill` before the start ends it at once
        if _docker("kill", "--signal", str(number), self._name).returncode and number == signal.SIGKILL:
            _docker("rm", "--force", self._name)

    def wait(self) -> Ended:
        code = self._process.wait()
        state = _inspected("container", self._name)
        _docker("rm", "--force", "--volumes", self._name)
        if state is None:
            return Ended(code)
        return Ended(state["State"]["ExitCode"], state["State"]["OOMKilled"])


class DockerRuntime:
    """Runs containers in this machine's network, so that pods reach servers of the tests.

    Images are never pulled: those that are not there cannot be.
    """

    def __init__(
        self,
        images: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        hosts: tuple[str, ...] = (),
    ) -> None:
        """Say what is different from a node.

        Args:
            images: the names here of images that pods know by others.
            environment: of every container, unless its own says otherwise.
            hosts: names of services that run on this machine.
        """
        self._images = images or {}
        self._environment = environment or {}
        self._hosts = [f"--add-host={name}:127.0.0.1" for name in hosts]

    def user(self, image: str) -> str | None:
        image_facts = _inspected("image", self._images.get(image, image))
        return None if image_facts is None else image_facts["Config"].get("User") or ""

    def start(self, container: Container) -> DockerProcess:
        words = ["create", "--pull", "never", "--name", container.name, "--network", "host", *self._hosts]
        variables = [f"--env={name}={value}" for name, value in self._environment.items()]
        image = self._images.get(container.image, container.image)
        done = _docker(*words, "--label", LABEL, *variables, *_options(container), image, *_command(container))
        if done.returncode:
            raise StartError(done.stderr.strip())
        return DockerProcess(container.name)


def execute(name: str, command: list[str]) -> "subprocess.CompletedProcess[str]":
    """Run a command in a container, as its user, as probes are."""
    return _docker("exec", name, *command)


def reachable() -> bool:
    """Whether a container engine answers."""
    try:
        return not _docker("version").returncode
    except OSError:
        return False


def _docker(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=False)


def _inspected(kind: str, name: str) -> Any:
    done = _docker(kind, "inspect", name)
    return None if done.returncode else json.loads(done.stdout)[0]


def _options(container: Container) -> list[str]:
    options = [f"--env={name}={value}" for name, value in container.environment.items()]
    for mount in container.mounts:
        options += ["--volume", f"{mount.source}:{mount.path}{':ro' if mount.read_only else ''}"]
    options += [*_identity(container), *_limits(container)]
    if host := container.environment.get("HOSTNAME"):
        options += ["--hostname", host[:HOST_CHARACTERS]]
    if container.folder:
        options += ["--workdir", container.folder]
    if container.command:
        options += ["--entrypoint", container.command[0]]
    return options


def _identity(container: Container) -> list[str]:
    options = [f"--group-add={group}" for group in container.groups]
    if container.user is not None:
        # a user without a group is in root's, as on a node
        options.append(f"--user={container.user}:{container.group or 0}")
    options += [f"--cap-drop={name}" for name in container.capabilities.get("drop", [])]
    options += [f"--cap-add={name}" for name in container.capabilities.get("add", [])]
    options += [] if container.escalation else ["--security-opt=no-new-privileges"]
    return options + (["--read-only"] if container.read_only else [])


def _limits(container: Container) -> list[str]:
    # the engine refuses more than there are
    options = [f"--cpus={min(container.cpus, os.cpu_count() or 1)}"] if container.cpus else []
    if container.memory:
        # as much with swap as without: none
        options += [f"--memory={container.memory}", f"--memory-swap={container.memory}"]
    return options


def _command(container: Container) -> list[str]:
    return [*container.command[1:], *container.args]
