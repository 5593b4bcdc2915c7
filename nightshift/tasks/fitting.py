"""What every task fits: a candidate's circumstances, what comes of them, and estimators of scikit-learn's interface."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from nightshift.config.neural import Trainer
from nightshift.contracts.package import REASONS
from nightshift.models.contributions import Contributions, Term
from nightshift.models.neural.data import RESIDENT
from nightshift.models.neural.losses import Points
from nightshift.runtime.errors import UserError, check_names

# set by the step itself, or fixed because the exported graph is written for one value only
RESERVED = {"booster", "device", "n_jobs", "objective", "random_state"}

REPLICATED = Trainer()


@dataclass(frozen=True)
class FitSpec:
    """What to fit, besides the rows.

    Attributes:
        field: where the parameters stand in the config, for messages.
        parameters: under the library's own names.
        seed: of everything random.
        threads: CPU threads.
        device: `cpu` or `cuda`.
        trainer: how processes share the training of a network.
        checkpoints: URI of the folder of this training's checkpoints; empty for none.
        nullable: whether numbers may be missing, NaN among the inputs.
        resident: bytes of inputs up to which a network has all on the device; of more, a batch at a time.
        columns: positions of the inputs that it takes; None: all.
        validation: inputs and labels of rows of later days, by which it may choose what the parameters leave open.
        choices: what it has chosen by them before, which is kept.
        members: name of a candidate that it is made of -> a function that fits that one.
    """

    field: str
    parameters: Mapping[str, Any]
    seed: int
    threads: int
    device: str
    trainer: Trainer = REPLICATED
    checkpoints: str = ""
    nullable: bool = False
    resident: int = RESIDENT
    columns: Sequence[int] | None = None
    validation: tuple[npt.NDArray[np.float32], npt.NDArray[np.int8]] | None = None
    choices: Mapping[str, float] = dataclasses.field(default_factory=dict)
    members: "Mapping[str, Callable[[], Fitted]]" = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """A fitted model.

    Attributes:
        export: gives the model as ONNX.
        predict: the library's own probabilities of what the graph takes, to compare that with.
        losses: (step, mean training loss since the point before) of what is trained in steps.
        validation_losses: (step, loss after it) of rows that its training held out.
        save_files: makes files by which others than the server load it, JSON or safetensors: names and bytes.
        choices: what it has chosen by the validation rows.
        split_margin: gives the terms whose sum is the margin, by which a score has reasons; none where it has none.
    """

    export: Callable[[], bytes]
    predict: Callable[[Any], Any]
    losses: Points = field(default_factory=list)
    validation_losses: Points = field(default_factory=list)
    save_files: Callable[[], Iterable[tuple[str, bytes]]] = tuple
    choices: Mapping[str, float] = field(default_factory=dict)
    split_margin: Callable[[], Sequence[Term]] = tuple

    @cached_property
    def graph(self) -> bytes:
        """The model as ONNX, exported once."""
        return self.export()


def with_reasons(fitted: Fitted) -> Fitted:
    """Return a model with the file of its reasons among its files, where it has any."""

    def save() -> Iterator[tuple[str, bytes]]:
        yield from fitted.save_files()
        if terms := fitted.split_margin():
            yield REASONS, Contributions(terms).content

    return dataclasses.replace(fitted, save_files=save)


def fit_estimator(
    estimator: Any, spec: FitSpec, own: Mapping[str, Any], matrix: Any, labels: npt.NDArray[Any], **fit_options: Any
) -> Any:
    """Fit an estimator of the scikit-learn interface with the spec's parameters, and our own where they are silent."""
    check_names(spec.field, spec.parameters, set(estimator().get_params()) - RESERVED)
    model = estimator(**{**own, **spec.parameters})
    try:
        # sums differ with the number of BLAS threads, so it is not left to the machine
        with threadpool_limits(spec.threads):
            return model.fit(matrix, labels, **fit_options)
    except (TypeError, ValueError) as error:
        message = " ".join(str(error).split("Stack trace")[0].split())
        raise UserError(f"{spec.field}: {estimator.__name__} refuses them: {message}") from None
