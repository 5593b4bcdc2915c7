"""What a gate says of a model: the same shape from every gate, so that whoever acts on it need not know the gate."""

from enum import StrEnum

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part

FILE = "verdict.json"
SKEW = "skew.json"  # beside the evaluation's own


class Decision(StrEnum):
    """Whether a model gets through a gate."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    UNDECIDED = "undecided"


class Measure(Part):
    """A figure that a decision rests on, or that is worth keeping beside it."""

    name: str = Field(description="what was measured, e.g. `average_precision`")
    value: float | None = Field(description="null where it cannot be measured")
    limit: float | None = Field(None, description="what the value is held to; null where it is not held to anything")
    interval: tuple[float, float] | None = Field(None, description="95 % interval: low, high")
    higher_is_better: bool = Field(True, description="whether the value may not lie below the limit, or not above it")

    @property
    def is_beyond_limit(self) -> bool:
        """Whether the value lies beyond the limit, on the side that is worse."""
        if self.limit is None or self.value is None or self.value == self.limit:
            return False
        return (self.value < self.limit) == self.higher_is_better


class Opponent(Part):
    """The version that a model was compared with."""

    version: int = Field(description="its number in the registry")
    sha256: str = Field(description="its identity")


class Verdict(Artifact):
    """Whether a model gets through a gate, and why."""

    gate: str = Field(description="which gate: `evaluation`, `drift` ...")
    decision: Decision = Field(description="`undecided` where there is too little to decide on")
    reasons: list[str] = Field(description="why, one sentence each")
    measures: list[Measure] = Field(description="the figures behind it")
    subject: str = Field(description="identity (SHA-256) of the model that was judged")
    compared_with: Opponent | None = Field(None, description="the champion at that time, where the gate compares")
    reference: Opponent | None = Field(
        None,
        description="the best version of evaluation.reference_days, to which later challengers are held as well; null "
        "where the model is that itself, or nothing is compared",
    )
    caveat: str = Field(
        "", description="a sentence that a reader needs before all others, the headline of the run's page; else empty"
    )
    advisory: bool = Field(False, description="true: it is reported and does not block a promotion")

    @property
    def is_held(self) -> bool:
        """Whether a person has to decide."""
        return self.decision is Decision.UNDECIDED and bool(self.caveat)

    @property
    def is_pass(self) -> bool:
        """Whether the model got through."""
        return self.decision is Decision.PASS

    def value(self, name: str) -> float | None:
        """Return a measure's value, None where there is none."""
        return next((measure.value for measure in self.measures if measure.name == name), None)
