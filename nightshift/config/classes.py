"""What the tasks have in common that tell classes apart: of images and of texts."""

from collections.abc import Mapping
from typing import Annotated, Literal

import annotated_types
from pydantic import Field, StringConstraints, field_validator

from nightshift.config.columns import Identifier
from nightshift.config.policy import EmbeddingDriftLimits, EvaluationGate
from nightshift.config.section import Positive, Share
from nightshift.config.source import Simulator
from nightshift.config.task import CandidateConfig, CandidateName, TaskConfig
from nightshift.config.usecase import LabeledConfig
from nightshift.data.values import canonical

ClassName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Group = Annotated[
    Identifier,
    Field(description="what belongs together, such as a patient or an author: never trained on and tested on"),
]
ItemCount = Annotated[int, annotated_types.Interval(ge=1, le=10_000_000)]


class ClassTaskConfig(TaskConfig):
    """What both tasks have; what a candidate may be differs."""

    candidates: Mapping[CandidateName, CandidateConfig]
    classes: Annotated[list[ClassName], annotated_types.Len(min_length=2)] = Field(
        description="every value of columns.label, as text; another one is quarantined as unknown_label"
    )
    select_by: Literal["accuracy", "macro_f1"] = Field(
        "accuracy", description="metric on the validation days by which the candidate is chosen, and the gate decides"
    )

    @field_validator("classes")
    @classmethod
    def _no_class_twice(cls, classes: list[str]) -> list[str]:
        spellings = [canonical(name) for name in classes]
        for name, spelling in zip(classes, spellings, strict=True):
            if not spelling:
                raise ValueError(f"class {name!r} is no name that a label can have; give text, or a number below 2^53")
            if spellings.count(spelling) > 1:
                raise ValueError(f"class {name!r} is listed twice; give each class once")
        return classes


class ClassSimulator(Simulator):
    """Images or texts: how many, and how they change."""

    items: ItemCount = Field(200, description="images or texts a day")
    new_class: Share = Field(0.0, description="share of items that are, from drift_from, of a class nobody has seen")


class ClassEvaluationGate(EvaluationGate):
    """The gate a challenger has to pass."""

    min_rows: Positive = Field(100, description="test rows that are needed to decide")
    min_accuracy: Share = Field(0.5, description="share of test rows whose class is predicted")
    min_class_recall: Share = Field(
        0.0, description="share predicted of each class that has min_class_rows test rows or more"
    )
    min_class_rows: Positive = Field(20, description="test rows by which a class is judged alone")


class ClassDriftLimits(EmbeddingDriftLimits):
    """Effect sizes above which something counts as drifted, in what items are like or by the labels."""

    accuracy: Share = Field(0.05, description="loss against the model's promise, the same way")
    min_rows: Positive = Field(100, description="labeled rows needed to apply that limit")


class ClassConfig(LabeledConfig):
    """A use case whose events are images or texts."""

    simulator: ClassSimulator = ClassSimulator()
    task: ClassTaskConfig
    evaluation: ClassEvaluationGate = ClassEvaluationGate()
    drift: ClassDriftLimits = ClassDriftLimits()
