"""Sharded features on a cluster, whose workers die: the first that begins a kind of task is killed in it."""

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightshift.tasks.tabular.features import shards
from nightshift.tasks.tabular.features.shards import Sizes
from nightshift.tasks.tabular.features.workers import TaskPool, workers
from tests.components.features.days import FEATURES, job


@dataclass(frozen=True)
class Deadly:
    """A task that kills its worker, once for all workers."""

    task: Callable[[Any], Any]
    note: Path

    def __call__(self, item: Any) -> Any:
        if not self.note.exists():
            self.note.write_text("killed")
            os.kill(os.getpid(), signal.SIGKILL)
        return self.task(item)


@dataclass(frozen=True)
class Mortal(TaskPool):
    """Workers that leave a note where each of them dies."""

    folder: Path = Path()

    def run(self, task: Any, items: Sequence[Any]) -> list[Any]:
        return super().run(Deadly(task, self.folder / task.func.__name__), items)


def main(folder: Path, address: str) -> None:
    """Write all features and print the hash of each day's file."""
    features = job(folder, "killed")
    with workers(address, "cpu") as alive:
        mortal = Mortal(alive.count, alive.client, folder)
        missing = {day: features.uri(day) for day in FEATURES}
        parts = shards.write(features, missing, str(folder / "scratch"), mortal, Sizes(100, 100))
    sys.stdout.write(json.dumps({str(day): part.sha256 for day, part in sorted(parts.items())}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
