"""What classification asks of images and of texts: a Protocol a module of theirs, and how each is found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from nightshift import kinds, tasks
from nightshift.contracts.package import ModelPackage, Signature
from nightshift.contracts.preprocessing import ClassPreprocessing
from nightshift.tasks.base.metrics import MetricsTask

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from nightshift.config.classes import ClassTaskConfig
    from nightshift.contracts.section import Block
    from nightshift.models.recipes import Recipe
    from nightshift.tasks.classification.mistakes import Answers
    from nightshift.tasks.fitting import Fitted


class Candidates(Protocol):
    """What can be fitted."""

    def preprocessing(self, task: Any, /) -> ClassPreprocessing:
        """Return how rows become the graphs' input.

        Raises:
            UserError: when something that it needs cannot be read.
        """

    def signature(self, task: Any, /) -> Signature:
        """Return what every graph takes and gives."""

    def files(self, task: Any, /) -> Mapping[str, bytes]:
        """Return what a package holds beside its graphs."""

    def fit(self, setup: Any, name: str, items: Any, rows: Any, /) -> "Fitted":
        """Fit one candidate of the config."""

    def recipe(self, task: Any, name: str, /) -> "Recipe":
        """Return the recipe of a network among the candidates."""

    def is_network(self, task: Any, name: str, /) -> bool:
        """Return whether several processes train a candidate together."""


@dataclass(frozen=True)
class View:
    """What networks see of a row's contents.

    Attributes:
        columns: where the contents are.
        see: rows' contents, a sequence a column -> what networks see of them, (n, ...), structured where a model has
            several inputs; can be pickled.
        empty: what they see of no rows, (0, ...).
        made_of: what decides it beside the contents: part of every partition's key.
        known_by: field of a structured row by which the same content is known again; empty: the whole row.
        kept: those of the columns that stay beside who the rows are: texts that are shown to people.
    """

    columns: tuple[str, ...]
    see: "Callable[..., npt.NDArray[Any]]"
    empty: "npt.NDArray[Any]"
    made_of: list[Any]
    known_by: str = ""
    kept: tuple[str, ...] = ()

    def identify(self, seen: "npt.NDArray[Any]") -> list[str]:
        """Return a hash of the content of each row that networks see, (n, ...)."""
        from nightshift import storage

        return [storage.sha256(row.tobytes()) for row in (seen[self.known_by] if self.known_by else seen)]


class Views(Protocol):
    """What networks see of contents."""

    def view(self, task: Any, /) -> View:
        """Return what networks see of the contents of rows.

        Raises:
            UserError: when something that it needs cannot be read.
        """


class Display(Protocol):
    """How a report shows contents."""

    def show(self, uri: str, model: ModelPackage, title: str, rows: "pd.DataFrame", inputs: Any, /) -> "Block":
        """Show what some rows were taken for.

        Args:
            uri: folder of the model.
            model: its manifest.
            title: of the block.
            rows: `event_id` and `predicted`, n rows.
            inputs: what the graph takes of them, (n, ...).
        """

    def mistakes(self, uri: str, model: ModelPackage, answers: "Answers", /) -> "Block | None":
        """Show the surest mistakes among a model's answers; None without a mistake."""


class Descriptors(Protocol):
    """What can be said of contents without a model."""

    NAMES: tuple[str, ...]

    def describe(self, preprocessing: Any, inputs: Any, /) -> "list[npt.NDArray[np.float32]]":
        """Return a figure of each row for each of the names, (n,).

        Args:
            preprocessing: how rows became the inputs.
            inputs: what networks see of them, (n, ...).
        """


def find_other_labels(task: "ClassTaskConfig", model: ModelPackage) -> str:
    """Return that a model gives one class where the config has any number, or the reverse; empty where they agree."""
    if model.decision.is_multilabel == task.is_multilabel:
        return ""
    if task.is_multilabel:
        return "gives each item one class, and task.label_separator is set"
    return "gives an item any number of classes, and task.label_separator is not set"


def metrics(kind: str) -> MetricsTask:
    """Return the metrics of a task."""
    return tasks.find(kind).metrics


def candidates(kind: str) -> Candidates:
    """Return what can be fitted to a task's contents."""
    return cast("Candidates", kinds.find(kind).module("candidates"))


def views(kind: str) -> Views:
    """Return what networks see of a task's contents."""
    return cast("Views", kinds.find(kind).module("views"))


def display(kind: str) -> Display:
    """Return how a report shows a task's contents."""
    return cast("Display", kinds.find(kind).module("display"))


def descriptors(kind: str) -> Descriptors:
    """Return what can be said of a task's contents without a model."""
    return cast("Descriptors", kinds.find(kind).module("descriptors"))
