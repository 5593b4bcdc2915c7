"""What a step takes and leaves, declared once: its flags, and its inputs and outputs on Kubeflow."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any


class StepParser(argparse.ArgumentParser):
    """Flags of a step; texts stay texts here and are checked where they are read, inside `step.run`.

    Attributes:
        component: the step's name.
        has_budget: whether the run's budget keeps it from starting.
        acts: whether it changes what others use: then the budget does not interrupt it.
        written: names of the artifacts that it writes.
    """

    written: Sequence[str] = ()

    def __init__(self, component: str, description: str, has_budget: bool = True, acts: bool = False) -> None:
        # an engine writes what is longer than an argument may be into a file, and gives @ and its name
        super().__init__(prog=f"python -m components.{component}", description=description, fromfile_prefix_chars="@")
        self.component = component
        self.has_budget, self.acts = has_budget, acts
        self.add_argument("--executor-input", type=json.loads, default={}, help="Kubeflow's executor input (JSON)")

    def takes(self, **flags: str) -> "StepParser":
        """Add required flags, name=help."""
        for name, text in flags.items():
            self.add_argument(f"--{name.replace('_', '-')}", required=True, help=text)
        return self


@dataclass(frozen=True)
class StepField:
    """A value or an artifact of a step.

    Attributes:
        name: of the flag, which gets an artifact's URI, and of the parameter or artifact on Kubeflow.
        type: of a value, where a dict is JSON; name of an artifact's class in `kfp.dsl`.
        help: of the flag. Without it there is none: an input may be absent, and the step looks for it in the executor
            input; an output has metadata only.
        required: False for a flag that a component of the step may lack.
        choices: the values allowed; any where it is empty.
        many: whether an input is a list, of what all shards of a step have made; it has no flag.
    """

    name: str
    type: Any
    help: str = ""
    required: bool = True
    choices: tuple[str, ...] = ()
    many: bool = False


class StepParameter(StepField):
    """A value that a step takes."""


class StepInput(StepField):
    """An artifact that a step reads."""


class StepOutput(StepField):
    """An artifact that a step writes."""


CONFIG = StepParameter("config", dict, "the use case's config (JSON)")
DATE = StepParameter("date", str, "logical date, YYYY-MM-DD")
DEVICE = StepParameter("device", str, "where to compute", choices=("cpu", "cuda"))
STATE = StepParameter("state", dict, "where things are kept (JSON)")
RUN = StepParameter("run", str, "id of the run, for its records")
FEATURES = StepInput("features", "Dataset", "URI of the features manifest")
MODEL = StepInput("model", "Model", "URI of the model")


@dataclass(frozen=True)
class StepContract:
    """A step as its command line and Kubeflow see it.

    Attributes:
        step: name of its folder in `components/`.
        description: what it does, a sentence.
        fields: in the order of its command line.
        name: of the component on Kubeflow; empty for the step's.
        has_budget: whether the run's budget keeps it from starting.
        acts: whether it changes what others use: then the budget does not interrupt it.
    """

    step: str
    description: str
    fields: tuple[StepField, ...]
    name: str = ""
    has_budget: bool = True
    acts: bool = False

    @property
    def flags(self) -> Sequence[StepField]:
        """The fields that are flags."""
        return [field for field in self.fields if field.help]

    def parser(self) -> StepParser:
        """Return the flags."""
        parser = StepParser(self.step, self.description, self.has_budget, self.acts)
        parser.written = [field.name for field in self.flags if isinstance(field, StepOutput)]
        for field in self.flags:
            choices = field.choices or None
            parser.add_argument(f"--{field.name}", required=field.required, choices=choices, help=field.help)
        return parser

    def without(self, name: str, *flags: str) -> "StepContract":
        """Return another component of the same step, which lacks some of the optional flags."""
        fields = tuple(field for field in self.fields if field.name not in flags)
        assert all(field.required is False for field in {*self.fields} - {*fields}), f"{flags} are required"
        return replace(self, name=name, fields=fields)

    def __call__(self, **inputs: Any) -> Any:
        """Add the step to the pipeline that kfp traces.

        Args:
            inputs: parameter or artifact -> its value, or the output of another step.

        Returns:
            The kfp task.
        """
        from nightshift.runtime.container import component

        return component(self)(**inputs)
