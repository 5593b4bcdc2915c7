"""What a step is asked to do: its flags, each parsed and checked once."""

from argparse import Namespace
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from components.common import splits
from components.common.config import Config, parse
from components.common.contracts import package, tables
from components.common.contracts.package import ModelPackage
from components.common.contracts.state import State
from components.common.contracts.tables import Table
from components.common.dates import parse_date
from components.common.splits import Plan


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
