"""How what a request or a table holds becomes a model's input: one part of the manifest, for each kind of task."""

import operator
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StringConstraints

from nightshift.contracts.artifact import Part

# a file lies in the package's own folder
DAY = 86_400_000_000  # microseconds
FileName = Annotated[str, StringConstraints(pattern=r"^[^./\\][^/\\]*$")]


class Preprocessing(Part):
    """From events to the model's input; a class for each kind of task, told apart by its literal `kind`.

    Attributes:
        scope: what models of such rows are of, for a message.
        item: what requests call one.
        takes_events: whether its online state makes the input of raw events.
        highest_score: up to which an endpoint counts scores in bins.
        SEEN: the fields that features have to be made with for the model.
    """

    scope: ClassVar[str]
    item: ClassVar[str] = "row"
    takes_events: ClassVar[bool] = False
    highest_score: ClassVar[float] = 1.0
    SEEN: ClassVar[frozenset[str]] = frozenset()

    @property
    def feature_settings(self) -> dict[str, Any]:
        """What features have to be made with for the model."""
        return self.model_dump(include=set(self.SEEN))

    @property
    def reads(self) -> object:
        """What two versions that answer side by side have alike, since a request is read once."""
        return self.model_dump()

    @property
    def labels(self) -> list[str]:
        """What each of an item's scores is of, where it has several."""
        return []

    @property
    def summary(self) -> str:
        """What the input is made of, for a message."""
        return str(self.model_dump(exclude={"kind"}))


class Inputs(Preprocessing):
    """The named inputs of a tabular model, in the order of its matrix: the numeric, then the categorical by name."""

    scope = "rows with columns"
    numeric: list[str] = Field(description="columns taken as they are")
    categorical: dict[str, list[str]] = Field(
        description="column -> the categories seen in training; one-hot, an unseen value is all zeros"
    )
    nullable: list[str] = Field(
        [],
        description="numeric columns whose numbers may be missing, NaN in the matrix; absent without any",
        exclude_if=operator.not_,
    )

    @property
    def columns(self) -> list[str]:
        """The columns a frame must have to be scored."""
        return [*self.numeric, *self.categorical]

    @property
    def width(self) -> int:
        """Columns of the matrix."""
        return len(self.numeric) + sum(map(len, self.categorical.values()))

    @property
    def summary(self) -> str:
        """How many inputs there are, and their names."""
        return f"{self.width} columns of {self.columns}"


class Calendar(StrEnum):
    """What a clock and a calendar show."""

    HOUR = "hour"
    DAY_OF_WEEK = "day_of_week"
    IS_WEEKEND = "is_weekend"
    IS_NIGHT = "is_night"
    IS_MONTH_END = "is_month_end"


class Feature(Part):
    """An input that follows from the events of an entity in a window; times are in microseconds."""

    name: str
    function: str = Field(description="of `nightshift.data.aggregations`")
    argument: int = Field(0, description="of the function: events, or a half-life", exclude_if=operator.not_)
    entity: list[str] = Field(description="columns by whose values events belong together")
    column: str | None = Field(None, description="what it is computed of", exclude_if=operator.not_)
    length: int = Field(description="of the window")
    newest: int | None = Field(None, description="events at most, the newest", exclude_if=operator.not_)
    offset: int = Field(0, description="how long before the event the window ends", exclude_if=operator.not_)
    reads_labels: bool = Field(
        False, description="whether the window ends where labels are known", exclude_if=operator.not_
    )
    with_event: bool = Field(False, description="whether the window has the event itself", exclude_if=operator.not_)
    nullable: bool = Field(False, description="whether it may be missing", exclude_if=operator.not_)


