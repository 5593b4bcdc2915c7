"""What a step is to do: its flags, each parsed and checked once, when it is first needed."""

from argparse import Namespace
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from nightshift.config import Config, parse
from nightshift.contracts import package, tables
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.state import State
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.data.dates import parse_date
from nightshift.data.splits import Plan


@dataclass(frozen=True)
class StepContext:
    """One run of a step; each attribute reads the flag of its name, where the step has that flag.

    Attributes:
        args: the flags.
    """

    args: Namespace

    @cached_property
    def config(self) -> Config:
        """The use case."""
        return parse(self.args.config)

    @property
    def use_case(self) -> str:
        """Name of the use case; empty for a step that takes no config, and so has no budget."""
        return self.config.name if getattr(self.args, "config", "") else ""

    @property
    def device(self) -> str:
        """Where to compute; the CPU for a step that leaves no choice."""
        return getattr(self.args, "device", "cpu")

    def list_uris(self, name: str) -> list[str]:
        """Return the URIs of an input that is a list; none where the pipeline gives none."""
        inputs = getattr(self.args, "executor_input", {}).get("inputs", {}).get("artifacts", {})
        return [artifact["uri"] for artifact in inputs.get(name, {}).get("artifacts", [])]

    @cached_property
    def day(self) -> date:
        """The logical date."""
        return parse_date(self.args.date)

    @cached_property
    def state(self) -> State:
        """Where things are kept."""
        return State.parse(self.args.state)

    @cached_property
    def plan(self) -> Plan:
        """The windows of the logical date."""
        return splits.plan(self.config, self.day)

    @cached_property
    def features(self) -> Table:
        """The features by day."""
        return tables.read_table(self.args.features)

    @cached_property
    def model(self) -> ModelPackage:
        """The manifest of the model."""
        return package.load(self.args.model)
