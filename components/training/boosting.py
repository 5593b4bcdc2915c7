"""Checkpoints of a boosting: the trees so far, to which a resumed one adds the rest."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import xgboost
from xgboost.callback import TrainingCallback

from components.common import storage
from components.neural import preemption
from components.neural.preemption import Notice


@dataclass(eq=False)
class Saving(TrainingCallback):  # type: ignore[misc]
    """Saves a booster every so many seconds, and when the machine is about to be taken away.

    Attributes:
        uri: of the file.
        seconds: between two checkpoints.
        notice: whether the boosting has to end.
    """

    uri: str
    seconds: float
    notice: Notice
    _saved: float = field(default_factory=time.monotonic)

    def after_iteration(self, model: xgboost.Booster, epoch: int, evals_log: object) -> bool:  # noqa: ARG002
        """Save the booster after a round, when it is time.

        Raises:
            PreemptedError: when it has to end, after it has been saved.
        """
        if not self.notice.given and time.monotonic() - self._saved < self.seconds:
            return False
        storage.write_bytes(self.uri, bytes(model.save_raw("ubj")))
        self._saved = time.monotonic()
        if self.notice.given:
            raise preemption.preempted(f"round {model.num_boosted_rounds()} is saved in {self.uri}")
        return False


@contextmanager
def kept(folder: str, seconds: float) -> Iterator[tuple[Saving, xgboost.Booster | None]]:
    """Give what saves a boosting below a URI, and the booster that was saved there."""
    uri, booster = storage.join(folder, "booster.ubj"), None
    if storage.exists(uri):
        booster = xgboost.Booster()
        booster.load_model(bytearray(storage.read_bytes(uri)))
    with preemption.heeded() as notice:
        yield Saving(uri, seconds, notice), booster
