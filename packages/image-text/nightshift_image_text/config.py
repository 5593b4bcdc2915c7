"""The task of images with reports: each finds the other, and an image shows any number of findings."""

from datetime import date
from typing import Annotated, ClassVar, Literal

import annotated_types
from pydantic import AfterValidator, Field

from nightshift.config.classes import (
    ClassEvaluationGate,
    Group,
    ItemClassConfig,
    ItemClassDriftLimits,
    ItemSimulator,
    ItemTaskConfig,
)
from nightshift.config.columns import Holds, Identifier, LabeledColumns
from nightshift.config.images import PIXELS
from nightshift.config.section import INTEGER, ConfigSection, Factor, Share
from nightshift.config.task import CandidateConfig, CandidateName
from nightshift.data.dates import parse_date

Category = Annotated[str | None, Holds.CATEGORY]
Day = Annotated[str, AfterValidator(lambda text: str(parse_date(text)))]


class ImageTextModel(CandidateConfig):
    """A model of pairs; `nightshift_image_text/task/candidates.py` fits each kind."""

    kind: Literal["clip", "linear"]


class ImageTextTaskConfig(ItemTaskConfig):
    """Pairs of an image and its report. Images are turned upright, cut to a square in the middle and resized."""

    multilabel_selected_by: ClassVar[tuple[str, ...]] = ("recall_at_5", "macro_average_precision")

    kind: Literal["image-text"]
    select_by: Literal["recall_at_5", "macro_average_precision"] = Field(  # type: ignore[assignment]
        "recall_at_5",
        description="metric on the validation days by which the candidate is chosen, and the gate decides: recall_at_5 "
        "of reports by images and the reverse, or macro_average_precision of the findings",
    )
    label_separator: Literal["|", ";", ","] = Field("|", description="character between the findings of an image")
    side: Annotated[int, annotated_types.Interval(ge=8, le=1024)] = Field(224, description="pixels that networks see")
    channels: Annotated[Literal[1, 3], INTEGER] = Field(1, description="1: gray, 3: color")
    min_side: Annotated[int, annotated_types.Interval(ge=1, le=10_000)] = Field(
        8, description="pixels of the shorter side, below which an image is quarantined"
    )
    max_pixels: Annotated[int, annotated_types.Interval(ge=64, le=PIXELS)] = Field(
        50_000_000, description="width times height, above which an image is quarantined before it is decoded"
    )
    length: Annotated[int, annotated_types.Interval(ge=8, le=8192)] = Field(64, description="tokens networks see")
    tokenizer: str | None = Field(
        None,
        description="path or URI of a tokenizer.json, which pretrained networks have, or "
        "hf://organization/name@commit; null: words, by their hashes",
    )
    vocabulary: Annotated[int, annotated_types.Interval(ge=3, le=10_000_000)] = Field(
        30_000, description="numbers that hashed words get; a tokenizer has its own"
    )
    max_characters: Annotated[int, annotated_types.Interval(ge=1, le=100_000_000)] = Field(
        100_000, description="of a report, above which its pair is quarantined"
    )
    candidates: dict[CandidateName, ImageTextModel] = Field(min_length=1, description="name -> what to train")


class ImageTextColumns(LabeledColumns):
    """The user's column name for each role of a pair; a report of several images is on a row for each."""

    image: Annotated[str, Holds.FILE] = Field(
        description="a file's bytes, its path below the data's folder, or its s3:// or gs:// URI"
    )
    report: Annotated[str, Holds.TEXT] = Field(description="text, or its bytes in UTF-8")
    group: Group = None
    study: Identifier = Field(None, description="what one report is about: its images each find it; null: the event")
    scanner: Category = Field(None, description="what made the image; gaps between scanners are judged")
    site: Category = Field(None, description="where the image was made; gaps between sites are judged")


class StudiesConfig(ConfigSection):
    """DICOM files with reports, which `--data dicom://FOLDER` reads and de-identifies."""

    key: str = Field(
        "NIGHTSHIFT_PSEUDONYM_KEY",
        min_length=1,
        description="where the key of the pseudonyms is: an environment variable's name, or a file's path with a /",
    )


class ImageTextSimulator(ItemSimulator):
    """Scans of patients, with findings and templated reports."""

    label_share: Share = Field(0.25, description="prevalence of each finding")
    prevalence_factor: Factor = Field(1.0, description="on the prevalence of findings, from drift_from")
    patients: Annotated[int, annotated_types.Interval(ge=1, le=10_000_000)] = Field(
        2000, description="patients of whom studies are drawn"
    )
    several_images: Share = Field(0.2, description="share of studies with two images")
    new_scanner: Share = Field(0.0, description="share of studies from, as of drift_from, a scanner not seen before")
    new_site: Share = Field(0.0, description="share of studies from, as of drift_from, a site not seen before")
    new_wording: Share = Field(0.0, description="share of reports that are, from drift_from, worded otherwise")
    shortcut: Share = Field(
        0.0, description="share of images with a fracture that have a mark in a corner, up to shortcut_until"
    )
    shortcut_until: Day | None = Field(
        None, description="last day of that; from the next one any image has the mark, half as often. null: each day"
    )

    def shortcut_leaks(self, on: date) -> bool:
        """Return whether the mark tells of a fracture on a day."""
        return self.shortcut_until is None or str(on) <= self.shortcut_until


class ImageTextEvaluationGate(ClassEvaluationGate):
    """The gate a challenger has to pass."""

    min_accuracy: Share = Field(0.0, description="share of test pairs all of whose findings are predicted")
    min_recall: Share = Field(
        0.0, description="share of test pairs whose report, and whose image, is among the 5 nearest"
    )
    max_gap: Share = Field(
        0.2,
        description="largest gap of mean ROC AUC, or of recall at 5, between a scanner's or a site's pairs and all "
        "others, at the low end of the 95 % interval",
    )
    max_shortcut: Share = Field(
        0.1,
        description="largest fall of a finding's score, on pairs taken for it, by hiding the corners of images, at the "
        "low end of the 95 % interval; beyond it a person has to decide",
    )


class ImageTextDriftLimits(ItemClassDriftLimits):
    """Effect sizes above which something counts as drifted, on all pairs or on those of a scanner or a site."""

    unseen_words: Share = Field(
        0.02, description="share of a report's words that no report of the reference has, beyond what is expected"
    )
    prevalence: Share = Field(0.1, description="change of the share of pairs of a scanner or site taken for a finding")


class ImageTextConfig(ItemClassConfig):
    """A use case whose events are images with reports."""

    columns: ImageTextColumns
    simulator: ImageTextSimulator = ImageTextSimulator()
    task: ImageTextTaskConfig
    studies: StudiesConfig = StudiesConfig()
    evaluation: ImageTextEvaluationGate = ImageTextEvaluationGate()
    drift: ImageTextDriftLimits = ImageTextDriftLimits()
