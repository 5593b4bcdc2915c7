"""The task of images: the class of each, or any number of classes."""

from typing import Annotated, Literal

import annotated_types
from pydantic import Field, ValidationInfo, field_validator

from nightshift.config.classes import Group, ItemClassConfig, ItemSimulator, ItemTaskConfig
from nightshift.config.columns import Holds, LabeledColumns
from nightshift.config.section import INTEGER, Factor
from nightshift.config.task import CandidateConfig, CandidateName

PIXELS = 89_478_485  # above, Pillow takes a file for a decompression bomb


class ImageNetwork(CandidateConfig):
    """A network that takes images; `nightshift/models/recipes/` has a recipe for each kind."""

    kind: Literal["resnet"]


class ImageTaskConfig(ItemTaskConfig):
    """The classes of each image. Images are turned upright, cut to a square in the middle and resized."""

    kind: Literal["image-classification"]
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


class ImageColumns(LabeledColumns):
    """The user's column name for each role of an image."""

    image: Annotated[str, Holds.FILE] = Field(
        description="a file's bytes, its path below the data's folder, or its s3:// or gs:// URI"
    )
    group: Group = None


class ImageSimulator(ItemSimulator):
    """Drawn shapes, or handwritten digits."""

    digits: bool = Field(
        False,
        description="true: scikit-learn's handwritten digits, each on one day in so many that all are used once; "
        "false: drawn shapes",
    )
    brightness_factor: Factor = Field(1.0, description="on pixels, from drift_from")
    blur: Annotated[float, annotated_types.Interval(ge=0, le=16)] = Field(
        0.0, description="radius in pixels, from drift_from"
    )

    @field_validator("digits")
    @classmethod
    def _digits_have_one_class(cls, digits: bool, info: ValidationInfo) -> bool:
        if digits and info.data.get("label_share"):
            raise ValueError("each digit has one class; leave out simulator.label_share")
        return digits


class ImageConfig(ItemClassConfig):
    """A use case whose events are images."""

    columns: ImageColumns
    simulator: ImageSimulator = ImageSimulator()
    task: ImageTaskConfig
