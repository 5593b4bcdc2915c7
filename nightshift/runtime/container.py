"""A step's component for Kubeflow; the only file of the library that imports kfp."""

from functools import cache
from inspect import Parameter, Signature
from types import GenericAlias
from typing import Any

from kfp import dsl

from nightshift.runtime.flags import StepContract, StepField, StepInput, StepOutput, StepParameter
from nightshift.runtime.image import UNPLACED


@cache
def component(contract: StepContract) -> Any:
    """Return the component that kfp makes of a function with the contract's signature."""

    def build(*placeholders: Any) -> dsl.ContainerSpec:
        return _container(contract, dict(zip(contract.fields, placeholders, strict=True)))

    build.__name__ = contract.name or contract.step
    build.__doc__ = contract.description
    build.__signature__ = Signature([_parameter(field) for field in contract.fields])  # type: ignore[attr-defined]
    return dsl.container_component(build)


def _container(contract: StepContract, values: dict[StepField, Any]) -> dsl.ContainerSpec:
    flags = [(field.name, _argument(field, values[field])) for field in contract.flags]
    arguments = [argument for name, value in flags for argument in (f"--{name}", value)]
    return dsl.ContainerSpec(
        image=UNPLACED,
        command=["python", "-m", f"components.{contract.step}"],
        args=[*arguments, "--executor-input", dsl.PIPELINE_TASK_EXECUTOR_INPUT_PLACEHOLDER],
    )


def _argument(field: StepField, value: Any) -> Any:
    return value if isinstance(field, StepParameter) else value.uri


def _parameter(field: StepField) -> Parameter:
    default = None if isinstance(field, StepInput) and not field.help else Parameter.empty
    return Parameter(field.name, Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=_annotation(field))


def _annotation(field: StepField) -> Any:
    if isinstance(field, StepParameter):
        return field.type
    artifact = getattr(dsl, field.type)
    if isinstance(field, StepOutput):
        return dsl.Output[artifact]
    return dsl.Input[GenericAlias(list, artifact) if field.many else artifact]
