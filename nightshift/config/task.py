"""What every task has: candidates, a seed, and how processes share the training of a network."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, StringConstraints

from nightshift.config.neural import Trainer
from nightshift.config.section import ConfigSection, Parameter, Seed

# names the candidate's file in the model package
CandidateName = Annotated[str, StringConstraints(pattern=r"^[^./\\][^/\\]*$", max_length=100)]


class CandidateConfig(ConfigSection):
    """One candidate: what is trained, and its parameters.

    A whole number arrives as an integer, whether it is written 1 or 1.0, since that is how Kubeflow passes it on.
    """

    kind: str
    parameters: dict[str, Parameter] = Field({}, description="under the library's own names")

    @property
    def details(self) -> dict[str, list[str]]:
        """What a model's manifest has of it besides its kind and parameters."""
        return {}


class TaskConfig(ConfigSection):
    """What every task has."""

    kind: str
    seed: Seed = 0
    trainer: Trainer = Trainer()
    select_by: str = Field(description="metric on the validation days by which the candidate is chosen")
    candidates: Mapping[CandidateName, CandidateConfig] = Field(min_length=1, description="name -> what to train")
