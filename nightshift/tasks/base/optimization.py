"""What the optimization step asks: on what other forms of a graph are measured."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from nightshift.contracts import package
from nightshift.contracts.optimization import EngineVariant
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from nightshift.models.graph import Graph
    from nightshift.models.tensors import Tensors


@dataclass(frozen=True)
class OptimizationRows(ABC):
    """Validation rows on which forms of a graph are measured, and how.

    Attributes:
        inputs: what the graph takes of them.
        limit: how much of the metric a form may lose, at the high end of the interval.
    """

    metric: ClassVar[str]  # of which a form may lose a little
    batch_size: ClassVar[int]  # rows of a large call
    inputs: "Tensors"
    limit: float

    @property
    def is_decidable(self) -> bool:
        """Whether the metric has a meaning."""
        return True

    def compute(self, graph: "Graph", inputs: "Tensors") -> "npt.NDArray[np.float32]":
        """Return what is judged of a form of the graph, (n, ...), the `scores` of the others: its score."""
        return graph.score(inputs)

    def decide(self, scores: "npt.NDArray[np.float32]") -> "npt.NDArray[Any]":
        """Return what is decided by scores, (n,): the same of all."""
        import numpy as np

        return np.zeros(len(scores))

    @abstractmethod
    def quality(self, scores: "npt.NDArray[np.float32]") -> float:
        """Return the metric."""

    @abstractmethod
    def resample(self, scores: "npt.NDArray[np.float32]") -> "npt.NDArray[np.floating[Any]]":
        """Return the metric of every resample of the rows, which are the same for all scores."""


class OptimizationTask(ABC):
    """On what other forms of a graph are measured."""

    @abstractmethod
    def read_samples(
        self, config: Any, features: Table, uri: str, model: ModelPackage, limit: float
    ) -> "tuple[Tensors, OptimizationRows]":
        """Return a sample of training rows' inputs, by which scales are chosen, and the validation rows.

        Args:
            config: the use case.
            features: by day.
            uri: folder of the model.
            model: its manifest.
            limit: how much of the metric a form may lose.

        Raises:
            UserError: when the features are not what the model takes.
        """

    def reference(self, features: Table, uri: str, model: ModelPackage, graph: "Graph") -> "pd.DataFrame":
        """Return the sample that drift is measured against, as another form of the graph sees it: as it is."""
        return package.read_reference(uri)

    def answer_files(
        self, features: Table, uri: str, model: ModelPackage, form: bytes | None
    ) -> Iterable[tuple[str, bytes]]:
        """Make the files by which requests are answered besides the graph that is served; none, as here.

        Args:
            features: by day.
            uri: folder of the model.
            model: its manifest.
            form: the graph that takes the place of the selected candidate's; None: that one is served.

        Returns:
            name and content of each, of a format of the package.
        """
        return ()

    def engine_variants(
        self, config: Any, features: Table, uri: str, model: ModelPackage, folder: Path
    ) -> list[EngineVariant]:
        """Write files by which engines generate text into a folder, and judge them; none where none is wanted.

        Args:
            config: the use case.
            features: by day.
            uri: folder of the model.
            model: its manifest.
            folder: to write into.

        Returns:
            the unquantized one first, unless none can be made; what cannot be made or measured says why.
        """
        return []
