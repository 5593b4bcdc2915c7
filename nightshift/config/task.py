"""What every task has: candidates, a seed, and how processes share the training of a network."""

from typing import Annotated

from pydantic import StringConstraints

from nightshift.config.neural import Trainer
from nightshift.config.section import Section, Seed

# names the candidate's file in the model package
CandidateName = Annotated[str, StringConstraints(pattern=r"^[^./\\][^/\\]*$", max_length=100)]


class Task(Section):
    """What every task has."""

    kind: str
    seed: Seed = 0
    trainer: Trainer = Trainer()

    @property
    def longest_window_days(self) -> int:
        """How far back the features of an event reach, 0 where they are made of the event alone."""
        return 0
