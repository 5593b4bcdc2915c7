"""A step's container as Kubeflow sees it; the one file of the library that imports kfp."""

from typing import Any

from kfp import dsl

from nightshift.image import UNPLACED


def container(step: str, **flags: Any) -> dsl.ContainerSpec:
    """Return the container that runs a step.

    Args:
        step: its folder in `components/`.
        flags: flag of the step -> a parameter of the component, or the URI of an artifact.
    """
    arguments = [word for name, value in flags.items() for word in (f"--{name}", value)]
    return dsl.ContainerSpec(
        image=UNPLACED,
        command=["python", "-m", f"components.{step}"],
        args=[*arguments, "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
