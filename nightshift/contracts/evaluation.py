"""`evaluation.json`: how good a model's candidates are on the test days, and the curves of the selected one."""

from pydantic import Field

from nightshift.contracts.artifact import Artifact, FoldWindow, Part

FILE = "evaluation.json"

Metrics = dict[str, float | None]


class Interval(Part):
    """95 % interval."""

    low: float
    high: float


class Gain(Interval):
    """A value and its 95 % interval."""

    value: float


class DecisionCost(Part):
    """What the decisions cost on the test rows."""

    per_1000: float = Field(description="events, in the currency of the amounts, or of the costs where there are none")
    threshold: float = Field(description="score from which an event is flagged")
    alerts: int = Field(description="flagged events")
    missed_positives: int = Field(description="positives not flagged")


class Champion(Part):
    """The version that served then, measured on the same rows."""

    version: int = Field(description="its number in the registry")
    sha256: str = Field(description="its identity")
    metrics: Metrics


class UnseenValues(Part):
    """Values of a categorical column that are none of the model's categories; they are scored as all zeros."""

    distinct: int = Field(description="how many different ones")
    rows: int = Field(description="test rows that hold them")
    share: float = Field(description="of all test rows, 0 to 1")


class PrecisionRecall(Part):
    """Points of the curve, recall ascending; empty without a positive."""

    recall: list[float]
    precision: list[float]


class Calibration(Part):
    """Bins of the score, ascending."""

    predicted: list[float] = Field(description="mean score")
    observed: list[float] = Field(description="share of positives, 0 to 1")
    count: list[int] = Field(description="rows")


class OfClass(Part):
    """How well one class is told apart; null where a figure has no meaning."""

    name: str
    rows: int = Field(description="test rows of the class")
    precision: float | None
    recall: float | None
    f1: float | None
    average_precision: float | None = Field(None, description="where a row has any number of classes")
    auc_roc: float | None = Field(None, description="likewise")
    calibration_error: float | None = Field(None, description="likewise: mean gap of score and share with the class")


class OfSlice(Part):
    """How often the class is right on a part of the test rows that are alike in something."""

    name: str = Field(description="what they have in common")
    rows: int = Field(description="test rows of the part")
    accuracy: float


class ResidualSummary(Part):
    """How far scores are from labels that are numbers, on a part of the test rows; the label's unit."""

    name: str = Field(description="what the rows have in common: `column=value`, or their day")
    rows: int
    mae: float = Field(description="mean absolute error")
    bias: float = Field(description="mean of score less label")
    coverage: float = Field(description="share of labels within the prediction intervals")


class Curves(Part):
    """Curves of the selected candidate."""

    precision_recall: PrecisionRecall
    calibration: Calibration


class EvaluationFigures(Artifact):
    """What `evaluation.json` has of every task."""

    test: FoldWindow = Field(description="the test days; rows without those that a task leaves out")
    models: dict[str, Metrics] = Field(description="candidate -> its metrics; null where one has no meaning")
    selected: str = Field(description="the candidate that was judged")
    intervals: dict[str, dict[str, Interval]] = Field(description="candidate -> of its resampled metrics")
    champion: Champion | None = Field(description="null where there is none to compare with")
    gains: dict[str, Gain] | None = Field(description="of the selected candidate over the champion, paired")


class Evaluation(EvaluationFigures):
    """How good a model's candidates are on the test days; entities already known as positive are left out."""

    top_k: int = Field(description="entities that can be checked a day")
    cost: DecisionCost = Field(description="of the selected candidate's decisions")
    unseen: dict[str, UnseenValues] = Field(description="by categorical column")
    notes: list[str] = Field(description="what is unusual about the rows, a sentence each")
    curves: Curves


class ClassEvaluation(EvaluationFigures):
    """How well a model's candidates tell classes apart on the test days; `evaluation.json` where a task has classes."""

    left_out: int = Field(description="rows of the test days that share group or content with a training row")
    slices: list[OfSlice] = Field(description="of the selected candidate: thirds by what can be said of a row")
    classes: list[OfClass] = Field(description="of the selected candidate, in the order of task.classes")
    confusion: list[list[int]] = Field(
        description="rows by true class, a list each, and by predicted class; empty where a row has any number of them"
    )
    calibration: Calibration = Field(
        description="confidence, the highest score, against the share predicted right; where a row has any number of "
        "classes, each score against the share that has the class"
    )


class NumberEvaluation(EvaluationFigures):
    """How far a model's candidates are from labels that are numbers; `evaluation.json` of `tabular-regression`."""

    naive: dict[str, Metrics] = Field(description="naive forecast -> its metrics on the same rows")
    coverage_promised: float = Field(description="share of labels that the prediction intervals shall cover")
    coverage: Gain = Field(description="share that they cover on the test rows")
    slices: list[ResidualSummary] = Field(description="of the selected candidate, by categorical column and value")
    days: list[ResidualSummary] = Field(description="of the selected candidate, by test day")