class FeatureSpec(Part):
    """How inputs are computed from events, see `nightshift/tabular`."""

    features: list[Feature] = Field(description="in the order of the inputs")
    calendar: list[Calendar] = Field(description="inputs that follow from the time alone")
    has_amount: bool = Field(description="whether events have an amount, which is an input")
    amount_decimals: int = Field(description="decimals at which amounts are summed, exactly")
    label_delay_days: int = Field(description="days until a label is known, by which windows of labels end earlier")
    timezone: str = Field("UTC", description="IANA name of the zone by whose clock hours and days are")

    @property
    def longest_days(self) -> int:
        """How many days the windows reach back, label delays aside; 0 without any."""
        return max((-(-(feature.length + feature.offset) // DAY) for feature in self.features), default=0)

    def find_count(self, entity: str) -> Feature | None:
        """Return the count of an entity's events in the longest window; None without one."""
        counts = [feature for feature in self.features if (feature.function, feature.entity) == ("count", [entity])]
        return max(counts, key=lambda feature: feature.length, default=None)

    @property
    def summary(self) -> str:
        """How many features there are, and of what, for a message."""
        entities = sorted({" x ".join(feature.entity) for feature in self.features})
        return f"{len(self.features)} features{' by ' if entities else ''}{', '.join(entities)}"


class TablePreprocessing(Inputs):
    """From events to the model's input, with features of the events before."""

    scope = "tables"
    takes_events = True
    features: FeatureSpec

    @property
    def reads(self) -> object:
        """Categories may differ."""
        return self.features, self.numeric, self.nullable

    @property
    def summary(self) -> str:
        """How many inputs there are, the entities they are of, and their names."""
        return f"{self.width} columns of {self.features.summary} and {self.columns}"


class TabularPreprocessing(TablePreprocessing):
    """From events to the model's input, for the task `tabular`."""

    kind: Literal["tabular"] = "tabular"


class RegressionPreprocessing(Inputs):
    """From a row to the model's input, for the task `tabular-regression`."""

    scope = "numbers"
    highest_score = 1000.0
    kind: Literal["tabular-regression"] = "tabular-regression"
    windows_days: list[int] = Field(description="lengths of the windows over which a series' labels are averaged")
    label_delay_days: int = Field(description="days until a label is known, by which windows end earlier")

    @property
    def reads(self) -> object:
        """Categories may differ."""
        return self.windows_days, self.label_delay_days, self.numeric, self.nullable


class ClassPreprocessing(Preprocessing):
    """From an image, a text or a row to the model's input."""

    scope = "classes"
    kind: str
    classes: list[str] = Field(description="what each score is of")

    @property
    def reads(self) -> object:
        """Classes may differ."""
        return self.model_dump(exclude={"classes"})

    @property
    def labels(self) -> list[str]:
        """The classes."""
        return self.classes


class MulticlassPreprocessing(TablePreprocessing, ClassPreprocessing):
    """From events to the model's input, for the task `tabular-classification`."""

    scope = "classes of rows"
    kind: Literal["tabular-classification"] = "tabular-classification"


class ImagePreprocessing(ClassPreprocessing):
    """From an image file to the model's input, for images; see `nightshift/items/images.py`.

    The graph takes pixels as they are, 0 to 255.
    """

    SEEN = frozenset({"side", "channels"})
    scope = "images"
    item = "image"
    kind: Literal["image-classification"] = "image-classification"
    side: int = Field(description="pixels of the square that is cut from the middle of an image and resized")
    channels: int = Field(description="1: gray, 3: RGB")
    min_side: int = Field(description="pixels of the shorter side, below which an image is refused")
    max_pixels: int = Field(description="width times height, above which an image is refused before it is decoded")


class TokenizedPreprocessing(Preprocessing):
    """From a text to the numbers of its tokens."""

    scope = "texts"
    item = "text"
    length: int = Field(description="tokens at which longer texts are cut")
    tokenizer: FileName | None = Field(description="the tokenizer's file; null: words, by their hashes")
    tokenizer_sha256: str = Field(description="hash of the tokenizer's file, or of nothing")
    vocabulary: int = Field(description="numbers that tokens have")

    @property
    def limit(self) -> int:
        """Exclusive upper bound of the numbers that a model takes."""
        return self.vocabulary


class TextPreprocessing(TokenizedPreprocessing, ClassPreprocessing):
    """From a text to the model's input, for classes of texts; see `nightshift/items/tokens.py`."""

    SEEN = frozenset({"length", "vocabulary", "tokenizer_sha256"})
    kind: Literal["text-classification"] = "text-classification"
    pad: int = Field(description="the number that fills texts up, and counts for nothing")
