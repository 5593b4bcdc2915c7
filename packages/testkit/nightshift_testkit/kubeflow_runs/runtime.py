"""Containers of Kubeflow's pods as processes of this machine."""

import sys
from dataclasses import replace

from nightshift_testkit.cluster.runtimes import Container, LocalProcess, ProcessRuntime, Started
from nightshift_testkit.kubeflow_runs import launcher
from nightshift_testkit.kubeflow_runs.forks import ProgramForks
from nightshift_testkit.kubeflow_runs.pods import ARGO, LAUNCH, LAUNCHER


class StepRuntime(ProcessRuntime):
    """Runs steps behind our launcher; what Argo and Kubeflow put beside them has nothing to do here.

    Steps are forked from a process that has imported their libraries.
    """

    def __init__(self, forks: ProgramForks, environment: dict[str, str]) -> None:
        super().__init__(environment=environment)
        self._forks = forks

    def _begin(self, command: list[str], environment: dict[str, str], folder: str | None) -> Started:
        begin = self._forks.start if command[0] == sys.executable else super()._begin
        return begin(command, environment, folder)

    def start(self, container: Container) -> LocalProcess:
        if container.image in (ARGO, LAUNCHER):
            return super().start(replace(container, command=["true"], args=[]))
        assert container.command[0] == LAUNCH, container.command
        command = [sys.executable, "-m", launcher.__name__, *container.command[1:]]
        (scratch,) = [mount.source for mount in container.mounts if mount.path == "/s3"]
        return super().start(
            replace(container, command=command, environment=container.environment | {"SCRATCH": scratch})
        )
