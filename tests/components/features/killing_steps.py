"""The steps of sharded features, each killed at some points at which it touches its files, and run again."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.dataset  # noqa: F401 what the steps import when they run: loaded once, before the forks

from components.features.__main__ import body
from components.features.component import contract
from nightshift.runtime.context import StepContext
from nightshift.tasks.tabular.features import online  # noqa: F401
from tests.components.features.days import flags
from tests.nightly.kill_points import KillCase, hunt

POINTS = 4


def case(folder: Path, name: str, *words: str, **inputs: Any) -> KillCase:
    """The step that writes a manifest of that name."""
    executor_input = json.dumps({"inputs": {"artifacts": inputs}})
    made = ["--features", str(folder / "made" / name), "--executor-input", executor_input]
    context = StepContext(contract.parser().parse_args([*flags(folder), *words, *made]))
    return KillCase(name, folder, lambda: body(context), POINTS)


def main(folder: Path) -> None:
    """Print what became of each step."""
    shards = [case(folder, f"shard-{number}", "--shard", str(number), "--shards", "2") for number in range(2)]
    computed = {"artifacts": [{"uri": str(folder / "made" / shard.name)} for shard in shards]}
    cases = [*shards, case(folder, "features", computed=computed)]
    sys.stdout.write(json.dumps([asdict(hunt(one)) for one in cases]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
