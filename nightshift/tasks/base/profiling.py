"""What the profiling step and `nightshift perf tune` ask: the training as something that is measured."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from nightshift.contracts.package import ModelPackage
from nightshift.contracts.profile import PhaseName
from nightshift.runtime.errors import UserError
from nightshift.tasks.base.training import TrainingSetup

if TYPE_CHECKING:
    from nightshift.models.neural.configured import ConfiguredNetwork
    from nightshift.models.tensors import Tensors
    from nightshift.tasks.fitting import Fitted


@dataclass(frozen=True)
class ProfiledFit(ABC):
    """A model whose training is measured.

    Attributes:
        name: of the candidate.
        kind: of the candidate.
    """

    batch_size: ClassVar[int]  # rows of a large call
    name: str
    kind: str

    @property
    @abstractmethod
    def device(self) -> str:
        """`cpu` or `cuda`."""

    @property
    @abstractmethod
    def is_network(self) -> bool:
        """Whether PyTorch trains it."""

    @property
    @abstractmethod
    def inputs(self) -> "Tensors":
        """What its graph takes of the training rows."""

    @abstractmethod
    def fit(self) -> "Fitted":
        """Fit it, as the training does."""

    @abstractmethod
    def brief(self) -> "Callable[[], Fitted]":
        """Return a fit short enough for a trace that shows every operation."""


class ProfilingTask(ABC):
    """The training as something that is measured."""

    @abstractmethod
    def selected_fit(
        self,
        setup: TrainingSetup[Any],
        model: ModelPackage,
        phase: Callable[[PhaseName], AbstractContextManager[None]],
        /,
    ) -> ProfiledFit:
        """Return the fit of a model's selected candidate on the training rows.

        Args:
            setup: of the training.
            model: names the candidate, its kind and its parameters.
            phase: measures the reading of the rows, and the making of what the candidate takes.
        """

    def network(self, config: Any, name: str, inputs: int | None) -> "ConfiguredNetwork":
        """Return a network among the candidates of a config.

        Args:
            config: the use case.
            name: of the candidate.
            inputs: numbers of a row, where it is a table's; None for those that the config asks for.

        Raises:
            UserError: when its recipe refuses a parameter, or nothing of it is trained.
        """
        raise UserError(f"task.kind {config.task.kind!r} has no network to tune")
