"""A step's container for Kubeflow; the only file of the library that imports kfp."""

from typing import Any

from kfp import dsl

from nightshift.runtime.image import UNPLACED


def container(step: str, **flags: Any) -> dsl.ContainerSpec:
    """Return the container of a step.

    Args:
        step: name of its folder in `components/`.
        flags: flag of the step -> parameter of the component, or URI of an artifact.
    """
    arguments = [argument for name, value in flags.items() for argument in (f"--{name}", value)]
    return dsl.ContainerSpec(
        image=UNPLACED,
        command=["python", "-m", f"components.{step}"],
        args=[*arguments, "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )
