"""What a pipeline asks for and a run on one machine, a process or container a step, cannot give."""

from collections.abc import Iterable, Iterator
from typing import Any

from nightshift.config.neural import Trainer
from pipelines import ir

TRAINING = "training"  # the step whose layout the config has


def list_ignored(tasks: Iterable[ir.PipelineTask], config: dict[str, Any]) -> Iterator[str]:
    """Return the settings that are ignored, a line for each step that has some.

    Args:
        tasks: the pipeline's steps.
        config: the use case as the run's argument has it.
    """
    for task in tasks:
        settings = [*{"accelerator"} & set(task.resources), *sorted(task.kubernetes)]
        if task.name == TRAINING and (layout := _describe_layout(config)):
            settings.append(f"task.trainer {{{layout}}}, since its processes is not set, and the step is one process")
        if settings:
            yield f"{task.name}: {', '.join(settings)}"


def _describe_layout(config: dict[str, Any]) -> str:
    """Return the layout that one process ignores; empty where several are started."""
    trainer = Trainer.model_validate(config.get("task", {}).get("trainer", {}))
    return "" if trainer.processes else trainer.describe_layout()
