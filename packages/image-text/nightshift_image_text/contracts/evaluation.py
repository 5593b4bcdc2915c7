"""`evaluation.json` of images with reports: findings as classes, retrieval, subgroups and shortcuts."""

from pydantic import Field

from nightshift.contracts.artifact import Part
from nightshift.contracts.evaluation import ClassEvaluation, Gain


class Recall(Part):
    """How often the right one is among the nearest: the mean of the rows, with its 95 % interval."""

    cutoff: int = Field(description="nearest candidates, among which it is looked for")
    reports: Gain = Field(description="of reports, by an image")
    images: Gain = Field(description="of images, by a report")
    chance: float = Field(description="what a model reaches that tells nothing apart; the mean of both directions")


class PartGap(Part):
    """A metric on a part of the rows beside all others."""

    value: float = Field(description="of the part")
    others: float = Field(description="of all other rows")
    gap: Gain = Field(description="by how much the part's is lower, paired")


class Subgroup(Part):
    """The rows of one scanner, or of one site."""

    column: str = Field(description="`scanner` or `site`")
    name: str = Field(description="which one")
    rows: int
    groups: int = Field(description="patients of these rows")
    auc_roc: PartGap | None = Field(description="mean of the findings that both sides have; null with too few rows")
    recall: PartGap | None = Field(description="at 5, mean of both directions; null with too few rows")


class Shortcut(Part):
    """What a finding's score owes to the corners of an image, where a mark may stand and rarely a finding."""

    finding: str
    rows: int = Field(description="that are taken for it")
    fall: Gain | None = Field(description="mean fall of their scores by hiding the corners; null with too few rows")
    auc_roc: float | None = Field(description="of all rows; null where all or none have the finding")
    hidden_auc_roc: float | None = Field(description="the same with the corners hidden")


class PairEvaluation(ClassEvaluation):
    """How well a model's candidates pair images with reports, and tell findings, on the test days."""

    recalls: dict[str, list[Recall]] = Field(description="candidate -> its recalls by cutoff")
    subgroups: list[Subgroup] = Field(description="of the selected candidate")
    shortcuts: list[Shortcut] = Field(description="of the selected candidate, by finding")
