"""Some steps of the daily pipeline, run for a benchmark."""

import sys
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from nightshift.contracts.state import DeploymentTarget
from pipelines import arguments
from pipelines.cli.progress import RunProgress, explain_failure
from pipelines.engines.local import runs
from pipelines.environments import local

WORKSPACE = Path("runs/reproduce")


def run_steps(steps: Collection[str], config: str, data: str, date: str, workspace: Path = WORKSPACE) -> Path:
    """Run the named steps of the training pipeline; return the run's folder, exit when a step fails."""
    pipeline = arguments.load_compiled(arguments.DEFAULT)
    kept = replace(pipeline, tasks=tuple(task for task in pipeline.tasks if task.name in steps))
    run = runs.new(
        kept, {"config": config, "data": data, "date": date}, local(workspace, target=DeploymentTarget.RECORD_ONLY)
    )
    console = Console()
    console.print(f"{config}, {date}")
    with RunProgress(kept, console) as progress:
        succeeded = run.execute(progress)
    if not succeeded:
        explain_failure(run, console)
        sys.exit(1)
    return run.folder
