"""What runs the steps of a local run: processes, forks of prepared ones, or containers."""

from pathlib import Path
from typing import ClassVar, Protocol, Self

from pipelines import ir


class Runner(Protocol):
    """Runs the steps' commands, and ends what still runs when its block ends."""

    name: ClassVar[str]
    ignored: ClassVar[str]

    def __enter__(self) -> Self:
        """Get ready."""

    def __exit__(self, *error: object) -> None:
        """End what still runs."""

    def run(self, task: ir.PipelineTask, command: list[str], log: Path) -> tuple[int, int]:
        """Return a command's exit code, negative for a signal, and its peak memory in bytes, 0 when unknown."""

    def stop(self) -> None:
        """Ask all that runs to end."""
