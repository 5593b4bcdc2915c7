"""What the tasks have in common that tell classes apart: of images, of texts, and of rows of a table."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

import annotated_types
from pydantic import Field, StringConstraints, field_validator, model_validator

from nightshift.config.columns import Identifier
from nightshift.config.policy import DriftLimits, EmbeddingDriftLimits, EvaluationGate
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
Separator = Annotated[str, StringConstraints(pattern=r'^[^\w"\[\]]$')]
SELECTED_BY = ("accuracy", "macro_f1")
MULTILABEL_SELECTED_BY = ("macro_average_precision", "macro_f1", "micro_f1")


class ClassTaskConfig(TaskConfig):
    """What these tasks have; what a candidate may be differs."""

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

    @property
    def is_multilabel(self) -> bool:
        """Whether a row has any number of classes, not one."""
        return False


class ItemTaskConfig(ClassTaskConfig):
    """What the tasks of images and of texts have."""

    multilabel_selected_by: ClassVar[tuple[str, ...]] = MULTILABEL_SELECTED_BY  # what select_by may be, default first

    label_separator: Separator | None = Field(
        None,
        description="one character between the labels of an item, such as `|` in `a|b`: an item has any number of the "
        "classes, `[]` for none. Lists, as columns of Parquet and JSON have them, are read as they are. null: each "
        "item has one class",
    )
    select_by: Literal["accuracy", "macro_f1", "macro_average_precision", "micro_f1"] = Field(  # type: ignore[assignment]
        "accuracy",
        description="metric on the validation days by which the candidate is chosen, and the gate decides: accuracy or "
        "macro_f1; with label_separator, macro_average_precision (the default), macro_f1 or micro_f1",
    )

    @model_validator(mode="before")
    @classmethod
    def _select_by_ranking(cls, values: Any) -> Any:
        is_multilabel = isinstance(values, dict) and values.get("label_separator") is not None
        return {"select_by": cls.multilabel_selected_by[0], **values} if is_multilabel else values

    @property
    def is_multilabel(self) -> bool:
        """Whether an item has any number of classes, not one."""
        return self.label_separator is not None


class ClassSimulator(Simulator):
    """Images or texts: how many, and how they change."""

    items: ItemCount = Field(200, description="images or texts a day")
    new_class: Share = Field(0.0, description="share of items that are, from drift_from, of a class nobody has seen")


class ItemSimulator(ClassSimulator):
    """Images or texts that may have several classes."""

    label_share: Share = Field(
        0.0, description="share of items that have a class, each class on its own; 0: each item has one class"
    )


class ClassEvaluationGate(EvaluationGate):
    """The gate a challenger has to pass."""

    min_rows: Positive = Field(100, description="test rows that are needed to decide")
    min_accuracy: Share = Field(
        0.5,
        description="share of test rows whose class is predicted; with task.label_separator, all of whose labels are",
    )
    min_class_recall: Share = Field(
        0.0, description="share predicted of each class that has min_class_rows test rows or more"
    )
    min_class_rows: Positive = Field(20, description="test rows by which a class is judged alone")


class ClassDriftLimits(DriftLimits):
    """Effect sizes above which something counts as drifted, in the inputs or by the labels."""

    accuracy: Share = Field(0.05, description="loss against the model's promise, the same way")
    min_rows: Positive = Field(100, description="labeled rows needed to apply that limit")


class ItemClassDriftLimits(EmbeddingDriftLimits, ClassDriftLimits):
    """Effect sizes above which something counts as drifted, in what items are like or by the labels."""


class ClassConfig(LabeledConfig):
    """A use case whose events are of classes."""

    task: ClassTaskConfig
    evaluation: ClassEvaluationGate = ClassEvaluationGate()
    drift: ClassDriftLimits = ClassDriftLimits()


class ItemClassConfig(ClassConfig):
    """A use case whose events are images or texts."""

    simulator: ItemSimulator = ItemSimulator()
    task: ItemTaskConfig
    drift: ItemClassDriftLimits = ItemClassDriftLimits()

    @model_validator(mode="after")
    def _selects_by_known_metric(self) -> Self:
        task = self.task
        allowed = task.multilabel_selected_by if task.is_multilabel else SELECTED_BY
        if task.select_by not in allowed:
            why = f"{task.select_by!r}, and task.label_separator is {'set' if task.is_multilabel else 'not set'}"
            raise ValueError(f"task.select_by: is {why}; allowed: {', '.join(allowed)}")
        return self

    @model_validator(mode="after")
    def _labels_can_be_split(self) -> Self:
        separator = self.task.label_separator
        if separator is None:
            if self.simulator.label_share:
                raise ValueError(
                    f"simulator.label_share: is {self.simulator.label_share}, and each item has one class; set "
                    "task.label_separator, such as '|', or leave this out"
                )
            return self
        for name in self.task.classes:
            if separator in name or name.strip().startswith("["):
                raise ValueError(
                    f"task.label_separator: is {separator!r}, and class {name!r} holds it or begins like a list; "
                    "choose another separator, or rename the class"
                )
        return self
