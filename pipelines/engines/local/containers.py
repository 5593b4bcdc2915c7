"""The steps of a run in containers, each in its image, through the Docker API; none of them outlives the run."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from nightshift.runtime.errors import UserError
from pipelines import ir
from pipelines.engines.local import mounts

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

LABEL = "nightshift.lock"
USER = 10001  # the images' user, for callers that are root
GIGABYTE = 10**9
SIGNAL = 128  # added to a signal's number in an exit code
KILLED = SIGNAL + signal.SIGKILL
NOTICE_S = 5  # that an engine under load takes to hear from the kernel why a container was killed
SCRATCH = "/tmp"  # noqa: S108  # a file system of the container's own


class Containers:
    """Runs steps as a user that is not root, on a file system that only the volumes and /tmp can be written to."""

    name: ClassVar = "docker"
    ignored: ClassVar = "CPU and memory requests"

    def __init__(self, lock: str, arguments: Mapping[str, Any], folder: Path) -> None:
        """Take the lock that the run holds, whose name finds its containers, the run's parameters and its folder."""
        self._lock = lock
        self._arguments = arguments
        self._folder = folder
        self._stopped = threading.Event()

    def __enter__(self) -> Self:
        self._client = _connect()
        self._user = os.getuid() or USER
        for root in mounts.roots(self._arguments, self._folder):
            Path(root).mkdir(parents=True, exist_ok=True)
            self._chown_folder(root)
        # an engine that was killed could not end its containers, and the lock says that it is gone
        self._remove()
        return self

    def __exit__(self, *error: object) -> None:
        self._remove()
        self._client.close()

    def create(self, task: ir.PipelineTask, command: list[str]) -> "Container":
        """Make a step's container without starting it.

        Raises:
            UserError: when the image is not there.
        """
        from docker.errors import ImageNotFound

        seen = mounts.volumes(task, self._arguments, self._folder) | dict.fromkeys(mounts.logins().values(), "ro")
        try:
            return self._client.containers.create(
                task.image,
                command,
                environment=mounts.credentials() | task.environment,
                user=f"{self._user}:{os.getgid() or USER}",
                volumes={path: {"bind": path, "mode": mode} for path, mode in seen.items()},
                labels={LABEL: self._lock},
                **_limits(task),
                read_only=True,
                tmpfs={SCRATCH: ""},
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
            )
        except ImageNotFound:
            raise UserError(f"image {task.image!r} of step {task.name!r} is not here; run: make images") from None

    def run(self, task: ir.PipelineTask, command: list[str], log: Path) -> tuple[int, int]:
        """Run a step's command until it ends.

        Args:
            task: the step, with its image, environment variables and limits.
            command: what to run.
            log: gets all it prints, after what is there already.

        Returns:
            its exit code, negative for a signal, and 0: the step itself says how much memory it took.
        """
        for folder in (log.parent, log.parent.parent):  # the step's and the run's
            self._chown_folder(folder)
        container = self.create(task, command)
        try:
            container.start()
            if self._stopped.is_set():
                container.kill()
            with log.open("ab") as output:
                for chunk in container.logs(stream=True, follow=True):
                    output.write(chunk)
                    output.flush()
            # the container stays until its exit code is known, which removing itself would race with
            code = int(container.wait()["StatusCode"])
            if code == KILLED and not self._stopped.is_set() and (limit := _memory(task)):
                sure = "" if _out_of_memory(container) else "killed, probably "
                _say(log, f"{sure}out of memory: over its limit of {limit / GIGABYTE:g} GB; raise it in the pipeline")
            return (SIGNAL - code if code > SIGNAL else code), 0
        finally:
            container.remove(force=True)

    def stop(self) -> None:
        """End all of them."""
        self._stopped.set()
        from docker.errors import APIError

        for container in self._list_containers():
            # one that has ended, or has not begun: `run` looks after both
            with contextlib.suppress(APIError):
                container.kill()

    def _chown_folder(self, path: str | Path) -> None:
        """Let the containers' user write to a folder that root has made for it."""
        if os.getuid() == 0:
            os.chown(path, self._user, self._user)

    def _list_containers(self) -> "list[Container]":
        filters = {"label": f"{LABEL}={self._lock}"}
        # steps that end meanwhile remove theirs
        return list(self._client.containers.list(all=True, filters=filters, ignore_removed=True))

    def _remove(self) -> None:
        for container in self._list_containers():
            container.remove(force=True)


def _connect() -> "DockerClient":
    import docker

    try:
        client = docker.from_env()
        client.ping()
    except docker.errors.DockerException as error:
        raise UserError(f"no container engine answers ({error}); start one, or set DOCKER_HOST") from None
    return client


def _limits(task: ir.PipelineTask) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if memory := _memory(task):
        # as much with swap as without: none
        limits |= {"mem_limit": memory, "memswap_limit": memory}
    if cpus := task.resources.get("cpuLimit"):
        limits["nano_cpus"] = int(cpus * 10**9)
    return limits


def _out_of_memory(container: "Container") -> bool:
    """Whether the kernel killed it for its memory; the engine hears that apart from the exit code, later or never."""
    until = time.monotonic() + NOTICE_S
    while True:
        container.reload()
        if container.attrs["State"]["OOMKilled"] or time.monotonic() > until:
            return bool(container.attrs["State"]["OOMKilled"])
        time.sleep(0.2)


def _memory(task: ir.PipelineTask) -> int:
    return int(task.resources.get("memoryLimit", 0) * GIGABYTE)


def _say(log: Path, line: str) -> None:
    with log.open("a") as output:
        output.write(f"{line}\n")
