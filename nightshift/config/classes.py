"""The tasks that tell classes apart: of images and of texts."""

from collections.abc import Mapping
from typing import Annotated, Literal

import annotated_types
from pydantic import Field, StringConstraints, field_validator

from nightshift.config.section import INTEGER, Kind, Parameter, Section
from nightshift.config.task import CandidateName, Task
from nightshift.values import canonical

ClassName = Annotated[str, StringConstraints(min_length=1, max_length=200)]
PIXELS = 89_478_485  # above, Pillow takes a file for a decompression bomb


class Network(Section):
    """One candidate: which model family, and its parameters."""

    kind: str
    parameters: dict[str, Parameter] = Field({}, description="those of the recipe")


class ImageNetwork(Network):
    """A network that takes images; `nightshift/neural/recipes/` has a recipe for each kind."""

    kind: Literal["resnet"]


class TextNetwork(Network):
    """A model that takes tokens; `nightshift/tasks/texts/candidates.py` fits each kind."""

    kind: Literal["bert", "tfidf"]


class Classes(Task):
    """What both tasks have; what a candidate may be differs."""

    candidates: Mapping[CandidateName, Network]
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


class Images(Classes):
    """One class of each image. Images are turned upright, cut to a square in the middle and resized."""

    kind: Literal[Kind.IMAGES]
    side: Annotated[int, annotated_types.Interval(ge=8, le=1024)] = Field(224, description="pixels that networks see")
    channels: Annotated[Literal[1, 3], INTEGER] = Field(3, description="1: gray, 3: color")
    min_side: Annotated[int, annotated_types.Interval(ge=1, le=10_000)] = Field(
        8, description="pixels of the shorter side, below which an image is quarantined"
    )
    max_pixels: Annotated[int, annotated_types.Interval(ge=64, le=PIXELS)] = Field(
        50_000_000, description="width times height, above which an image is quarantined before it is decoded"
    )
    near_duplicates: Annotated[int, annotated_types.Interval(ge=0, le=16)] | None = Field(
        None,
        description="bits of 64 by which the difference hash of an image may differ from that of an earlier one of its "
        "day, at or below which it is quarantined; null: only the same bytes are",
    )
    candidates: dict[CandidateName, ImageNetwork] = Field(min_length=1, description="name -> what to train")


class Texts(Classes):
    """One class of each text."""

    kind: Literal[Kind.TEXTS]
    length: Annotated[int, annotated_types.Interval(ge=8, le=8192)] = Field(128, description="tokens networks see")
    tokenizer: str | None = Field(
        None,
        description="path or URI of a tokenizer.json, which pretrained networks have; null: words, by their hashes",
    )
    vocabulary: Annotated[int, annotated_types.Interval(ge=3, le=10_000_000)] = Field(
        30_000, description="numbers that hashed words get; a tokenizer has its own"
    )
    max_characters: Annotated[int, annotated_types.Interval(ge=1, le=100_000_000)] = Field(
        100_000, description="of a text, above which it is quarantined"
    )
    near_duplicates: Annotated[float, annotated_types.Interval(ge=0.5, le=0.95)] | None = Field(
        None,
        description="share of 5-character parts in common with an earlier text of its day, at or above which a text is "
        "quarantined; null: only the same bytes are",
    )
    candidates: dict[CandidateName, TextNetwork] = Field(min_length=1, description="name -> what to train")
